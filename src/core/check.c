#include "check.h"

#if defined(WLK_CHECKS)

#include "declaration.h"

#include <stdio.h>
#include <stdlib.h>

#define EXPECT(condition, sentence)                                                                \
  do {                                                                                             \
    if (!(condition)) return sentence;                                                             \
  } while (0)

struct totals {
  size_t listed;   /* requests found in queues and held lists */
  size_t revoked;  /* requests that were stolen or passed */
  size_t by_agent; /* requests found in the lists of agents */
};

static size_t length_of(const struct wlk_link *list)
{
  size_t length = 0;
  WLK_LIST_FOR_EACH (link, list) length++;
  return length;
}

static bool links_fit(const struct wlk_link *list)
{
  WLK_LIST_FOR_EACH (link, list) {
    if (link->next->previous != link || link->previous->next != link) return false;
  }
  return list->next->previous == list && list->previous->next == list;
}

static const char *check_held(const struct wlk_resource *resource)
{
  size_t held = length_of(&resource->held);
  uint64_t units = 0;
  WLK_LIST_FOR_EACH (link, &resource->held) {
    const struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    EXPECT(lock->state == WLK_STATE_HELD, "a request in a held list is not held");
    EXPECT(lock->resource == resource, "a lock points to another resource");
    EXPECT(lock->mode == WLK_SHARED || held == 1, "an exclusive lock is not alone");
    units += lock->weight;
  }
  EXPECT(units == resource->units, "a resource does not count its units");
  EXPECT(units <= resource->limit, "more units are held than the limit");
  return NULL;
}

static const char *check_tokens(const struct wlk_resource *resource, uint64_t grants)
{
  uint64_t token = 0;
  WLK_LIST_FOR_EACH (link, &resource->held) {
    const struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    EXPECT(lock->token > token, "the tokens of a name do not grow");
    token = lock->token;
  }
  EXPECT(token <= grants, "a token is greater than the last");
  return NULL;
}

static const char *check_weights(const struct wlk_resource *resource, const struct wlk_link *list)
{
  EXPECT(resource->limit <= WLK_UNITS_MOST, "a limit is out of range");
  EXPECT(resource->limit_is_set || resource->limit == 0, "a limit that nobody has set");
  WLK_LIST_FOR_EACH (link, list) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    bool weighs = request->mode == WLK_SHARED && resource->limit > 0;
    EXPECT(
        request->mode == WLK_EXCLUSIVE || resource->limit_is_set, "a shared request set no limit");
    EXPECT((request->weight > 0) == weighs, "a request takes units, or none, unlike its name");
    EXPECT(request->weight <= resource->limit, "a request takes more units than there are");
  }
  return NULL;
}

static const char *check_queue(const struct wlk_resource *resource)
{
  EXPECT(length_of(&resource->queue) == resource->pending, "a resource does not count its queue");
  WLK_LIST_FOR_EACH (link, &resource->queue) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    EXPECT(request->state == WLK_STATE_PENDING, "a request in a queue is not pending");
    EXPECT(request->resource == resource, "a request points to another resource");
    EXPECT(request->news == 0, "a pending request has news");
    EXPECT(request->token == 0, "a pending request has a token");
    EXPECT(wlk_data_length(request) == 0, "a pending request has published something");
  }
  if (wlk_list_is_empty(&resource->queue)) return NULL;
  EXPECT(!wlk_list_is_empty(&resource->held), "a request waits for a lock that nobody holds");
  const struct wlk_request *head = WLK_REQUEST_OF(resource->queue.next, by_resource);
  const struct wlk_request *lock = WLK_REQUEST_OF(resource->held.next, by_resource);
  EXPECT(
      head->mode == WLK_EXCLUSIVE || lock->mode == WLK_EXCLUSIVE ||
          (uint64_t)resource->units + head->weight > resource->limit,
      "the first request of a queue is grantable");
  return NULL;
}

static size_t text_units(const struct wlk_link *list)
{
  size_t units = 0;
  WLK_LIST_FOR_EACH (link, list) units += wlk_text_units(WLK_REQUEST_OF(link, by_resource));
  return units;
}

static size_t text_count(const struct wlk_link *list)
{
  size_t count = 0;
  WLK_LIST_FOR_EACH (link, list) count += wlk_text_count(WLK_REQUEST_OF(link, by_resource));
  return count;
}

