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

/* Whether the neighbours of a request, or the ends of the list, lead back to the request. This
 * function may be called outside. Cost: O(1). */
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

/* Sorts a chain of requests, in which `links[WLH_BY_RESOURCE].next` leads from each to the next.
 * The order of equal requests stays. Returns the first one. Cost: O(n log m) for m sorted runs. */
uint32_t wlh_chain_sort(struct wlh_arena *arena, uint32_t chain, wlh_order *order);

#endif
