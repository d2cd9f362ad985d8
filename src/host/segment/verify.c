#include "verify.h"

#include "lists.h"
#include "names.h"
#include "pool.h"
#include "queue.h"

/* The counts so far. The cells and the lists are counted separately, and both counts must agree. */
struct found {
  struct wlh_arena *arena;
  const char *broken;
  uint32_t texts, resources, requests, waiting, held, news; /* cells of these kinds */
  uint32_t pending_of[WLH_MEMBERS];
  uint32_t text_parts; /* of names, labels, what is published, threads */
  uint32_t listed_resources, queued, holding, mailed, of_agents;
};

/* Records the first demand that does not hold, and returns false from then on. */
static bool demand(struct found *found, bool holds, const char *sentence)
{
  if (!holds && !found->broken) found->broken = sentence;
  return !found->broken;
}

static bool is_kind(const struct found *found, uint32_t cell, uint32_t kind)
{
  return cell > 0 && cell < found->arena->ncells && wlh_kind_of(found->arena, cell) == kind;
}

static void check_text(struct found *found, uint32_t first, uint32_t units)
{
  for (uint32_t i = wlh_text_cell_count(units); i > 0; i--) {
    if (!demand(found, is_kind(found, first, WLH_KIND_TEXT), "a text is not whole")) return;
    found->text_parts++;
    first = wlh_cell_at(found->arena, first)->text.next;
  }
  demand(found, first == 0, "a text does not end");
}

struct of_list {
  enum wlh_place place;
  bool (*belongs)(const struct wlh_request_cell *cell, uint32_t owner);
  uint32_t owner;
  /* Whether `cell` may directly follow `before`; NULL if every order is allowed. */
  bool (*follows)(const struct wlh_request_cell *cell, const struct wlh_request_cell *before);
};

/* Returns the length of the list. */
static uint32_t check_list(
    struct found *found, const struct wlh_list *list, const struct of_list *of)
{
  uint32_t count = 0, previous = 0;
  for (uint32_t i = list->head; i != 0 && !found->broken; count++) {
    bool is = i < found->arena->ncells && wlh_is_request(wlh_kind_of(found->arena, i));
    if (!demand(found, is && count < found->arena->ncells, "a list leads astray")) break;
    const struct wlh_request_cell *cell = wlh_request_at(found->arena, i);
    demand(found, cell->links[of->place].prev == previous, "a list does not lead back");
    demand(found, of->belongs(cell, of->owner), "a request is in a list of others");
    bool follows =
        !of->follows || previous == 0 || of->follows(cell, wlh_request_at(found->arena, previous));
    demand(found, follows, "a list is out of order");
    previous = i;
    i = cell->links[of->place].next;
  }
  demand(found, list->tail == previous, "a list ends elsewhere");
  return count;
}

static bool waits_for(const struct wlh_request_cell *cell, uint32_t resource)
{
  return cell->kind == WLH_KIND_PENDING && cell->resource == resource;
}

static bool holds(const struct wlh_request_cell *cell, uint32_t resource)
{
  return wlh_is_held(cell->kind) && cell->resource == resource;
}

static bool is_mail_of(const struct wlh_request_cell *cell, uint32_t member)
{
  return wlh_is_news(cell->kind) && cell->member == member;
}

static bool is_of_agent(const struct wlh_request_cell *cell, uint32_t agent)
{
  return cell->agent == agent;
}

static bool came_later(const struct wlh_request_cell *cell, const struct wlh_request_cell *before)
{
  return cell->ticket > before->ticket;
}

static bool has_less_priority(
    const struct wlh_request_cell *cell, const struct wlh_request_cell *before)
{
  return cell->priority < before->priority;
}

static bool is_behind(const struct wlh_request_cell *cell, const struct wlh_request_cell *before)
{
  return has_less_priority(cell, before) ||
         (cell->priority == before->priority && came_later(cell, before));
}

static void check_limit(
    struct found *found, const struct wlh_resource_cell *resource,
    const struct wlh_request_cell *cell)
{
  uint32_t limit = wlh_limit_number(resource->limit);
  bool unset = resource->limit == WLH_LIMIT_UNSET;
  if (cell->mode == WLH_EXCLUSIVE)
    demand(found, cell->weight == 0, "an exclusive request has a weight");
  else
    demand(
        found, !unset && (limit == 0) == (cell->weight == 0) && cell->weight <= limit,
        "a weight does not go with its limit");
}

