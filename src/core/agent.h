/* Agents, with their events and wake-ups (see section.h). */
#ifndef WLK_AGENT_H
#define WLK_AGENT_H

#include "records.h"

/* Posts `news` to the request's agent. If `wake` is true and no wake-up is under way, pins the
 * agent and returns true: the caller must call wlk_agent_wake. Threads: any, with the mutex of the
 * request's shard. */
bool wlk_agent_post_event(struct wlk_request *request, enum wlk_news news, bool wake);

/* Wakes a pinned agent, and unpins it. Threads: any, without a mutex. */
void wlk_agent_wake(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

/* If the caller's own agent has events and no wake-up is under way, pins it and returns true: the
 * caller must wake it. */
bool wlk_agent_pin_if_events(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

/* Posts grants to the requests of `granted`, a list of by_event, without a wake-up. Threads: the
 * agent's own, with the mutex of the requests' shard. */
void wlk_agent_queue_grants(struct wlk_agent *agent, struct wlk_link *granted)
    WLK_EXCLUDES(agent->mutex);

/* See wlk_agent_take_events. `*stolen` becomes the chain, by `by_event.next`, of the requests that
 * end with their event. */
void wlk_agent_drain(
    struct wlk_agent *agent, bool woken, struct wlk_events *events, struct wlk_link **stolen)
    WLK_EXCLUDES(agent->mutex);

/* Drops the request's event, if any. Threads: the agent's own, with the mutex of the shard. */
void wlk_agent_drop_event(struct wlk_request *request);

/* Appends an event, for which `events` must have room. */
void wlk_event_write(struct wlk_events *events, const struct wlk_request *request, uint8_t news);

/* Frees an agent without requests, once no thread is about to wake it. Threads: the agent's own. */
void wlk_agent_free(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

#endif
