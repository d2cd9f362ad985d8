#include "deadlock.h"

#include "alloc.h"
#include "resource.h"

#include <string.h>

struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra)
{
  size_t inside_size = extra->inside_count * sizeof(struct wlk_request *);
  size_t label_size = extra->label_length * sizeof *extra->label;
  struct wlk_declaration *declaration = wlk_alloc(sizeof *declaration + inside_size + label_size);
  if (!declaration) return NULL;
  memset(declaration, 0, sizeof *declaration);
  wlk_list_init(&declaration->by_agent);
  declaration->request = request;
  declaration->declares = extra->reject_deadlock;
  declaration->label_length = extra->label_length;
  declaration->inside_count = extra->inside_count;
  if (inside_size > 0) memcpy(declaration->inside, extra->inside, inside_size);
  if (label_size > 0)
    memcpy(declaration->inside + declaration->inside_count, extra->label, label_size);
  return declaration;
}

uint32_t wlk_label_length(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->label_length : 0;
}

const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration)
{
  return (const uint16_t *)(const void *)(declaration->inside + declaration->inside_count);
}

static bool is_inside(const struct wlk_declaration *declaration, const struct wlk_request *lock)
{
  for (uint32_t i = 0; i < declaration->inside_count; i++)
    if (declaration->inside[i] == lock) return true;
  return false;
}

/* Appends the requests that `lock` waits for, unless the search has found them, behind `*end`. */
static void find_inside(
    struct wlk_declaration *waiting, struct wlk_request *lock, struct wlk_declaration **end)
{
  WLK_LIST_FOR_EACH (link, &lock->agent->declared) {
    struct wlk_declaration *inner = WLK_ITEM(link, struct wlk_declaration, by_agent);
    if (inner->search == (*end)->search || !is_inside(inner, lock)) continue;
    inner->search = (*end)->search;
    inner->waiting = waiting;
    inner->through = lock;
    inner->found = NULL;
    (*end)->found = inner;
    *end = inner;
  }
}

struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
{
  struct wlk_declaration *end = asker;
  asker->search = ++process->searches;
  asker->found = NULL;
  asker->waiting = NULL;
  asker->through = NULL;
  for (struct wlk_declaration *waiting = asker; waiting; waiting = waiting->found) {
    WLK_LIST_FOR_EACH (link, &waiting->request->resource->held) {
      *last = WLK_REQUEST_OF(link, by_resource);
      if (is_inside(asker, *last)) return waiting;
      find_inside(waiting, *last, &end);
    }
  }
  return NULL;
}

void wlk_withdraw_declaration(struct wlk_request *request)
{
  if (request->declaration) wlk_list_remove(&request->declaration->by_agent);
}

void wlk_forget_lock(struct wlk_request *lock)
{
  WLK_LIST_FOR_EACH (link, &lock->agent->declared) {
    struct wlk_declaration *inner = WLK_ITEM(link, struct wlk_declaration, by_agent);
    for (uint32_t i = 0; i < inner->inside_count; i++)
      if (inner->inside[i] == lock) inner->inside[i] = NULL;
  }
}
