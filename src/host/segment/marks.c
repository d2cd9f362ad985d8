#include "marks.h"

#include "../../core/port.h"
#include "names.h"

static uint64_t mark_now(struct wlh_arena *arena)
{
  if (arena->mark_now != 0) return arena->mark_now;
  double now = wlk_port_continuous_now();
  arena->mark_now = now > 0 ? (uint64_t)now : wlk_port_now(true);
  return arena->mark_now;
}

bool wlh_name_is_marked(struct wlh_arena *arena, uint32_t resource)
{
  uint64_t marked = wlh_resource_at(arena, resource)->marked;
  return marked != 0 && (marked >= WLH_MARKED_FOR_EVER || marked > mark_now(arena));
}

uint64_t wlh_name_endless_mark(struct wlh_arena *arena, uint32_t resource)
{
  return WLH_MARKED_FOR_EVER | wlh_name_full_hash(arena, resource);
}

void wlh_name_mark(struct wlh_arena *arena, uint32_t resource, uint64_t keep_ms)
{
  struct wlh_header *header = wlh_header_of(arena);
  if (!wlh_expect(arena, resource, WLH_KIND_RESOURCE)) return;
  /* The 1 is for the part of the current millisecond that has already passed. */
  uint64_t marked = keep_ms < WLH_COUNT_MOST ? mark_now(arena) + keep_ms + 1
                                             : wlh_name_endless_mark(arena, resource);
  if (header->marks == 0) wlh_commit(&header->marks, 1);
  wlh_commit_wide(&wlh_resource_at(arena, resource)->marked, marked);
}
