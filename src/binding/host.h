/* The host scope in one environment. Each bucket has one agent, even if JavaScript has opened it
 * several times, so that the events of a bucket come in one order: a theft is reported before the
 * grant that follows it. The events of these agents go to the exchange, marked with NEWS_OF_HOST,
 * and use the environment's wake-up. Each agent records whether it caused a wake-up, because it
 * expects exactly one answer to each wake-up.
 *
 * Lifetime: an External owns a handle, which hostOpen creates. hostClose, the cleanup hook of the
 * environment, or the External's finalizer, whichever runs first, releases the agent; the last
 * handle terminates the agent and closes the bucket. The finalizer frees the handle. The requests
 * and jobs of the handle have ended by then, because JavaScript keeps the External while it has
 * any. */
#ifndef WEB_LOCKS_HOST_BINDING_H
#define WEB_LOCKS_HOST_BINDING_H

#include "environment.h"

#include <atomic>

struct HostAgent {
  Environment *environment;
  wlh_bucket *bucket;      /* null once the environment has ended */
  wlh_agent *agent;        /* null once the environment has ended */
  uint32_t handle_count;   /* open handles; the last one to close frees the HostAgent */
  HostAgent *next;         /* in environment->hosts */
  std::atomic<bool> woken; /* whether a wake-up waits for its answer; set by any thread */
};

struct HostHandle {
  HostAgent *host; /* null once the handle is closed */
};

/* Takes the events of the host scope. Must follow taking the events of the core in `drain`. */
void host_take_events(Environment *environment);

/* Returns null if the handle is closed. If the first argument is no External, also returns null,
 * with an exception pending. */
template <typename AnyCall> HostHandle *host_handle(const AnyCall &call)
{
  HostHandle *handle = nullptr;
  if (!call.external(0, &handle)) return nullptr;
  return handle->host && handle->host->agent ? handle : nullptr;
}

#endif
