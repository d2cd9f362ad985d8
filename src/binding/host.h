/* The host scope in one environment: an agent for each bucket of it that JavaScript has opened,
 * however often, so that the events of a bucket come in one order: a request that was robbed hears
 * of it before a request of another opening hears of its grant.
 *
 * Events of these agents go where those of the core's agent go, marked with NEWS_OF_HOST: the
 * exchange of the environment; and so does their wake-up. A wake-up notes which agent it is for,
 * because an agent may be told only once that its wake-up is answered.
 *
 * Life: an opening is made by hostOpen and is owned by an External. hostClose, the cleanup hook of
 * the environment, or the External's finalizer, whichever is first, gives the agent up; the last
 * one to do so terminates it and closes the bucket. The finalizer frees the rest. By then
 * JavaScript has had every request and errand of the opening ended: it keeps the External while it
 * has one. */
#ifndef WEB_LOCKS_HOST_BINDING_H
#define WEB_LOCKS_HOST_BINDING_H

#include "environment.h"

#include <atomic>

struct HostAgent {
  Environment *environment;
  wlh_bucket *bucket;      /* null once the environment has ended */
  wlh_agent *agent;        /* likewise */
  uint32_t openings;       /* how many have it; the last one frees it */
  HostAgent *next;         /* in environment->hosts */
  std::atomic<bool> woken; /* whether a wake-up came that is not answered yet; any thread sets it */
};

struct HostOpening {
  HostAgent *host; /* null once it is closed */
};

/* Takes events of all agents of the host scope, after those that `drain` took of the core. */
void host_take_events(Environment *environment);

/* The opening that an External stands for; null with an exception pending, or if it is closed. */
template <typename AnyCall> HostOpening *host_opening(const AnyCall &call)
{
  HostOpening *opening = nullptr;
  if (!call.external(0, &opening)) return nullptr;
  return opening->host && opening->host->agent ? opening : nullptr;
}

#endif
