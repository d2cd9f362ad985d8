/* What section 4 does to one request or one name, for the modules that need it. */
#ifndef WLH_REQUESTS_H
#define WLH_REQUESTS_H

#include "store.h"

/* Processes the lock request queue (4.4) of a RESOURCE cell. */
void wlh_process_queue(struct wlh_arena *arena, uint32_t resource);

/* Puts a NEWS_ request into its member's mailbox and has the member rung. */
void wlh_mail(struct wlh_arena *arena, uint32_t request);

/* Takes a NEWS_ request out of its member's mailbox. */
void wlh_unmail(struct wlh_arena *arena, uint32_t request);

/* Takes a stolen lock, which is in no mailbox any more, off its agent and frees it. */
void wlh_end_broken(struct wlh_arena *arena, uint32_t request);

/* Whether a request can be held beside what is held on its name. */
bool wlh_fits(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t mode,
    uint32_t weight);

/* A limit as it is in a RESOURCE cell, in numbers: 0 for none. */
static inline uint32_t wlh_limit_number(uint32_t limit)
{
  return limit == WLH_LIMIT_NONE ? 0 : limit;
}

/* Whether `member` lives; our own does. */
static inline bool wlh_lives(const struct wlh_arena *arena, uint32_t member)
{
  return member == arena->member || arena->alive(arena->data, member);
}

#endif
