#include "queue.h"

#define LEVEL_OF(link) WLK_ITEM(link, struct wlk_declaration, by_level)

static int32_t priority_at(const struct wlk_link *link)
{
  return wlk_priority(WLK_REQUEST_OF(link, by_resource));
}

bool wlk_queue_would_be_first(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  /* Without levels, the first request has priority 0 and need not be read. */
  if (wlk_list_is_empty(&resource->levels)) return wlk_priority(request) > 0;
  return wlk_priority(request) > priority_at(resource->queue.next);
}

bool wlk_queue_would_overtake(const struct wlk_request *request)
{
  const struct wlk_link *queue = &request->resource->queue;
  return !wlk_list_is_empty(queue) && wlk_priority(request) > priority_at(queue->previous);
}

bool wlk_queue_is_overtaken(const struct wlk_request *request)
{
  return priority_at(request->resource->queue.next) > wlk_priority(request);
}

/* Returns the lowest level with this or a higher priority, or the head of the list. */
static struct wlk_link *level_above(struct wlk_resource *resource, int32_t priority)
{
  struct wlk_link *level = resource->levels.previous;
  while (level != &resource->levels && LEVEL_OF(level)->priority < priority)
    level = level->previous;
  return level;
}

/* Returns the link of the queue after which a request of this priority must be inserted; `above` is
 * the result of level_above. */
static struct wlk_link *place_below(
    struct wlk_resource *resource, struct wlk_link *above, int32_t priority)
{
  if (priority > 0)
    return above == &resource->levels ? &resource->queue : &LEVEL_OF(above)->request->by_resource;
  struct wlk_link *below = above->next;
  return below == &resource->levels ? resource->queue.previous
                                    : LEVEL_OF(below)->request->by_resource.previous;
}

/* Makes the request represent its level, unless its priority is below 0 and another request
 * represents this level already. */
static void enter_level(struct wlk_declaration *entered, struct wlk_link *above)
{
  bool is_new = above == &entered->request->resource->levels ||
                LEVEL_OF(above)->priority != entered->priority;
  if (!is_new && entered->priority < 0) return;
  wlk_list_insert(above, &entered->by_level);
  if (!is_new) wlk_list_remove(above);
}

static WLK_RARE void enter_among_levels(struct wlk_request *request)
{
  struct wlk_resource *resource = request->resource;
  int32_t priority = wlk_priority(request);
  struct wlk_link *above = level_above(resource, priority);
  wlk_list_insert(place_below(resource, above, priority), &request->by_resource);
  if (priority != 0) enter_level(request->declaration, above);
}

/* If the request represents its level, its neighbour of the same level represents the level from
 * then on. If there is none, the level is gone. */
static WLK_RARE void leave_level(struct wlk_declaration *leaving)
{
  if (wlk_list_is_empty(&leaving->by_level)) return;
  const struct wlk_request *request = leaving->request;
  struct wlk_link *next =
      leaving->priority > 0 ? request->by_resource.previous : request->by_resource.next;
  if (next != &request->resource->queue && priority_at(next) == leaving->priority) {
    struct wlk_declaration *heir = WLK_REQUEST_OF(next, by_resource)->declaration;
    wlk_list_insert(&leaving->by_level, &heir->by_level);
  }
  wlk_list_remove(&leaving->by_level);
}

void wlk_queue_enter(struct wlk_request *request)
{
  struct wlk_resource *resource = request->resource;
  resource->pending++;
  if (wlk_priority(request) == 0 && wlk_list_is_empty(&resource->levels))
    wlk_list_append(&resource->queue, &request->by_resource);
  else
    enter_among_levels(request);
}

void wlk_queue_leave(struct wlk_request *request)
{
  if (wlk_priority(request) != 0) leave_level(request->declaration);
  wlk_list_remove(&request->by_resource);
  request->resource->pending--;
}
