/* Sections 4.1 to 4.3 of the specification. The functions are named after its algorithms. */
#ifndef WLH_REQUESTS_H
#define WLH_REQUESTS_H

#include "cells.h"

/* The values must be those of enum wlk_option. */
enum wlh_option { WLH_WAIT, WLH_IF_AVAILABLE, WLH_STEAL, WLH_PASS, WLH_PASS_IF_AVAILABLE };

struct wlh_ask {
  uint32_t agent; /* ours */
  uint8_t mode;   /* WLH_EXCLUSIVE, WLH_SHARED */
  uint8_t option; /* enum wlh_option; a theft is exclusive */
  bool bounded;   /* this and the next four fields are as in struct wlk_extra */
  uint32_t max_pending;
  uint32_t limit;
  uint32_t weight;
  int32_t priority;
  const uint16_t *name; /* `name_units` code units */
  uint32_t name_units;
  uint32_t label_units;
  const uint16_t *label; /* `label_units` code units, truncated to WLH_LABEL_MOST; copied */
  uint64_t cookie;       /* identifies the request among all requests of this process */
};

struct wlh_answer {
  uint32_t request; /* on GRANTED and PENDING: the request */
  uint32_t limit;   /* on OTHER_LIMIT: the name's limit; 0 for none */
  bool marked;      /* on GRANTED: whether the name is marked, see marks.h */
  uint64_t token;   /* on GRANTED: greater than the token of any earlier lock of the segment */
  uint32_t needed;  /* on FULL: free cells needed; UINT32_MAX if no number is enough */
};

/* Requests a lock (4.1). Before a refusal, removes dead members that obstruct the request.
 *   returns  WLH_CELLS_GRANTED (no mail reports it again), PENDING, NOT_AVAILABLE, OTHER_LIMIT,
 *            QUEUE_FULL, FULL, LOST, POISONED; OK: the request passes, and would be granted
 *   cost     as wlh_request_a_lock */
enum wlh_cells_status wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);

/* Releases a lock (4.2), or ends a request that has passed, and grants what became grantable.
 *   keep     if the result is OK, the name is marked for so many milliseconds (marks.h): UINT64_MAX
 *            for ever, 0 for no mark. A name may only be marked if no other request holds it
 *   thief    out, on STOLEN
 *   returns  WLH_CELLS_OK, STOLEN (the request also ended), NOT_HELD, LOST, POISONED */
enum wlh_cells_status wlh_cells_release_the_lock(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, uint64_t keep,
    struct wlh_thief *thief);

/* Sets the text that snapshots tell of a lock: `units` code units, at most WLH_DATA_MOST, copied; 0
 * for none.
 *   needed   out, on FULL: free cells needed
 *   returns  WLH_CELLS_OK. The other results change nothing: NOT_HELD (it is pending), STOLEN,
 *            FULL, LOST, POISONED */
enum wlh_cells_status wlh_cells_publish(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, const uint16_t *text,
    uint32_t units, uint32_t *needed);

/* Aborts a request (4.3) and grants the requests that became grantable.
 *   returns  WLH_CELLS_OK (it was pending, or has passed; it ended), LOST, POISONED. On GRANTED and
 *            STOLEN nothing was changed, and the caller must call wlh_cells_release_the_lock */
enum wlh_cells_status wlh_cells_abort_the_request(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Ends a request in any state. Returns WLH_CELLS_OK, LOST, POISONED. */
enum wlh_cells_status wlh_cells_end_the_request(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Whether a request of ours is in the segment and, unless it was stolen or has passed, in the queue
 * or among the locks of its name. The function may be called outside, see wlh_cells_has_member. */
bool wlh_cells_has_request(const struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Whether a pending request waits for another request of its own thread, which would deadlock if it
 * blocked. Cost: O(locks held on the name + requests ahead). */
bool wlh_cells_waits_for_itself(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

#endif
