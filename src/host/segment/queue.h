/* The queue and the locks of a name, and the functions that move requests from one to the other. */
#ifndef WLH_QUEUE_H
#define WLH_QUEUE_H

#include "store.h"

/* Returns a limit as a number; 0 means none. */
static inline uint32_t wlh_limit_number(uint32_t limit)
{
  return limit == WLH_LIMIT_NONE ? 0 : limit;
}

/* Whether a request can be held together with the locks of its name. Section 2.5:
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/#lock-request-grantable */
bool wlh_fits(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t mode,
    uint32_t weight);

bool wlh_would_be_first(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, int32_t priority);

/* Whether a waiting request is the first of a level that is not the highest. */
bool wlh_begins_level(const struct wlh_arena *arena, uint32_t request);

/* Commits a grant. The `kind` is HELD if the caller reports the grant, NEWS_HELD if mail reports
 * it, and NEWS_BROKEN if the request only passes. */
void wlh_grant(struct wlh_arena *arena, uint32_t request, enum wlh_kind kind);

/* Puts a request into the locks or the queue of its name, and counts it. The request must not be in
 * a list of its name yet. Cost: O(1) and, if it waits, O(levels of lower priority). */
void wlh_add_to_resource(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request);

/* Section 4.4: https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
 * If nobody holds the name or waits for it afterwards, removes it, unless it is marked. */
void wlh_process_the_lock_request_queue(struct wlh_arena *arena, uint32_t resource);

/* Puts a NEWS_ request into its member's mailbox, and the member into `to_notify`. */
void wlh_mailbox_put(struct wlh_arena *arena, uint32_t request);

void wlh_mailbox_remove(struct wlh_arena *arena, uint32_t request);

/* Ends a request in any state, removes its mail, and grants the requests that became grantable. */
void wlh_end_cell(struct wlh_arena *arena, uint32_t request);

/* Frees a request that was stolen or has passed. It must no longer be in a mailbox. */
void wlh_end_broken_cell(struct wlh_arena *arena, uint32_t request);

#endif
