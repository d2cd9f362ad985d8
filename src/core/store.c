#include "store.h"

#include "alloc.h"
#include "declaration.h"
#include "hash.h"

#include <string.h>

/* A spare for longer names is not kept: one long name must not occupy memory for ever. */
enum { SPARE_UNITS_MOST = WLK_CAPACITY(2048, 2) };

/* A spare has this length while it has no name. No string can be that long. */
#define NO_NAME UINT32_MAX

/* Resources with names of at most this length come from a pool. */
enum { SHORT_UNITS = WLK_CAPACITY(24, 4) };

/* A resource with this place is not from a pool. */
enum { NO_PLACE = UINT8_MAX };

/* An agent keeps this many requests and resources for its next burst: some 280 kB together. */
enum { KEPT = WLK_CAPACITY(1024, 1) };

void wlk_store_init(struct wlk_agent *agent)
{
  wlk_pool_init(&agent->request_pool, sizeof(struct wlk_request), KEPT);
  wlk_pool_init(
      &agent->name_pool, sizeof(struct wlk_resource) + SHORT_UNITS * sizeof(uint16_t), KEPT);
}

static void free_resource(struct wlk_agent *agent, struct wlk_resource *resource)
{
  if (resource->place == NO_PLACE)
    wlk_free(resource);
  else
    wlk_pool_give(&agent->name_pool, resource, resource->place);
}

void wlk_store_clear(struct wlk_agent *agent)
{
  if (agent->spare) free_resource(agent, agent->spare);
  wlk_pool_clear(&agent->name_pool);
  wlk_pool_clear(&agent->request_pool);
}

void wlk_agent_trim(struct wlk_agent *agent)
{
  wlk_store_clear(agent);
  agent->spare = NULL;
}

static struct wlk_resource *new_resource(struct wlk_agent *agent, uint32_t length)
{
  uint8_t place = NO_PLACE;
  uint32_t capacity = length <= SHORT_UNITS ? SHORT_UNITS : length;
  struct wlk_resource *resource =
      length <= SHORT_UNITS ? wlk_pool_take(&agent->name_pool, &place)
                            : wlk_alloc(sizeof *resource + capacity * sizeof resource->name[0]);
  if (!resource) return NULL;
  resource->entry.name = resource->name;
  resource->entry.length = NO_NAME;
  resource->capacity = capacity;
  resource->place = place;
  return resource;
}

/* Replaces a spare that is too small. Returns NULL if out of memory. */
static struct wlk_resource *get_spare_with_room(struct wlk_agent *agent, uint32_t length)
{
  if (agent->spare && agent->spare->capacity >= length) return agent->spare;
  struct wlk_resource *resource = new_resource(agent, length);
  if (!resource) return NULL;
  if (agent->spare) free_resource(agent, agent->spare);
  agent->spare = resource;
  return resource;
}

struct wlk_resource *wlk_resource_prepare(
    struct wlk_agent *agent, const uint16_t *name, uint32_t length)
{
  struct wlk_resource *resource = get_spare_with_room(agent, length);
  if (!resource) return NULL;
  struct wlk_entry *entry = &resource->entry;
  /* A request often has the name of the previous request, and hashing takes a fifth of the core's
   * time. */
  if (!wlk_entry_has_name(entry, name, length)) {
    if (length > 0) memcpy(resource->name, name, length * sizeof *name);
    entry->length = length;
    entry->hash = wlk_hash(agent->process->hash_key, name, length);
  }
  entry->next = NULL;
  wlk_list_init(&resource->held);
  wlk_list_init(&resource->queue);
  wlk_list_init(&resource->levels);
  resource->writer = NULL;
  resource->pending = 0;
  resource->limit = 0;
  resource->units = 0;
  resource->limit_is_set = false;
  return resource;
}

struct wlk_request *wlk_request_new(
    struct wlk_agent *agent, enum wlk_mode mode, uint32_t tag, const struct wlk_extra *extra)
{
  uint8_t place;
  struct wlk_request *request = wlk_pool_take(&agent->request_pool, &place);
  if (!request) return NULL;
  wlk_list_init(&request->by_resource);
  wlk_list_init(&request->by_agent);
  wlk_list_init(&request->by_event);
  request->agent = agent;
  request->resource = NULL;
  request->declaration = NULL;
  request->since = wlk_port_now(false);
  request->token = 0;
  request->tag = tag;
  request->weight = extra && extra->limit > 0 && mode == WLK_SHARED ? extra->weight : 0;
  request->mode = (uint8_t)mode;
  request->state = WLK_STATE_PENDING;
  request->news = 0;
  request->shard = wlk_shard_of(agent->spare->entry.hash);
  request->place = place;
  request->blocked = false;
  request->awaited = false;
  request->passes = false;
  if (!extra || (extra->label_length == 0 && !extra->reject_deadlock && extra->priority == 0))
    return request;
  request->declaration = wlk_declaration_new(request, extra);
  if (request->declaration) return request;
  wlk_request_recycle(request);
  return NULL;
}

void wlk_request_recycle(struct wlk_request *request)
{
  if (request->declaration) wlk_declaration_free(request->declaration);
  wlk_pool_give(&request->agent->request_pool, request, request->place);
}

void wlk_resource_recycle(struct wlk_agent *agent, struct wlk_resource *resource)
{
  if (!agent->spare && resource->capacity <= SPARE_UNITS_MOST)
    agent->spare = resource;
  else
    free_resource(agent, resource);
}

void wlk_resource_trim_spare(struct wlk_agent *agent)
{
  struct wlk_resource *spare = agent->spare;
  agent->spare = NULL;
  if (spare) wlk_resource_recycle(agent, spare);
}
