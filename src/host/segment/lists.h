/* Lists of requests in a segment. All lists are derived data: a rebuild recreates them. */
#ifndef WLH_LISTS_H
#define WLH_LISTS_H

#include "store.h"

/* Appends a request, which must not be in a list of this `place` yet. Cost: O(1). */
void wlh_list_add(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request);

/* Inserts the request before another request of the list, or appends it if `before` is 0. */
void wlh_list_insert(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request,
    uint32_t before);

void wlh_list_remove(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request);

/* Whether the neighbours of a request, or the ends of the list, lead back to the request. Changes
 * nothing, so it may be called outside. Cost: O(1). */
bool wlh_list_has(
    const struct wlh_arena *arena, const struct wlh_list *list, enum wlh_place place,
    uint32_t request);

static inline uint32_t wlh_list_next(
    const struct wlh_arena *arena, enum wlh_place place, uint32_t request)
{
  return wlh_request_at(arena, request)->links[place].next;
}

/* Whether `a` goes before `b`, or their order does not matter. */
typedef bool wlh_order(const struct wlh_request_cell *a, const struct wlh_request_cell *b);

/* Sorts a chain of requests, and keeps the order of equal requests.
 *   chain    the first request; `links[WLH_BY_RESOURCE].next` leads from each to the next
 *   returns  the first of the sorted chain
 *   cost     O(n log m) for m sorted runs; no memory */
uint32_t wlh_chain_sort(struct wlh_arena *arena, uint32_t chain, wlh_order *order);

#endif
