/* Lists of requests in a segment. All of it is derived: after a death the lists are made anew. */
#ifndef WLH_LISTS_H
#define WLH_LISTS_H

#include "store.h"

/* Puts a request, which is in no list of this place, at the end. Cost: O(1). */
void wlh_list_add(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request);

/* The same, but right before another one of the list, unless `before` is 0. */
void wlh_list_insert(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request,
    uint32_t before);

/* Takes a request out of the list that it is in. Cost: O(1). */
void wlh_list_drop(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request);

/* Whether its neighbours, or the ends of the list, lead to a request. Changes nothing, so it may be
 * asked outside. Cost: O(1). */
bool wlh_list_has(
    const struct wlh_arena *arena, const struct wlh_list *list, enum wlh_place place,
    uint32_t request);

/* The request behind `request`; 0 if it is the last. */
static inline uint32_t wlh_list_next(
    const struct wlh_arena *arena, enum wlh_place place, uint32_t request)
{
  return wlh_request_at(arena, request)->links[place].next;
}

/* Whether `a` is to be before `b`, or neither before the other. */
typedef bool wlh_order(const struct wlh_request_cell *a, const struct wlh_request_cell *b);

/* Sorts a chain of requests. Those of which neither is to be before the other keep their order.
 *   chain    the first request; each leads to the next by `links[WLH_BY_RESOURCE].next`
 *   returns  the first of the sorted chain
 *   cost     O(n log m), where it is in order m times in a row; no memory */
uint32_t wlh_chain_sort(struct wlh_arena *arena, uint32_t chain, wlh_order *order);

#endif
