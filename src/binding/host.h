/* The host scope in one environment. Each bucket has one agent, even if JavaScript has opened it
 * several times, so that the events of a bucket come in one order: a theft is reported before the
 * grant that follows it. The events of these agents go to the exchange, marked with NEWS_OF_HOST,
 * and use the environment's wake-up. Each agent records whether it caused a wake-up, because it
 * expects exactly one answer to each wake-up.
 *
 * Lifetime: hostOpen creates a handle (scope.h). The last handle to close terminates the agent and
 * closes the bucket. At its end, the environment terminates all agents. JavaScript keeps the
 * External while it has requests or jobs, so these have ended when the handle closes. */
#ifndef WEB_LOCKS_HOST_BINDING_H
#define WEB_LOCKS_HOST_BINDING_H

#include "scope.h"

#include <atomic>

struct HostAgent {
  Environment *environment;
  wlh_bucket *bucket;      /* null once the environment has ended */
  wlh_agent *agent;        /* null once the environment has ended */
  uint32_t handle_count;   /* open handles; the last one to close frees the HostAgent */
  HostAgent *next;         /* in environment->hosts */
  std::atomic<bool> woken; /* whether a wake-up waits for its answer; set by any thread */
  bool has_loop;           /* whether libuv runs this thread */
  void *ear;               /* the uv_poll_t that hears wake-ups, or null */
  int heard;               /* the descriptor that it polls */
};

/* Must follow taking the events of the core in `drain`. */
void host_take_events(Environment *environment);

/* Converts the snapshot, with pids, and frees it, or returns the status. */
napi_value answer_host_snapshot(napi_env env, wlh_status status, HostSnapshot *snapshot);

/* Returns the agent of a call's first argument as open_handle does. */
template <typename AnyCall> HostAgent *host_of(const AnyCall &call)
{
  Handle *handle = open_handle(call);
  return handle ? static_cast<HostAgent *>(handle->bucket) : nullptr;
}

#endif
