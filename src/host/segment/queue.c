/* A critical section is a task of the specification's lock task queue. Where the specification
 * enqueues steps on an agent's event loop, the agent's member receives mail, or the call returns
 * the result. */
#include "queue.h"

#include "../../core/held_set.h"
#include "../../core/port.h"
#include "lists.h"
#include "marks.h"
#include "names.h"
#include "pool.h"

void wlh_mailbox_put(struct wlh_arena *arena, uint32_t request)
{
  uint32_t member = wlh_request_at(arena, request)->member & (WLH_MEMBERS - 1);
  wlh_list_add(arena, &wlh_member_at(arena, member)->mailbox, WLH_BY_MAILBOX, request);
  arena->to_notify[member / 64] |= UINT64_C(1) << (member % 64);
}

void wlh_mailbox_remove(struct wlh_arena *arena, uint32_t request)
{
  struct wlh_member *member = wlh_member_at(arena, wlh_request_at(arena, request)->member);
  wlh_list_remove(arena, &member->mailbox, WLH_BY_MAILBOX, request);
}

bool wlh_fits(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t mode,
    uint32_t weight)
{
  if (resource->held.head == 0) return true;
  /* All held locks have the mode of the first one, because an exclusive lock is held alone. */
  bool exclusive = wlh_request_at(arena, resource->held.head)->mode != WLH_SHARED;
  struct wlk_held_set set = {true, exclusive, resource->weight};
  return wlk_held_set_admits(set, mode != WLH_SHARED, weight, wlh_limit_number(resource->limit));
}

static int32_t priority_of(const struct wlh_arena *arena, uint32_t request)
{
  return wlh_request_at(arena, request)->priority;
}

bool wlh_would_be_first(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, int32_t priority)
{
  /* If `levels` is empty, all waiting requests have the same priority, so any of them will do. This
   * reads the last one, because enter_queue then reads that one, too. */
  uint32_t other = resource->levels.head != 0 ? resource->queue.head : resource->queue.tail;
  return other == 0 || priority_of(arena, other) < priority;
}

bool wlh_begins_level(const struct wlh_arena *arena, uint32_t request)
{
  uint32_t before = wlh_request_at(arena, request)->links[WLH_BY_RESOURCE].prev;
  return before != 0 && priority_of(arena, before) > priority_of(arena, request);
}

/* Returns the first request of the highest level below `priority`, or 0 if there is none. */
static uint32_t find_lower(
    struct wlh_arena *arena, const struct wlh_resource_cell *resource, int32_t priority)
{
  uint32_t lower = 0, steps = 0;
  for (uint32_t level = resource->levels.tail; wlh_advance(arena, level, &steps);) {
    if (priority_of(arena, level) >= priority) return lower;
    lower = level;
    level = wlh_request_at(arena, level)->links[WLH_BY_LEVEL].prev;
  }
  return priority_of(arena, resource->queue.head) < priority ? resource->queue.head : lower;
}

static WLK_RARE void enter_among_levels(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  uint32_t lower = find_lower(arena, resource, priority_of(arena, request));
  bool leads = lower != 0 && lower == resource->queue.head;
  wlh_list_insert(arena, &resource->queue, WLH_BY_RESOURCE, request, lower);
  if (leads)
    wlh_list_insert(arena, &resource->levels, WLH_BY_LEVEL, lower, resource->levels.head);
  else if (wlh_begins_level(arena, request))
    wlh_list_insert(arena, &resource->levels, WLH_BY_LEVEL, request, lower);
}

static void enter_queue(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  uint32_t last = resource->queue.tail;
  if (last != 0 && priority_of(arena, last) != priority_of(arena, request))
    enter_among_levels(arena, resource, request);
  else
    wlh_list_add(arena, &resource->queue, WLH_BY_RESOURCE, request);
}

/* In `levels`, the next request of the level replaces the one that leaves. If the highest level
 * becomes empty, the next level becomes the highest one, and leaves `levels`. */
static WLK_RARE void leave_level(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  uint32_t next = wlh_list_next(arena, WLH_BY_RESOURCE, request);
  bool begins = wlh_begins_level(arena, request);
  bool is_last = next == 0 || wlh_begins_level(arena, next);
  if (begins && !is_last) wlh_list_insert(arena, &resource->levels, WLH_BY_LEVEL, next, request);
  if (begins)
    wlh_list_remove(arena, &resource->levels, WLH_BY_LEVEL, request);
  else if (is_last && resource->queue.head == request)
    wlh_list_remove(arena, &resource->levels, WLH_BY_LEVEL, resource->levels.head);
}

