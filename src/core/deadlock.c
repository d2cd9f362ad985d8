#include "deadlock.h"

#include "alloc.h"
#include "resource.h"

#include <string.h>

/* Where a request is in the queue before it is there: behind all. */
#define LAST UINT64_MAX

/* Adds the locks among `locks` that declare, as what `inner` is made inside of. */
static void set_nesting(
    struct wlk_declaration *inner, struct wlk_request *const *locks, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++) {
    struct wlk_declaration *outer = locks[i]->declaration;
    if (!outer || !outer->declares) continue;
    struct wlk_nesting *nesting = &inner->nesting[inner->nesting_count++];
    wlk_list_init(&nesting->by_lock);
    nesting->inner = inner;
    nesting->outer = outer;
  }
}

struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra)
{
  uint32_t inside_count = extra->reject_deadlock ? extra->inside_count : 0;
  size_t label_size = extra->label_length * sizeof *extra->label;
  struct wlk_declaration *declaration =
      wlk_alloc(sizeof *declaration + inside_count * sizeof(struct wlk_nesting) + label_size);
  if (!declaration) return NULL;
  memset(declaration, 0, sizeof *declaration);
  declaration->request = request;
  declaration->declares = extra->reject_deadlock;
  declaration->label_length = extra->label_length;
  declaration->order = LAST;
  wlk_list_init(&declaration->by_writer);
  wlk_list_init(&declaration->inner);
  set_nesting(declaration, extra->inside, inside_count);
  if (label_size > 0)
    memcpy(declaration->nesting + declaration->nesting_count, extra->label, label_size);
  return declaration;
}

uint32_t wlk_label_length(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->label_length : 0;
}

const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration)
{
  return (const uint16_t *)(const void *)(declaration->nesting + declaration->nesting_count);
}

/* ---- what is pending ---- */

/* Also for those that are in no ring: nothing happens. */
static void append_writer(struct wlk_declaration *declaration)
{
  struct wlk_resource *resource = declaration->request->resource;
  if (declaration->request->mode == WLK_SHARED && declaration->request->weight == 0) return;
  if (resource->writer)
    wlk_list_append(&resource->writer->by_writer, &declaration->by_writer);
  else
    resource->writer = declaration;
}

static void remove_writer(struct wlk_declaration *declaration)
{
  struct wlk_resource *resource = declaration->request->resource;
  struct wlk_link *link = &declaration->by_writer;
  if (resource->writer == declaration)
    resource->writer =
        wlk_list_is_empty(link) ? NULL : WLK_ITEM(link->next, struct wlk_declaration, by_writer);
  wlk_list_remove(link);
}

void wlk_declare(struct wlk_process *process, struct wlk_request *request)
{
  struct wlk_declaration *declaration = request->declaration;
  if (!declaration || !declaration->declares) return;
  declaration->pending = true;
  declaration->order = process->declared++;
  append_writer(declaration);
  for (uint32_t i = 0; i < declaration->nesting_count; i++) {
    struct wlk_nesting *nesting = &declaration->nesting[i];
    wlk_list_append(&nesting->outer->inner, &nesting->by_lock);
  }
}

void wlk_withdraw_declaration(struct wlk_request *request)
{
  struct wlk_declaration *declaration = request->declaration;
  if (!declaration || !declaration->pending) return;
  declaration->pending = false;
  remove_writer(declaration);
  for (uint32_t i = 0; i < declaration->nesting_count; i++)
    wlk_list_remove(&declaration->nesting[i].by_lock);
}

void wlk_forget_lock(struct wlk_request *lock)
{
  if (!lock->declaration) return;
  WLK_LIST_DRAIN (link, &lock->declaration->inner) wlk_list_remove(link);
}

/* ---- the search ---- */

/* The most room that a request, or one ahead of it, needs: in units, ALL if it is exclusive. */
#define ALL UINT64_MAX

static uint64_t room_of(const struct wlk_request *request)
{
  return request->mode == WLK_EXCLUSIVE ? ALL : request->weight;
}

static uint64_t room_needed(const struct wlk_declaration *declaration)
{
  struct wlk_declaration *first = declaration->request->resource->writer;
  uint64_t most = room_of(declaration->request);
  struct wlk_declaration *ahead = first;
  while (ahead && ahead->order < declaration->order && most != ALL) {
    uint64_t room = room_of(ahead->request);
    if (room > most) most = room;
    ahead = WLK_ITEM(ahead->by_writer.next, struct wlk_declaration, by_writer);
    if (ahead == first) break;
  }
  return most;
}

/* Whether a lock leaves so much room on its resource. Without a limit the numbers are 0. */
static bool leaves_room(const struct wlk_request *lock, uint64_t room)
{
  return lock->mode == WLK_SHARED && room != ALL && lock->weight + room <= lock->resource->limit;
}

/* The first of the locks that a request was made inside of, on its resource, if all of them
 * together leave it no room; else NULL. */
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

/* Appends the requests that wait inside of `lock`, unless the search has found them, behind `*end`.
 */
static void find_inside(
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
  if (asker->nesting_count == 0) return NULL;
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
      lock->search = search;
      find_inside(waiting, lock, &end);
    }
  }
  return NULL;
}