/* See queue.h about levels. */
static const char *check_order(const struct wlk_resource *resource)
{
  const struct wlk_link *level = resource->levels.next;
  int64_t before = INT64_MAX;
  EXPECT(links_fit(&resource->levels), "a list is torn");
  WLK_LIST_FOR_EACH (link, &resource->queue) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    int64_t priority = wlk_priority(request), after = INT64_MIN;
    if (link->next != &resource->queue)
      after = wlk_priority(WLK_REQUEST_OF(link->next, by_resource));
    EXPECT(priority <= before, "a request is ahead of one that has more priority");
    bool stands = priority > 0 ? after != priority : priority < 0 && before != priority;
    before = priority;
    if (!stands) continue;
    EXPECT(level == &request->declaration->by_level, "nobody, or another one, stands for a level");
    level = level->next;
  }
  EXPECT(level == &resource->levels, "somebody stands for a level that there is not");
  return NULL;
}

static const char *check_writers(const struct wlk_resource *resource)
{
  const struct wlk_declaration *writer = resource->writer;
  const struct wlk_declaration *ahead = NULL;
  WLK_LIST_FOR_EACH (link, &resource->queue) {
    const struct wlk_declaration *declaration = WLK_REQUEST_OF(link, by_resource)->declaration;
    if (!declaration || !declaration->declares) continue;
    EXPECT(
        !ahead || wlk_is_ahead(ahead, declaration),
        "the order of a queue is not that of its declarations");
    ahead = declaration;
    if (declaration->request->mode == WLK_SHARED && declaration->request->weight == 0) continue;
    EXPECT(declaration == writer, "a declared request is not in its ring");
    writer = WLK_ITEM(writer->by_writer.next, struct wlk_declaration, by_writer);
  }
  EXPECT(writer == resource->writer, "something else is in the ring of a resource");
  return NULL;
}

static const char *check_resource(const struct wlk_resource *resource)
{
  EXPECT(links_fit(&resource->held) && links_fit(&resource->queue), "a list is torn");
  EXPECT(
      !wlk_list_is_empty(&resource->held) || !wlk_list_is_empty(&resource->queue),
      "a resource exists that nobody holds or waits for");
  const char *broken = check_held(resource);
  if (!broken) broken = check_weights(resource, &resource->held);
  if (!broken) broken = check_weights(resource, &resource->queue);
  if (!broken) broken = check_order(resource);
  if (!broken) broken = check_writers(resource);
  return broken ? broken : check_queue(resource);
}

static const char *check_marks(const struct wlk_part *part, uint8_t shard, uint64_t grants)
{
  size_t count = 0;
  EXPECT(links_fit(&part->marks_by_look), "a list is torn");
  WLK_LIST_FOR_EACH (link, &part->marks_by_look) {
    const struct wlk_mark *mark = WLK_ITEM(link, struct wlk_mark, by_look);
    EXPECT(wlk_shard_of(mark->entry.hash) == shard, "a mark is in another shard");
    EXPECT(
        wlk_table_find(&part->marks, &mark->entry) == &mark->entry,
        "a mark cannot be found by its name");
    EXPECT(mark->token <= grants, "a mark is for a lock that is yet to come");
    count++;
  }
  EXPECT(count == part->marks.count, "a table does not count its marks");
  return NULL;
}

static const char *check_part(
    const struct wlk_part *part, uint8_t shard, uint64_t grants, struct totals *totals)
{
  size_t requests = 0, names = 0, units = 0, texts = 0;
  const struct wlk_table *table = &part->resources;
  for (struct wlk_entry *e = wlk_table_first(table); e; e = wlk_table_after(table, e)) {
    const struct wlk_resource *resource = WLK_ITEM(e, struct wlk_resource, entry);
    EXPECT(resource->part == part, "a resource points to another manager");
    EXPECT(wlk_shard_of(e->hash) == shard, "a resource is in another shard");
    EXPECT(wlk_table_find(table, e) == e, "a resource cannot be found by its name");
    const char *broken = check_resource(resource);
    if (!broken) broken = check_tokens(resource, grants);
    if (broken) return broken;
    requests += length_of(&resource->held) + length_of(&resource->queue);
    units += e->length + text_units(&resource->held) + text_units(&resource->queue);
    texts += text_count(&resource->held) + text_count(&resource->queue);
    names++;
  }
  EXPECT(names == table->count, "a table does not count its entries");
  EXPECT(requests == part->requests, "a manager does not count its requests");
  EXPECT(units == part->name_units, "a manager does not count its names");
  EXPECT(texts == part->texts, "a manager does not count its labels and what is published");
  totals->listed += requests;
  return check_marks(part, shard, grants);
}

