/* Sections 4.1 to 4.3 of the specification: what a process asks of the locks. */
#ifndef WLH_REQUESTS_H
#define WLH_REQUESTS_H

#include "cells.h"

/* As enum wlk_option. */
enum wlh_option { WLH_WAIT, WLH_IF_AVAILABLE, WLH_STEAL, WLH_PASS, WLH_PASS_IF_AVAILABLE };

struct wlh_ask {
  uint32_t agent; /* ours */
  uint8_t mode;   /* WLH_EXCLUSIVE, WLH_SHARED */
  uint8_t option; /* enum wlh_option; a steal is exclusive */
  bool bounded;   /* as `bounded`, `max_pending`, `limit`, `weight` of struct wlk_extra */
  uint32_t max_pending;
  uint32_t limit;
  uint32_t weight;
  int32_t priority;     /* as in struct wlk_extra */
  const uint16_t *name; /* `name_units` code units */
  uint32_t name_units;
  uint32_t label_units;
  const uint16_t *label; /* `label_units` code units, cut to WLH_LABEL_MOST; copied */
  uint64_t cookie; /* what the process calls the request; no two of its requests have the same */
};

struct wlh_answer {
  uint32_t request; /* if GRANTED or PENDING: the request, together with its cookie */
  uint32_t limit;   /* if OTHER_LIMIT: the name's; 0 if it has none */
  uint64_t token;   /* if GRANTED: greater than that of any lock granted before in this segment */
  uint32_t needed;  /* if FULL: how many cells have to be free; UINT32_MAX if none are enough */
};

/* Requests a lock (4.1). Before the answer is not to wait, `alive` is asked for the members in the
 * way: dead ones are not.
 *   returns  WLH_CELLS_GRANTED (no mail tells it again), PENDING, NOT_AVAILABLE, OTHER_LIMIT,
 *            QUEUE_FULL, FULL, LOST, POISONED; OK: it passes, and nobody is in its way
 *   cost     O(length), whatever else is pending; with a priority, O(other priorities that wait); a
 *            steal O(locks held on the name) */
enum wlh_cells_status wlh_cells_request(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);

/* Releases a lock (4.2) and grants what became grantable. Ends the request, and its mail; also one
 * that has passed.
 *   request, cookie  of ours, not ended
 *   thief    out: if STOLEN
 *   returns  WLH_CELLS_OK, STOLEN (it ended, too), NOT_HELD, LOST, POISONED */
enum wlh_cells_status wlh_cells_release(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, struct wlh_thief *thief);

/* Aborts a request (4.3) and grants what became grantable.
 *   returns  WLH_CELLS_OK (it ended; it was pending, or has passed), GRANTED or STOLEN (nothing was
 *            changed, wlh_cells_release is to end it), LOST, POISONED */
enum wlh_cells_status wlh_cells_abort(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Ends a request whatever it is.
 *   returns  WLH_CELLS_OK, LOST, POISONED */
enum wlh_cells_status wlh_cells_end(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Whether a request of ours is there and, unless it was stolen, found by who looks for its name. As
 * wlh_cells_has_member; outside this is in doubt, too, while others change the same lists.
 *   cost     O(1) */
bool wlh_cells_has_request(const struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Whether a pending request waits for one of its own thread, which ends none while it blocks: as
 * the core's wlk_wait_for_the_lock looks for it.
 *   cost     O(locks held on the name + requests ahead) */
bool wlh_cells_waits_for_itself(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

#endif