static void leave_queue(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  if (resource->levels.head != 0) leave_level(arena, resource, request);
  wlh_list_remove(arena, &resource->queue, WLH_BY_RESOURCE, request);
}

/* `by` is 1, or UINT32_MAX to subtract 1. */
static void count_pending(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t member, uint32_t by)
{
  struct wlh_member *whose = wlh_member_at(arena, member);
  WLH_PUT(resource->pending, resource->pending + by);
  WLH_PUT(whose->npending, whose->npending + by);
}

void wlh_grant(struct wlh_arena *arena, uint32_t request, enum wlh_kind kind)
{
  struct wlh_header *header = wlh_header_of(arena);
  struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint64_t token = header->token + 1;
  /* Another process may have overwritten the header since we entered. */
  if (token <= arena->token || token >= WLH_COUNT_MOST) wlh_note_damage(arena);
  arena->token = token;
  wlh_raise_count(&header->token, token);
  WLH_PUT(cell->token, token);
  WLH_PUT(cell->since, arena->now);
  wlh_commit_kind(arena, request, kind);
}

void wlh_add_to_resource(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  if (wlh_is_held(cell->kind)) {
    wlh_list_add(arena, &resource->held, WLH_BY_RESOURCE, request);
    WLH_PUT(resource->weight, resource->weight + cell->weight);
  } else {
    enter_queue(arena, resource, request);
    count_pending(arena, resource, cell->member, 1);
  }
}

void wlh_process_the_lock_request_queue(struct wlh_arena *arena, uint32_t resource)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t request;
  while ((request = cell->queue.head) != 0 && !arena->poisoned) {
    if (!wlh_expect(arena, request, WLH_KIND_PENDING)) return;
    const struct wlh_request_cell *first = wlh_request_at(arena, request);
    if (!wlh_fits(arena, cell, first->mode, first->weight)) return;
    bool passes = first->passes != 0;
    wlh_grant(arena, request, passes ? WLH_KIND_NEWS_BROKEN : WLH_KIND_NEWS_HELD);
    leave_queue(arena, cell, request);
    count_pending(arena, cell, first->member, UINT32_MAX);
    if (!passes) wlh_add_to_resource(arena, cell, request);
    wlh_mailbox_put(arena, request);
  }
  if (cell->queue.head != 0 || cell->held.head != 0 || arena->poisoned) return;
  if (!wlh_name_is_marked(arena, resource))
    wlh_name_remove(arena, resource);
  else if (cell->limit != WLH_LIMIT_UNSET)
    wlh_commit(&cell->limit, WLH_LIMIT_UNSET);
}

/* Frees a request that is in no list but the list of its agent. */
static void free_request(struct wlh_arena *arena, uint32_t request)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint32_t label = cell->label, units = wlh_read_length(arena, &cell->label_units, WLH_LABEL_MOST);
  uint64_t data = cell->data;
  struct wlh_agent_cell *agent = wlh_agent_at(arena, cell->agent);
  wlh_list_remove(arena, &agent->requests, WLH_BY_AGENT, request);
  wlh_pool_free(arena, request);
  wlh_text_free(arena, label, units);
  wlh_text_free(arena, wlh_data_cell(data), wlh_data_units(data));
}

void wlh_end_broken_cell(struct wlh_arena *arena, uint32_t request)
{
  free_request(arena, request);
}

/* Sections 4.2 and 4.3:
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock
 * https://www.w3.org/TR/2023/WD-web-locks-20230105/#abort-the-request
 * Frees the request, and processes the queue. */
static void remove_from_resource(struct wlh_arena *arena, uint32_t request)
{
  const struct wlh_request_cell *request_cell = wlh_request_at(arena, request);
  uint32_t resource = request_cell->resource;
  if (!wlh_expect(arena, resource, WLH_KIND_RESOURCE)) return;
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  if (request_cell->kind == WLH_KIND_PENDING) {
    leave_queue(arena, cell, request);
    count_pending(arena, cell, request_cell->member, UINT32_MAX);
  } else {
    if (request_cell->kind == WLH_KIND_NEWS_HELD) wlh_mailbox_remove(arena, request);
    wlh_list_remove(arena, &cell->held, WLH_BY_RESOURCE, request);
    WLH_PUT(cell->weight, cell->weight - request_cell->weight);
  }
  free_request(arena, request);
  wlh_process_the_lock_request_queue(arena, resource);
}

void wlh_end_cell(struct wlh_arena *arena, uint32_t request)
{
  if (wlh_kind_of(arena, request) != WLH_KIND_NEWS_BROKEN) {
    remove_from_resource(arena, request);
    return;
  }
  wlh_mailbox_remove(arena, request);
  wlh_end_broken_cell(arena, request);
}
