#include "lists.h"

static struct wlh_link *link_of(struct wlh_arena *arena, enum wlh_place place, uint32_t request)
{
  return &wlh_request_at(arena, request)->links[place];
}

/* `link` has the new neighbours of the request; at an end of the list, one of them is 0. */
static inline void link_between(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request,
    struct wlh_link link)
{
  WLH_PUT(*link_of(arena, place, request), link);
  if (link.prev != 0)
    WLH_PUT(link_of(arena, place, link.prev)->next, request);
  else
    WLH_PUT(list->head, request);
  if (link.next != 0)
    WLH_PUT(link_of(arena, place, link.next)->prev, request);
  else
    WLH_PUT(list->tail, request);
}

void wlh_list_add(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request)
{
  struct wlh_link link = {.prev = list->tail};
  if (link.prev != 0 && !wlh_expect_request(arena, link.prev)) return;
  link_between(arena, list, place, request, link);
}

void wlh_list_insert(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request,
    uint32_t before)
{
  if (before == 0) {
    wlh_list_add(arena, list, place, request);
    return;
  }
  if (!wlh_expect_request(arena, before)) return;
  struct wlh_link link = {.next = before, .prev = link_of(arena, place, before)->prev};
  if (link.prev != 0 && !wlh_expect_request(arena, link.prev)) return;
  link_between(arena, list, place, request, link);
}

void wlh_list_remove(
    struct wlh_arena *arena, struct wlh_list *list, enum wlh_place place, uint32_t request)
{
  struct wlh_link link = *link_of(arena, place, request);
  if (link.next != 0 && !wlh_expect_request(arena, link.next)) return;
  if (link.prev != 0 && !wlh_expect_request(arena, link.prev)) return;
  if (link.prev != 0)
    WLH_PUT(link_of(arena, place, link.prev)->next, link.next);
  else
    WLH_PUT(list->head, link.next);
  if (link.next != 0)
    WLH_PUT(link_of(arena, place, link.next)->prev, link.prev);
  else
    WLH_PUT(list->tail, link.prev);
}

bool wlh_list_has(
    const struct wlh_arena *arena, const struct wlh_list *list, enum wlh_place place,
    uint32_t request)
{
  struct wlh_link link = wlh_request_at(arena, request)->links[place];
  const struct wlh_link *prev = &wlh_request_at(arena, link.prev)->links[place];
  const struct wlh_link *next = &wlh_request_at(arena, link.next)->links[place];
  return wlh_read(link.prev != 0 ? &prev->next : &list->head) == request &&
         wlh_read(link.next != 0 ? &next->prev : &list->tail) == request;
}

static uint32_t *next_of(struct wlh_arena *arena, uint32_t request)
{
  return &link_of(arena, WLH_BY_RESOURCE, request)->next;
}

/* Merges two sorted chains; of equal requests, the requests of `a` come first. */
static uint32_t merge_chains(struct wlh_arena *arena, uint32_t a, uint32_t b, wlh_order *order)
{
  uint32_t first = 0, last = 0, steps = 0;
  while (b != 0 && wlh_advance(arena, a, &steps)) {
    bool from_a = order(wlh_request_at(arena, a), wlh_request_at(arena, b));
    uint32_t *source = from_a ? &a : &b;
    uint32_t request = *source;
    *source = wlh_read(next_of(arena, request));
    if (last == 0)
      first = request;
    else
      WLH_PUT(*next_of(arena, last), request);
    last = request;
  }
  uint32_t rest = a != 0 ? a : b;
  if (last == 0) return rest;
  WLH_PUT(*next_of(arena, last), rest);
  return first;
}

/* Cuts a chain after its first sorted run, and returns the rest. */
static uint32_t cut_first_run(
    struct wlh_arena *arena, uint32_t request, wlh_order *order, uint32_t *steps)
{
  uint32_t next = wlh_read(next_of(arena, request));
  while (next != 0 && order(wlh_request_at(arena, request), wlh_request_at(arena, next)) &&
         wlh_advance(arena, next, steps)) {
    request = next;
    next = wlh_read(next_of(arena, request));
  }
  WLH_PUT(*next_of(arena, request), 0);
  return next;
}

uint32_t wlh_chain_sort(struct wlh_arena *arena, uint32_t chain, wlh_order *order)
{
  uint32_t bins[32] = {0}; /* bins[i] is empty, or merged from 2^i runs */
  uint32_t steps = 0;
  while (wlh_advance(arena, chain, &steps)) {
    uint32_t one = chain;
    chain = cut_first_run(arena, one, order, &steps);
    unsigned i = 0;
    for (; i < 31 && bins[i] != 0; i++) {
      one = merge_chains(arena, bins[i], one, order);
      bins[i] = 0;
    }
    bins[i] = one;
  }
  chain = 0;
  for (unsigned i = 0; i < 32; i++) chain = merge_chains(arena, bins[i], chain, order);
  return chain;
}
