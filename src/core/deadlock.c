#include "deadlock.h"

#include "declaration.h"
#include "queue.h"

/* Capacity is counted in units. An exclusive request needs ALL. */
#define ALL UINT64_MAX

static uint64_t room_of(const struct wlk_request *request)
{
  return request->mode == WLK_EXCLUSIVE ? ALL : request->weight;
}

/* Returns how many units must be free before the request can get its own. The declared requests
 * ahead of it get theirs first, so this is the largest need of all of them. */
static uint64_t room_needed(const struct wlk_declaration *declaration)
{
  struct wlk_declaration *first = declaration->request->resource->writer;
  uint64_t most = room_of(declaration->request);
  struct wlk_declaration *ahead = first;
  while (ahead && wlk_is_ahead(ahead, declaration) && most != ALL) {
    uint64_t room = room_of(ahead->request);
    if (room > most) most = room;
    ahead = WLK_ITEM(ahead->by_writer.next, struct wlk_declaration, by_writer);
    if (ahead == first) break;
  }
  return most;
}

/* If the resource has no limit, the lock's weight, `room` and the limit are all 0, so shared
 * requests fit. */
static bool leaves_room(const struct wlk_request *lock, uint64_t room)
{
  return lock->mode == WLK_SHARED && room != ALL && lock->weight + room <= lock->resource->limit;
}

/* Adds up the locks on the asker's own resource inside which the asker was made. If they leave it
 * too few units, returns the first of them. */
static struct wlk_request *find_outer_without_room(const struct wlk_declaration *asker)
{
  const struct wlk_request *request = asker->request;
  struct wlk_request *first = NULL;
  uint64_t units = request->weight;
  for (uint32_t i = 0; i < asker->nesting_count; i++) {
    struct wlk_request *lock = asker->nesting[i].outer->request;
    if (lock->state != WLK_STATE_HELD || lock->resource != request->resource) continue;
    if (!first) first = lock;
    units += lock->weight;
  }
  return units > request->resource->limit ? first : NULL;
}

/* Returns whether the asker would overtake a request that was made inside `lock`. The overtaken
 * request would then wait for the asker. */
static bool has_overtaken_inside(
    const struct wlk_declaration *asker, const struct wlk_declaration *lock)
{
  WLK_LIST_FOR_EACH (link, &lock->inner) {
    const struct wlk_declaration *inner = WLK_ITEM(link, struct wlk_nesting, by_lock)->inner;
    if (inner->request->resource == asker->request->resource && wlk_is_ahead(asker, inner))
      return true;
  }
  return false;
}

/* Appends the pending requests that were made inside `lock`, unless the search has already visited
 * them, to the list that ends at `*end`. */
static void append_inner_requests(
    struct wlk_declaration *waiting, struct wlk_declaration *lock, struct wlk_declaration **end)
{
  WLK_LIST_FOR_EACH (link, &lock->inner) {
    struct wlk_declaration *inner = WLK_ITEM(link, struct wlk_nesting, by_lock)->inner;
    if (inner->search == lock->search) continue;
    inner->search = lock->search;
    inner->waiting = waiting;
    inner->through = lock->request;
    inner->found = NULL;
    (*end)->found = inner;
    *end = inner;
  }
}

struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
{
  bool overtakes = wlk_queue_would_overtake(asker->request);
  if (asker->nesting_count == 0 && !overtakes) return NULL;
  uint64_t search = ++process->searches;
  struct wlk_declaration *end = asker;
  asker->found = NULL;
  asker->waiting = NULL;
  asker->through = NULL;
  *last = find_outer_without_room(asker);
  if (*last) return asker;
  for (uint32_t i = 0; i < asker->nesting_count; i++) asker->nesting[i].outer->goal = search;
  for (struct wlk_declaration *waiting = asker; waiting; waiting = waiting->found) {
    uint64_t room = room_needed(waiting);
    WLK_LIST_FOR_EACH (link, &waiting->request->resource->held) {
      *last = WLK_REQUEST_OF(link, by_resource);
      struct wlk_declaration *lock = (*last)->declaration;
      if (!lock || lock->search == search || leaves_room(*last, room)) continue;
      if (lock->goal == search) return waiting;
      if (overtakes && has_overtaken_inside(asker, lock)) return waiting;
      lock->search = search;
      append_inner_requests(waiting, lock, &end);
    }
  }
  return NULL;
}