static void check_held(
    struct found *found, const struct wlh_resource_cell *resource, uint32_t count)
{
  uint64_t weight = 0, token = 0;
  for (uint32_t i = resource->held.head; i != 0 && !found->broken;) {
    const struct wlh_request_cell *cell = wlh_request_at(found->arena, i);
    demand(found, count == 1 || cell->mode == WLH_SHARED, "an exclusive lock is not alone");
    demand(found, cell->token > token, "the tokens of a name do not grow");
    check_limit(found, resource, cell);
    weight += cell->weight;
    token = cell->token;
    i = cell->links[WLH_BY_RESOURCE].next;
  }
  demand(found, weight == resource->weight, "the weights of a name do not add up");
  demand(found, weight <= wlh_limit_number(resource->limit), "more is held than the limit");
  demand(found, token <= wlh_header_of(found->arena)->token, "a token is greater than the last");
}

static void check_queue(struct found *found, const struct wlh_resource_cell *resource)
{
  uint32_t first = resource->queue.head, level = resource->levels.head;
  for (uint32_t i = first; i != 0 && !found->broken;) {
    const struct wlh_request_cell *cell = wlh_request_at(found->arena, i);
    check_limit(found, resource, cell);
    if (wlh_begins_level(found->arena, i)) {
      demand(found, i == level, "a level of a queue is not listed");
      level = cell->links[WLH_BY_LEVEL].next;
    }
    i = cell->links[WLH_BY_RESOURCE].next;
  }
  demand(found, level == 0, "a level of a queue is listed that is none");
  const struct wlh_request_cell *cell = wlh_request_at(found->arena, first);
  demand(
      found, first == 0 || !wlh_fits(found->arena, resource, cell->mode, cell->weight),
      "the first of a queue is grantable");
}

static void check_resource(struct found *found, uint32_t resource)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(found->arena, resource);
  struct of_list queue = {WLH_BY_RESOURCE, waits_for, resource, is_behind};
  struct of_list levels = {WLH_BY_LEVEL, waits_for, resource, has_less_priority};
  struct of_list held = {WLH_BY_RESOURCE, holds, resource, NULL};
  (void)check_list(found, &cell->levels, &levels);
  uint32_t waiting = check_list(found, &cell->queue, &queue);
  uint32_t holding = check_list(found, &cell->held, &held);
  demand(found, waiting == cell->pending, "the pending requests of a name are counted wrong");
  bool wanted = waiting + holding > 0;
  demand(found, wanted || cell->marked != 0, "a name is there that nobody wants");
  demand(found, wanted || cell->limit == WLH_LIMIT_UNSET, "a name that nobody wants has a limit");
  bool marks = wlh_header_of(found->arena)->marks == 1;
  demand(found, cell->marked == 0 || marks, "a name is marked where there are no marks");
  uint32_t units = wlh_read(&cell->units);
  if (!demand(found, units <= WLH_NAME_MOST, "a name is too long")) return;
  uint32_t rest = units < WLH_NAME_INLINE ? 0 : units - WLH_NAME_INLINE;
  check_text(found, cell->text, rest);
  check_held(found, cell, holding);
  check_queue(found, cell);
  found->queued += waiting;
  found->holding += holding;
}

static void check_for_duplicates(struct found *found, const struct wlh_resource_cell *cell)
{
  struct wlh_arena *arena = found->arena;
  uint32_t steps = 0;
  for (uint32_t i = cell->chain; i != WLH_NO_NAME && !found->broken;) {
    bool is = is_kind(found, i, WLH_KIND_RESOURCE) && ++steps < arena->ncells;
    if (!demand(found, is, "a bucket leads astray")) return;
    const struct wlh_resource_cell *other = wlh_resource_at(arena, i);
    demand(found, !wlh_name_is_same(arena, cell, other), "a name is there twice");
    i = other->chain;
  }
}

static void check_bucket(struct found *found, uint32_t bucket)
{
  struct wlh_arena *arena = found->arena;
  for (uint32_t i = *wlh_bucket_at(arena, bucket); i != WLH_NO_NAME && !found->broken;) {
    bool is = is_kind(found, i, WLH_KIND_RESOURCE) && found->listed_resources < arena->ncells;
    if (!demand(found, is, "a bucket leads astray")) return;
    found->listed_resources++;
    const struct wlh_resource_cell *cell = wlh_resource_at(arena, i);
    demand(found, (cell->hash & (arena->ncells - 1)) == bucket, "a name is in another's bucket");
    check_for_duplicates(found, cell);
    i = cell->chain;
  }
}

static void check_member(struct found *found, uint32_t i)
{
  const struct wlh_member *member = wlh_member_at(found->arena, i);
  struct of_list mail = {WLH_BY_MAILBOX, is_mail_of, i, NULL};
  found->mailed += check_list(found, &member->mailbox, &mail);
  bool is = member->npending == found->pending_of[i];
  demand(found, is, "the pending requests of a member are counted wrong");
}