static const char *check_declaration(const struct wlk_request *request)
{
  const struct wlk_declaration *declaration = request->declaration;
  if (!declaration) return NULL;
  EXPECT(declaration->request == request, "a declaration of another request");
  EXPECT(
      declaration->pending == (declaration->declares && request->state == WLK_STATE_PENDING),
      "wrongly declared, or not");
  EXPECT(links_fit(&declaration->inner), "a list is torn");
  WLK_LIST_FOR_EACH (link, &declaration->inner) {
    const struct wlk_nesting *nesting = WLK_ITEM(link, struct wlk_nesting, by_lock);
    EXPECT(request->state != WLK_STATE_PENDING, "a request inside of one that is pending");
    EXPECT(nesting->outer == declaration, "a request inside of another lock");
    EXPECT(nesting->inner->pending, "a request inside of a lock is not pending");
  }
  for (uint32_t i = 0; i < declaration->nesting_count && !declaration->pending; i++)
    EXPECT(
        wlk_list_is_empty(&declaration->nesting[i].by_lock),
        "a request that is not pending is inside of a lock");
  return NULL;
}

static const char *check_agent(const struct wlk_agent *agent, struct totals *totals)
{
  size_t with_news = 0;
  EXPECT(links_fit(&agent->requests) && links_fit(&agent->events), "a list is torn");
  WLK_LIST_FOR_EACH (link, &agent->requests) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_agent);
    EXPECT(request->agent == agent, "a request points to another agent");
    bool revoked = request->state == WLK_STATE_REVOKED;
    EXPECT(revoked || request->resource, "a request that was not revoked has no resource");
    const char *wrong = check_declaration(request);
    if (wrong) return wrong;
    uint32_t ends = request->passes ? WLK_NEWS_PASSED : WLK_NEWS_STOLEN;
    EXPECT(!revoked || (request->news & ends), "a stolen lock was told but not ended");
    EXPECT((request->news == 0) == wlk_list_is_empty(&request->by_event), "news without an event");
    totals->revoked += revoked;
    totals->by_agent++;
    with_news += request->news != 0;
  }
  EXPECT(with_news == length_of(&agent->events), "an event of a request of nobody");
  EXPECT(atomic_load(&agent->has_events) == (with_news > 0), "events that nobody knows of");
  EXPECT(agent->pins == 0 || agent->woken, "to be woken without being marked so");
  return NULL;
}

static const char *check_shard(
    const struct wlk_process *process, uint8_t shard, struct totals *totals)
{
  const char *broken = NULL;
  const struct wlk_table *table = &process->managers;
  uint64_t grants = process->shards[shard].grants;
  for (struct wlk_entry *e = wlk_table_first(table); e && !broken; e = wlk_table_after(table, e)) {
    const struct wlk_manager *manager = WLK_ITEM(e, struct wlk_manager, entry);
    EXPECT(manager->open_count > 0, "a manager exists that is not open");
    broken = check_part(&manager->parts[shard], shard, grants, totals);
  }
  return broken;
}

const char *wlk_check(struct wlk_process *process)
{
  if (!process->started) return NULL;
  struct totals totals = {0, 0, 0};
  size_t agents = 0;
  const char *broken = NULL;
  for (uint8_t i = 0; i < WLK_SHARDS && !broken; i++) broken = check_shard(process, i, &totals);
  WLK_LIST_FOR_EACH (link, &process->agents) {
    if (!broken) broken = check_agent(WLK_ITEM(link, struct wlk_agent, by_process), &totals);
    agents++;
  }
  if (broken) return broken;
  EXPECT(agents == process->agent_count, "the process does not count its agents");
  EXPECT(totals.listed + totals.revoked == totals.by_agent, "a request is in no list, or in two");
  return NULL;
}

/* Checks a shard under the process's mutex, which the caller has if `whole` is true. */
static const char *check_one(struct wlk_process *process, uint8_t shard, bool whole) WLK_UNCHECKED
{
  struct totals totals = {0, 0, 0};
  if (!whole) wlk_mutex_lock(&process->mutex);
  const char *broken = check_shard(process, shard, &totals);
  if (!whole) wlk_mutex_unlock(&process->mutex);
  return broken;
}

void wlk_check_or_stop(struct wlk_process *process, const struct wlk_shard *shard, bool whole)
{
  const char *broken = check_one(process, (uint8_t)(shard - process->shards), whole);
  if (!broken) return;
  (void)fprintf(stderr, "web-locks: broken invariant: %s\n", broken);
  abort();
}

#else
typedef int wlk_check_is_not_compiled;
#endif
