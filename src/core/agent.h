/* Agents: who requests and holds, and how they are told by others. Public part in weblocks.h.
 *
 * An agent's mutex guards its events. It is taken last of all, under the mutex of a shard or alone,
 * and its own thread takes it only if there are events. */
#ifndef WLK_AGENT_H
#define WLK_AGENT_H

#include "records.h"

/* Adds `news` to what the request's agent will be told. If `wake`, and nobody is about to wake it,
 * the caller has to: the agent is pinned until wlk_agent_wake.
 *   returns whether the caller has to
 *   threads any, with the mutex of the request's shard */
bool wlk_agent_post_event(struct wlk_request *request, enum wlk_news news, bool wake);

/* Calls the wake function of an agent that wlk_agent_post_event or wlk_agent_pin pinned for it, and
 * unpins it. Threads: any, without any mutex. */
void wlk_agent_wake(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

/* Whether the caller has to wake its own agent so that it takes what events it has; pins it.
 * Threads: the agent's own. */
bool wlk_agent_pin(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

/* Appends events that say that a request was granted: all of a list of by_event. Wakes nobody.
 * Threads: the agent's own, with the mutex of the requests' shard. */
void wlk_agent_keep(struct wlk_agent *agent, struct wlk_link *granted) WLK_EXCLUDES(agent->mutex);

/* Takes events off the agent's event queue, behind the `events->count` that are there.
 *   woken    whether the next one is to wake the agent again
 *   stolen   out: the requests that end with their event, chained by `by_event.next`
 *   threads  the agent's own */
void wlk_agent_drain(
    struct wlk_agent *agent, bool woken, struct wlk_events *events, struct wlk_link **stolen)
    WLK_EXCLUDES(agent->mutex);

/* Drops the event of a request that ends. Threads: the agent's own, with the mutex of the request's
 * shard. */
void wlk_agent_drop_event(struct wlk_request *request);

/* Writes an event. */
void wlk_event_write(struct wlk_events *events, const struct wlk_request *request, uint8_t news);

/* Takes the agent off the process and frees it, when no thread is about to wake it any more. It has
 * no requests. Threads: the agent's own. */
void wlk_agent_free(struct wlk_agent *agent) WLK_EXCLUDES(agent->mutex);

#endif