static void check_agent(struct found *found, uint32_t agent)
{
  const struct wlh_agent_cell *cell = wlh_agent_at(found->arena, agent);
  struct of_list own = {WLH_BY_AGENT, is_of_agent, agent, came_later};
  bool is = cell->member < WLH_MEMBERS && wlh_cells_is_member(found->arena, cell->member);
  demand(found, is, "an agent is of nobody");
  uint32_t units = wlh_read(&cell->units);
  demand(found, units <= WLH_THREAD_NAME_UNITS, "a thread's name is too long");
  if (found->broken) return;
  check_text(found, cell->name, units);
  found->of_agents += check_list(found, &cell->requests, &own);
}

static void check_request(struct found *found, uint32_t request)
{
  const struct wlh_request_cell *cell = wlh_request_at(found->arena, request);
  bool has_agent = is_kind(found, cell->agent, WLH_KIND_AGENT) &&
                   wlh_agent_at(found->arena, cell->agent)->member == cell->member;
  demand(found, has_agent, "a request is of no agent of its member");
  bool locks = cell->passes == 0 || (cell->passes == 1 && !wlh_is_held(cell->kind));
  demand(found, locks, "a request that only passes is a lock");
  demand(found, cell->ticket < wlh_header_of(found->arena)->ticket, "a ticket is yet to come");
  uint32_t units = wlh_read(&cell->label_units);
  demand(found, units <= WLH_LABEL_MOST, "a label is too long");
  if (!found->broken) check_text(found, cell->label, units);
  uint32_t data = wlh_data_cell(cell->data);
  demand(found, cell->kind != WLH_KIND_PENDING || data == 0, "a request that waits has published");
  if (!found->broken) check_text(found, data, wlh_data_units(cell->data));
  found->requests++;
  if (cell->kind == WLH_KIND_PENDING) {
    found->waiting++;
    found->pending_of[cell->member & (WLH_MEMBERS - 1)]++;
  }
  found->news += wlh_is_news(cell->kind);
  found->held += wlh_is_held(cell->kind);
}

static void check_free(struct found *found)
{
  const struct wlh_header *header = wlh_header_of(found->arena);
  uint32_t count = 0, ncells = found->arena->ncells;
  if (!demand(found, header->high > 0 && header->high <= ncells, "there is no top")) return;
  for (uint32_t i = header->free; i != 0; i = wlh_cell_at(found->arena, i)->free.next) {
    bool is = is_kind(found, i, WLH_KIND_FREE) && i < header->high && count < ncells;
    if (!demand(found, is, "the free list leads astray")) return;
    count++;
  }
  demand(found, header->nfree == count + (ncells - header->high), "free cells are counted wrong");
  for (uint32_t i = 0; i < ncells; i++)
    if (i == 0 || i >= header->high)
      demand(found, wlh_kind_of(found->arena, i) == WLH_KIND_FREE, "a cell above the top is used");
    else
      count += wlh_kind_of(found->arena, i) != WLH_KIND_FREE;
  demand(found, count == header->high - 1, "a free cell is in no list");
}

static void check_cell(struct found *found, uint32_t i)
{
  uint32_t kind = wlh_kind_of(found->arena, i);
  bool can_be = kind >= WLH_KIND_FREE && kind < WLH_KIND_KEPT;
  demand(found, can_be, "a cell is of no kind that can be");
  if (kind == WLH_KIND_TEXT) found->texts++;
  if (kind == WLH_KIND_AGENT) check_agent(found, i);
  if (wlh_is_request(kind)) check_request(found, i);
  if (kind != WLH_KIND_RESOURCE) return;
  found->resources++;
  check_resource(found, i);
}

const char *wlh_cells_check(struct wlh_arena *arena)
{
  struct found found = {.arena = arena};
  bool poisoned = arena->poisoned || atomic_load(&wlh_header_of(arena)->poisoned) != 0;
  if (!demand(&found, !poisoned, "the segment is poisoned")) return found.broken;
  if (!demand(&found, wlh_header_of(arena)->ncells == arena->ncells, "the segment has grown"))
    return found.broken;
  check_free(&found);
  for (uint32_t i = 1; i < arena->ncells && !found.broken; i++) check_cell(&found, i);
  for (uint32_t i = 0; i < arena->ncells && !found.broken; i++) check_bucket(&found, i);
  for (uint32_t i = 0; i < WLH_MEMBERS && !found.broken; i++) check_member(&found, i);
  demand(&found, found.texts == found.text_parts, "a text is of nobody");
  demand(&found, found.resources == found.listed_resources, "a name cannot be found");
  demand(&found, found.holding == found.held, "a lock is not in the list of its name");
  demand(&found, found.mailed == found.news, "news is in no mailbox");
  demand(&found, found.of_agents == found.requests, "a request is not in the list of its agent");
  demand(&found, found.queued == found.waiting, "a request that waits is in no queue");
  return found.broken;
}
