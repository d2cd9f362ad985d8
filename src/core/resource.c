#include "resource.h"

#include "alloc.h"
#include "hash.h"

#include <string.h>

/* A spare with more room than this is not kept: one long name must not occupy memory for ever. */
enum { SPARE_UNITS_MOST = 2048 };

/* The length of a spare's name before it has one: no string is that long. */
#define NO_NAME UINT32_MAX

static struct wlk_resource *spare_with_room(struct wlk_agent *agent, uint32_t length)
{
  if (agent->spare && agent->spare->capacity >= length) return agent->spare;
  uint32_t capacity = (length | 3) + 1; /* a little more, for the next name */
  struct wlk_resource *resource = wlk_alloc(sizeof *resource + capacity * sizeof resource->name[0]);
  if (!resource) return NULL;
  resource->entry.name = resource->name;
  resource->entry.length = NO_NAME;
  resource->capacity = capacity;
  wlk_free(agent->spare);
  agent->spare = resource;
  return resource;
}

struct wlk_resource *wlk_resource_prepare(
    struct wlk_agent *agent, const uint16_t *name, uint32_t length)
{
  struct wlk_resource *resource = spare_with_room(agent, length);
  if (!resource) return NULL;
  struct wlk_entry *entry = &resource->entry;
  /* The same name as the last time is the common case, and hashing is a fifth of what the
   * core does for a request. */
  if (!wlk_entry_has_name(entry, name, length)) {
    if (length > 0) memcpy(resource->name, name, length * sizeof *name);
    entry->length = length;
    entry->hash = wlk_hash(agent->process->hash_key, name, length);
  }
  entry->next = NULL;
  wlk_list_init(&resource->held);
  wlk_list_init(&resource->queue);
  resource->writer = NULL;
  resource->pending = 0;
  resource->limit = 0;
  resource->units = 0;
  resource->limit_is_set = false;
  return resource;
}

struct wlk_resource *wlk_resource_get(struct wlk_turn *turn, struct wlk_manager *manager)
{
  struct wlk_resource *spare = turn->caller->spare;
  struct wlk_entry *known = wlk_table_find(&manager->resources, &spare->entry);
  if (known) return WLK_ITEM(known, struct wlk_resource, entry);
  turn->caller->spare = NULL;
  spare->manager = manager;
  wlk_turn_insert(turn, &manager->resources, &spare->entry);
  manager->name_units += spare->entry.length;
  return spare;
}

void wlk_resource_drop_if_unused(struct wlk_turn *turn, struct wlk_resource *resource)
{
  if (!wlk_list_is_empty(&resource->held) || !wlk_list_is_empty(&resource->queue)) return;
  wlk_turn_remove(turn, &resource->manager->resources, &resource->entry);
  resource->manager->name_units -= resource->entry.length;
  resource->entry.next = turn->resources;
  turn->resources = &resource->entry;
}

struct wlk_request *wlk_request_new(
    struct wlk_agent *agent, enum wlk_mode mode, uint32_t tag, const struct wlk_extra *extra)
{
  struct wlk_request *request = agent->spare_request;
  agent->spare_request = NULL;
  if (!request) request = wlk_alloc(sizeof *request);
  if (!request) return NULL;
  wlk_list_init(&request->by_resource);
  wlk_list_init(&request->by_agent);
  wlk_list_init(&request->by_event);
  request->agent = agent;
  request->resource = NULL;
  request->declaration = NULL;
  request->since = 0;
  request->token = 0;
  request->tag = tag;
  request->weight = extra && extra->limit > 0 && mode == WLK_SHARED ? extra->weight : 0;
  request->mode = (uint8_t)mode;
  request->state = WLK_STATE_PENDING;
  request->news = 0;
  request->blocked = false;
  if (!extra || (extra->label_length == 0 && !extra->reject_deadlock)) return request;
  request->declaration = wlk_declaration_new(request, extra);
  if (request->declaration) return request;
  wlk_request_recycle(agent, request);
  return NULL;
}

void wlk_request_recycle(struct wlk_agent *agent, struct wlk_request *request)
{
  wlk_free(request->declaration);
  if (agent && !agent->spare_request)
    agent->spare_request = request;
  else
    wlk_free(request);
}

void wlk_resource_recycle(struct wlk_agent *agent, struct wlk_resource *resource)
{
  if (agent && !agent->spare && resource->capacity <= SPARE_UNITS_MOST)
    agent->spare = resource;
  else
    wlk_free(resource);
}

void wlk_resource_trim_spare(struct wlk_agent *agent)
{
  struct wlk_resource *spare = agent->spare;
  agent->spare = NULL;
  if (spare) wlk_resource_recycle(agent, spare);
}

void wlk_request_end(struct wlk_turn *turn, struct wlk_request *request)
{
  wlk_forget_lock(request);
  wlk_list_remove(&request->by_event);
  wlk_list_remove(&request->by_agent);
  request->by_agent.next = turn->requests;
  turn->requests = &request->by_agent;
}
