#include "declaration.h"

#include "alloc.h"

#include <string.h>

/* A request that is not in the queue yet comes after all requests of its priority. */
#define LAST UINT64_MAX

/* Locks that do not declare are left out. */
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
  declaration->priority = extra->priority;
  declaration->order = LAST;
  wlk_list_init(&declaration->by_level);
  wlk_list_init(&declaration->by_writer);
  wlk_list_init(&declaration->inner);
  set_nesting(declaration, extra->inside, inside_count);
  if (label_size > 0)
    memcpy(declaration->nesting + declaration->nesting_count, extra->label, label_size);
  return declaration;
}

void wlk_declaration_free(struct wlk_declaration *declaration)
{
  if (declaration->data) wlk_free(declaration->data);
  wlk_free(declaration);
}

struct wlk_data *wlk_data_new(const uint16_t *units, uint32_t length)
{
  struct wlk_data *data = wlk_alloc(sizeof *data + length * sizeof *units);
  if (!data) return NULL;
  data->length = length;
  memcpy(data->units, units, length * sizeof *units);
  return data;
}

const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration)
{
  return (const uint16_t *)(const void *)(declaration->nesting + declaration->nesting_count);
}

#define WRITER_OF(link) WLK_ITEM(link, struct wlk_declaration, by_writer)

/* Inserts the request into the ring of its resource, unless it is shared and has no weight. */
static void insert_writer(struct wlk_declaration *declaration)
{
  struct wlk_resource *resource = declaration->request->resource;
  struct wlk_declaration *first = resource->writer;
  if (declaration->request->mode == WLK_SHARED && declaration->request->weight == 0) return;
  if (!first || wlk_is_ahead(declaration, first)) resource->writer = declaration;
  if (!first) return;
  /* `ahead` starts at the last request of the ring. A new first request also goes behind that one,
   * because in a ring this is the place before the old first request. */
  struct wlk_link *ahead = first->by_writer.previous;
  while (resource->writer == first && wlk_is_ahead(declaration, WRITER_OF(ahead)))
    ahead = ahead->previous;
  wlk_list_insert(ahead, &declaration->by_writer);
}

static void remove_writer(struct wlk_declaration *declaration)
{
  struct wlk_resource *resource = declaration->request->resource;
  struct wlk_link *link = &declaration->by_writer;
  if (resource->writer == declaration)
    resource->writer = wlk_list_is_empty(link) ? NULL : WRITER_OF(link->next);
  wlk_list_remove(link);
}

void wlk_declare(struct wlk_process *process, struct wlk_request *request)
{
  struct wlk_declaration *declaration = request->declaration;
  declaration->pending = true;
  declaration->order = process->declared++;
  insert_writer(declaration);
  for (uint32_t i = 0; i < declaration->nesting_count; i++) {
    struct wlk_nesting *nesting = &declaration->nesting[i];
    wlk_list_append(&nesting->outer->inner, &nesting->by_lock);
  }
}

void wlk_withdraw_declaration(struct wlk_process *process, struct wlk_request *request)
{
  (void)process;
  struct wlk_declaration *declaration = request->declaration;
  if (!declaration || !declaration->pending) return;
  declaration->pending = false;
  remove_writer(declaration);
  for (uint32_t i = 0; i < declaration->nesting_count; i++)
    wlk_list_remove(&declaration->nesting[i].by_lock);
}

void wlk_unlink_inner_requests(struct wlk_process *process, struct wlk_request *lock)
{
  (void)process;
  if (!lock->declaration) return;
  WLK_LIST_DRAIN (link, &lock->declaration->inner) wlk_list_remove(link);
}
