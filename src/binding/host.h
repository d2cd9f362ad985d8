/* The host scope in one environment. Each bucket has one agent, even if JavaScript has opened it
 * several times, so that the events of a bucket come in one order: a theft is reported before the
 * grant that follows it. The events of these agents go to the exchange, marked with NEWS_OF_HOST,
 * and use the environment's wake-up. Each agent records whether it caused a wake-up, because it
 * expects exactly one answer to each wake-up.
 *
 * Lifetime: an External owns a handle, which hostOpen creates. hostClose or the External's
 * finalizer releases the agent, and the last handle terminates it and closes the bucket. At its
 * end, the environment terminates all agents. JavaScript keeps the External while it has requests
 * or jobs, so these have ended when the finalizer frees the handle. */
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

/* Must follow taking the events of the core in `drain`. */
void host_take_events(Environment *environment);

/* Returns null if the handle is closed or, with an exception pending, if the first argument is no
 * External. */
template <typename AnyCall> HostHandle *host_handle(const AnyCall &call)
{
  HostHandle *handle = nullptr;
  if (!call.external(0, &handle)) return nullptr;
  return handle->host && handle->host->agent ? handle : nullptr;
}

#endif
