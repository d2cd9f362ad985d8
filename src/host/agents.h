/* Agents, and what all calls of host.h about their requests share: events, and how a call that was
 * inside the tables ends. */
#ifndef WLH_AGENTS_H
#define WLH_AGENTS_H

#include "records.h"

/* A status of the tables as one of host.h. */
enum wlh_status wlh_status_of(enum wlh_cells_status status);

/* Whether a request ends with such news. */
bool wlh_ends(uint32_t news);

void wlh_init_item(struct wlh_item *item, struct wlh_agent *agent, uint32_t tag);

/* Keeps a request for the agent's next one, or frees it. Threads: the agent's own. */
void wlh_put_away(struct wlh_agent *agent, struct wlh_request *request);

/* Ends a request that has no cell any more. With qmu. Returns whether it is to be put away; else
 * the thread that is at it frees it. */
bool wlh_end_here(struct wlh_bucket *bucket, struct wlh_request *request) WLK_REQUIRES(bucket->qmu);

/* Drops the news of the grant, which the caller knows. With qmu. */
void wlh_drop_news(struct wlh_request *request);

/* What is known of a request at one moment: outside, the next may bring a theft. */
struct wlh_sight {
  bool ended; /* by itself */
  bool ours;  /* ended, and to be put away after qmu */
  enum wlh_state state;
};

/* If the request has ended by itself, ends the record, too, and says how. With qmu. */
struct wlh_sight wlh_see(
    struct wlh_bucket *bucket, struct wlh_request *request, enum wlh_status *status,
    struct wlk_events *events) WLK_REQUIRES(bucket->qmu);

/* Takes the agent's events, as many as there is room for. With qmu. */
void wlh_take_events(struct wlh_agent *agent, struct wlk_events *events)
    WLK_REQUIRES(agent->bucket->qmu);

/* What the turn did to a request of the agent, to be noted in its record. */
struct wlh_change {
  struct wlh_request *linked; /* made, in this state; NULL for none */
  enum wlh_state state;
  struct wlh_request *ended; /* it has no cell any more: put away; NULL for none */
};

/* Ends the turn of a call of the agent's, and notes what it did.
 *   events   the agent's, taken: none of them is about what others did after the turn. NULL: they
 *            are left, and the agent is woken if it has any
 *   threads  the agent's own, inside */
void wlh_end_turn(
    struct wlh_agent *agent, const struct wlh_change *change, struct wlk_events *events);

#endif
