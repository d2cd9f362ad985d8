/* The host scope in one environment: what it has opened of it, one HostOpening for each bucket that
 * JavaScript opened, with an agent of its own.
 *
 * Events of these agents go where those of the core's agent go, marked with NEWS_OF_HOST: the
 * exchange of the environment; and so does their wake-up. A wake-up notes which agent it is for,
 * because an agent may be told only once that its wake-up is answered.
 *
 * Life: an opening is made by hostOpen and is owned by an External. hostClose, the cleanup hook of
 * the environment, or the External's finalizer, whichever is first, terminates the agent and closes
 * the bucket; the finalizer frees the rest. By then JavaScript has had every request ended: it
 * keeps the External while it has one. */
#ifndef WEB_LOCKS_HOST_BINDING_H
#define WEB_LOCKS_HOST_BINDING_H

#include "environment.h"

#include <atomic>

/* A bit that is in the news of every event of the host scope, and is none of enum wlh_news. */
enum : uint32_t { NEWS_OF_HOST = 1u << 30 };

struct HostOpening {
  Environment *environment;
  wlh_bucket *bucket;      /* null once it is closed */
  wlh_agent *agent;        /* null once it is closed */
  HostOpening *next;       /* in environment->hosts, while it is open */
  std::atomic<bool> woken; /* whether a wake-up came that is not answered yet; any thread sets it */
};

/* Publishes what a call of the host scope answered, and its events. To be called after every call
 * that was given environment_events. */
void host_publish(Environment *environment);

/* Takes events of all agents of the host scope, after those that `drain` took of the core. */
void host_take_events(Environment *environment);

/* Keeps a request, or, with null, an errand. The event loop lives while it is pending. */
void host_keep(Environment *environment, uint32_t tag, HostRequest *request, bool pending);

/* The opening that an External stands for; null with an exception pending, or if it is closed. */
template <typename AnyCall> HostOpening *host_opening(const AnyCall &call)
{
  HostOpening *opening = nullptr;
  if (!call.external(0, &opening)) return nullptr;
  return opening->agent ? opening : nullptr;
}

#endif
