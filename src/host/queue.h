/* The queue of a name and its locks, and what happens to one request in them: sections 2.5, 4.4 and
 * the end of a request. What asks for more stands above: requests.h, members.h. */
#ifndef WLH_QUEUE_H
#define WLH_QUEUE_H

#include "store.h"

/* A limit as it is in a RESOURCE cell, in numbers: 0 for none. */
static inline uint32_t wlh_limit_number(uint32_t limit)
{
  return limit == WLH_LIMIT_NONE ? 0 : limit;
}

/* Whether a request can be held beside what is held on its name. */
bool wlh_fits(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t mode,
    uint32_t weight);

/* Whether a request of this priority would be the first of the queue. */
bool wlh_would_be_first(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, int32_t priority);

/* Whether a request that waits is the first of its level, and that not the highest. */
bool wlh_begins_level(const struct wlh_arena *arena, uint32_t request);

/* The commit of a grant: HELD if the caller tells it, NEWS_HELD if mail does. */
void wlh_grant(struct wlh_arena *arena, uint32_t request, enum wlh_kind kind);

/* What follows from the kind of a request that is in no list of its name: a lock is in its held
 * list, a request that waits in its queue, and both are counted. Cost: O(1) and, if it waits,
 * O(levels of less priority). */
void wlh_enter_name(struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request);

/* Processes the lock request queue (4.4) of a RESOURCE cell, which ends if nobody holds the name or
 * waits for it then. */
void wlh_process_queue(struct wlh_arena *arena, uint32_t resource);

/* Puts a NEWS_ request into its member's mailbox and has the member rung. */
void wlh_mail(struct wlh_arena *arena, uint32_t request);

/* Takes a NEWS_ request out of its member's mailbox. */
void wlh_unmail(struct wlh_arena *arena, uint32_t request);

/* Ends a request whatever it is, with its mail, and grants what became grantable. */
void wlh_end_request(struct wlh_arena *arena, uint32_t request);

/* Takes a stolen lock, which is in no mailbox any more, off its agent and frees it. */
void wlh_end_broken(struct wlh_arena *arena, uint32_t request);

#endif
