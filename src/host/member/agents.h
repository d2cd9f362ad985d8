/* Functions that all calls of host.h share, to take events and to end requests. */
#ifndef WLH_AGENTS_H
#define WLH_AGENTS_H

#include "records.h"

/* The caller handles a loss of the tables itself: a status without a match becomes WLH_FULL. */
enum wlh_status wlh_status_of(enum wlh_cells_status status);

bool wlh_news_is_end(uint32_t news);

void wlh_init_item(struct wlh_item *item, struct wlh_agent *agent, uint32_t tag);

/* Keeps a record for the agent's next request, or frees it. Only the agent's thread may call it. */
void wlh_recycle_request(struct wlh_agent *agent, struct wlh_request *request);

/* Ends the record of a request that has no cell, or whose cell has ended. Returns whether the
 * caller must recycle the record; if not, the thread that works on the request frees it. */
bool wlh_end_record(struct wlh_bucket *bucket, struct wlh_request *request)
    WLK_REQUIRES(bucket->qmu);

/* The caller must have qmu. */
void wlh_drop_event(struct wlh_request *request);

/* Unless the caller is inside, `state` may be outdated: another process may steal the lock. */
struct wlh_end_result {
  bool ended; /* whether an event has ended the request before this call */
  bool ours;  /* whether the caller must recycle the record after it has released qmu */
  enum wlh_state state;
};

/* If an event has ended the request, ends its record, and sets `*status` and `events`. */
struct wlh_end_result wlh_take_end(
    struct wlh_bucket *bucket, struct wlh_request *request, enum wlh_status *status,
    struct wlk_events *events) WLK_REQUIRES(bucket->qmu);

/* Takes as many events as fit, and ends the requests and jobs that they complete. */
void wlh_take_events(struct wlh_agent *agent, struct wlk_events *events)
    WLK_REQUIRES(agent->bucket->qmu);

struct wlh_change {
  struct wlh_request *linked; /* a request that was made, or NULL */
  enum wlh_state state;       /* the new state of `linked` */
  struct wlh_request *ended;  /* a request whose cell has ended, to recycle; or NULL */
};

/* Ends the critical section of a call of the agent, and records its effect.
 *   events   out: the agent's events, but none about what other threads or processes did after the
 *            section. If NULL, they stay in the agent's queue, and wake the agent */
void wlh_end_section(
    struct wlh_agent *agent, const struct wlh_change *change, struct wlk_events *events);

#endif
