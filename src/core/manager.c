/* The algorithms of the Web Locks specification, under the names that they have there. Where the
 * specification uses the lock task queue, the core uses the mutex of a name's shard: a critical
 * section is a task. Where the specification enqueues steps on an agent's event loop, the agent
 * receives an event; the caller of the core receives the result of its call instead. */
#include "agent.h"
#include "alloc.h"
#include "deadlock.h"
#include "declaration.h"
#include "hash.h"
#include "held_set.h"
#include "mark.h"
#include "process.h"
#include "queue.h"
#include "resource.h"
#include "section.h"
#include "snapshot.h"
#include "store.h"

#include <string.h>

/* ---- section 2.2, lock managers ---- */

static struct wlk_manager *new_manager(
    struct wlk_process *process, const uint16_t *bucket, uint32_t length)
{
  struct wlk_manager *manager = wlk_alloc(sizeof *manager + length * sizeof manager->name[0]);
  if (!manager) return NULL;
  memset(manager, 0, sizeof *manager);
  if (length > 0) memcpy(manager->name, bucket, length * sizeof *bucket);
  manager->process = process;
  manager->entry.name = manager->name;
  manager->entry.length = length;
  manager->entry.hash = wlk_hash(process->hash_key, bucket, length);
  for (int i = 0; i < WLK_SHARDS; i++) {
    wlk_table_init(&manager->parts[i].resources);
    wlk_table_init(&manager->parts[i].marks);
    wlk_list_init(&manager->parts[i].marks_by_look);
  }
  return manager;
}

enum wlk_status wlk_manager_open(
    struct wlk_process *process, const uint16_t *bucket, uint32_t length,
    struct wlk_manager **result)
{
  enum wlk_status status = wlk_process_init_once(process);
  if (status != WLK_OK) return status;
  struct wlk_manager *fresh = new_manager(process, bucket, length);
  if (!fresh) return WLK_NO_MEMORY;

  wlk_mutex_lock(&process->mutex);
  struct wlk_entry *known = wlk_table_find(&process->managers, &fresh->entry);
  if (!known) wlk_table_insert(&process->managers, &fresh->entry);
  struct wlk_manager *manager = known ? WLK_ITEM(known, struct wlk_manager, entry) : fresh;
  manager->open_count++;
  wlk_mutex_unlock(&process->mutex);

  wlk_table_resize(&process->managers, &process->mutex);
  if (manager != fresh) wlk_free(fresh);
  *result = manager;
  return WLK_OK;
}

void wlk_manager_close(struct wlk_manager *manager)
{
  struct wlk_process *process = manager->process;
  wlk_mutex_lock(&process->mutex);
  bool last = --manager->open_count == 0;
  if (last) wlk_table_remove(&process->managers, &manager->entry);
  wlk_mutex_unlock(&process->mutex);
  if (!last) return;
  /* No other thread can find the manager any more. */
  for (int i = 0; i < WLK_SHARDS; i++) {
    const struct wlk_table *table = &manager->parts[i].resources;
    if (table->chains != table->least) wlk_free(table->chains);
  }
  wlk_marks_clear(manager);
  wlk_free(manager);
  wlk_table_resize(&process->managers, &process->mutex);
}

/* ---- sections 2.5, 2.6 and 4, lock requests ---- */

/* Section 2.5: https://www.w3.org/TR/2023/WD-web-locks-20230105/#lock-request-grantable
 * The request must be the first of its queue, or not in the queue yet. */
static bool is_grantable(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  const struct wlk_link *queue = &resource->queue;
  bool is_behind = !wlk_list_is_empty(queue) && queue->next != &request->by_resource;
  if (is_behind && !wlk_queue_would_be_first(request)) return false;
  if (wlk_list_is_empty(&resource->held)) return true;
  /* Any held lock shows the mode of all held locks, because an exclusive lock is the only one. */
  const struct wlk_request *held = WLK_REQUEST_OF(resource->held.next, by_resource);
  struct wlk_held_set set = {true, held->mode == WLK_EXCLUSIVE, resource->units};
  return wlk_held_set_admits(set, request->mode == WLK_EXCLUSIVE, request->weight, resource->limit);
}

/* Does nothing for a request that does not declare. */
static void declare(struct wlk_section *section, struct wlk_request *request)
    WLK_REQUIRES(section->shard->mutex)
{
  if (!wlk_declares(request)) return;
  wlk_section_lock_process(section);
  wlk_declare(section->process, request);
  wlk_section_unlock_process(section);
}

/* Does nothing for a request that does not declare. */
static void withdraw_declaration(struct wlk_section *section, struct wlk_request *request)
    WLK_REQUIRES(section->shard->mutex)
{
  if (!wlk_declares(request)) return;
  wlk_section_lock_process(section);
  wlk_withdraw_declaration(section->process, request);
  wlk_section_unlock_process(section);
}

static void count_texts(struct wlk_part *part, const struct wlk_request *request)
{
  if (!request->declaration) return;
  part->texts += wlk_text_count(request);
  part->name_units += wlk_text_units(request);
}

static void uncount_texts(struct wlk_part *part, const struct wlk_request *request)
{
  if (!request->declaration) return;
  part->texts -= wlk_text_count(request);
  part->name_units -= wlk_text_units(request);
}

static void count_request(struct wlk_part *part, const struct wlk_request *request)
{
  part->requests++;
  count_texts(part, request);
}

/* Takes a request that ends, held or pending, out of the counts that size snapshots. */
static void uncount_request(struct wlk_part *part, const struct wlk_request *request)
{
  part->requests--;
  uncount_texts(part, request);
}

/* The request must be in no list of its resource. The caller posts the event, if one is needed. */
static void grant(struct wlk_section *section, struct wlk_request *request)
    WLK_REQUIRES(section->shard->mutex)
{
  struct wlk_resource *resource = request->resource;
  wlk_list_append(&resource->held, &request->by_resource);
  resource->units += request->weight;
  request->token = ++section->shard->grants;
  request->state = WLK_STATE_HELD;
}

/* Ends a lock, or a request that passes, which must have left the lists of its resource. It stays
 * in its agent's list until the agent takes the event. */
static void revoke_lock(
    struct wlk_section *section, struct wlk_request *request, struct wlk_agent *thief,
    enum wlk_news news) WLK_REQUIRES(section->shard->mutex)
{
  uncount_request(request->resource->part, request);
  request->state = WLK_STATE_REVOKED;
  request->thief.thread = thief->thread_id;
  request->thief.number = thief->number;
  wlk_section_post_event(section, request, news);
}

/* Section 4.4: https://www.w3.org/TR/2023/WD-web-locks-20230105/#process-the-lock-request-queue
 * A request that only passes ends here instead of becoming a lock. */
static void process_the_lock_request_queue(
    struct wlk_section *section, struct wlk_resource *resource) WLK_REQUIRES(section->shard->mutex)
{
  WLK_LIST_DRAIN (link, &resource->queue) {
    struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    if (!is_grantable(request)) return;
    wlk_queue_leave(request);
    if (request->passes) {
      withdraw_declaration(section, request);
      revoke_lock(section, request, request->agent, WLK_NEWS_PASSED);
      continue;
    }
    grant(section, request);
    request->since = wlk_port_now(false);
    withdraw_declaration(section, request);
    wlk_section_post_event(section, request, WLK_NEWS_GRANTED);
  }
}

static WLK_RARE void steal_the_held_locks(
    struct wlk_section *section, struct wlk_resource *resource) WLK_REQUIRES(section->shard->mutex)
{
  WLK_LIST_DRAIN (link, &resource->held) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    wlk_list_remove(link);
    revoke_lock(section, lock, section->caller, WLK_NEWS_STOLEN);
  }
  resource->units = 0;
}

static bool can_close_a_cycle(const struct wlk_request *request)
{
  return wlk_declares(request) &&
         (request->declaration->nesting_count > 0 || wlk_queue_would_overtake(request));
}

/* If the request would close a cycle, returns true, and writes the cycle if it fits. */
static WLK_RARE bool find_cycle(
    struct wlk_section *section, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(section->shard->mutex)
{
  struct wlk_request *lock;
  wlk_section_assert_whole(section);
  struct wlk_declaration *end = wlk_find_deadlock(section->process, request->declaration, &lock);
  if (!end) return false;
  wlk_cycle_write(cycle, section->process, end, lock);
  return true;
}

/* Returns whether this is the first shared request of the name, which sets the limit. */
static bool set_limit(const struct wlk_request *request, uint32_t limit)
{
  struct wlk_resource *resource = request->resource;
  if (request->mode == WLK_EXCLUSIVE || resource->limit_is_set) return false;
  resource->limit = limit;
  resource->limit_is_set = true;
  return true;
}

static void unset_limit(struct wlk_resource *resource)
{
  resource->limit = 0;
  resource->limit_is_set = false;
}

/* Returns why a request that would have to wait is refused, or WLK_OK. Without the mutexes of all
 * shards, WLK_DEADLOCK only means that the request may close a cycle. */
static enum wlk_status find_refusal(
    struct wlk_section *section, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle) WLK_REQUIRES(section->shard->mutex)
{
  if (!wlk_option_waits(option)) return WLK_NOT_AVAILABLE;
  if (!extra) return WLK_OK;
  if (extra->bounded && request->resource->pending >= extra->max_pending) return WLK_QUEUE_FULL;
  if (!can_close_a_cycle(request)) return WLK_OK;
  if (!section->whole) return WLK_DEADLOCK;
  return find_cycle(section, request, cycle) ? WLK_DEADLOCK : WLK_OK;
}

/* The request is declared as well, because the search for cycles must find it. */
static void enqueue(struct wlk_section *section, struct wlk_request *request)
    WLK_REQUIRES(section->shard->mutex)
{
  wlk_queue_enter(request);
  declare(section, request);
}

/* Section 4.1: https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock
 *
 * The specification enqueues every request and then processes the queue. Between critical sections
 * the head of a queue is never grantable, so only the new request can be: it is granted at once, or
 * enqueued. A refused request leaves the resource in place, because other requests hold it or wait
 * for it. */
static enum wlk_status request_a_lock(
    struct wlk_section *section, struct wlk_manager *manager, struct wlk_request *request,
    enum wlk_option option, const struct wlk_extra *extra, struct wlk_cycle *cycle,
    struct wlk_events *events) WLK_REQUIRES(section->shard->mutex)
{
  struct wlk_resource *resource = wlk_resource_find_or_add(section, manager);
  request->resource = resource;
  bool grantable = true;
  if (option == WLK_STEAL) {
    steal_the_held_locks(section, resource);
  } else {
    uint32_t limit = extra ? extra->limit : 0;
    bool is_first = set_limit(request, limit);
    if (request->mode == WLK_SHARED && resource->limit != limit) {
      events->limit = resource->limit;
      return WLK_OTHER_LIMIT;
    }
    grantable = is_grantable(request);
    enum wlk_status refusal =
        grantable ? WLK_OK : find_refusal(section, request, option, extra, cycle);
    if (refusal != WLK_OK) {
      if (is_first) unset_limit(resource);
      return refusal;
    }
    if (grantable && wlk_option_passes(option)) {
      wlk_resource_drop_if_unused(section, resource);
      return WLK_OK;
    }
  }
  count_request(resource->part, request);
  wlk_list_append(&request->agent->requests, &request->by_agent);
  if (!grantable) {
    enqueue(section, request);
    return WLK_PENDING;
  }
  grant(section, request);
  if (option == WLK_STEAL) process_the_lock_request_queue(section, resource);
  events->token = request->token;
  return WLK_GRANTED;
}

/* If `again` is true, takes no events: the events of the next attempt would overwrite them. */
static void leave_attempt(struct wlk_section *section, bool again, struct wlk_events *events)
    WLK_RELEASES(section->shard->mutex)
{
  if (!again) wlk_section_take_events(section, events);
  wlk_leave(section);
}

/* Like find_refusal, returns WLK_DEADLOCK if the request may close a cycle. */
static enum wlk_status try_request(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_events *events)
{
  struct wlk_section section;
  wlk_enter(&section, request->agent, request->shard);
  enum wlk_status status = request_a_lock(&section, manager, request, option, extra, NULL, events);
  leave_attempt(&section, status == WLK_DEADLOCK, events);
  return status;
}

/* Works as try_request does, with the mutexes of all shards, so WLK_DEADLOCK is certain. */
static enum wlk_status try_request_whole(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle, struct wlk_events *events)
{
  struct wlk_section section;
  wlk_enter_whole(&section, request->agent, request->shard);
  enum wlk_status status = request_a_lock(&section, manager, request, option, extra, cycle, events);
  leave_attempt(&section, status == WLK_DEADLOCK && !cycle->written, events);
  return status;
}

/* A request that may close a cycle is tried again with the mutexes of all shards, and once more
 * whenever `found` has too little memory for what was found. Between two attempts the cycle can
 * change or disappear. */
static enum wlk_status request_until_decided(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_snapshot **cycle, struct wlk_events *events)
{
  enum wlk_status status = try_request(manager, request, option, extra, events);
  if (status != WLK_DEADLOCK) return status;
  struct wlk_cycle found = WLK_CYCLE_INIT;
  do status = try_request_whole(manager, request, option, extra, &found, events);
  while (status == WLK_DEADLOCK && wlk_cycle_grow(&found, &status));
  wlk_cycle_finish(&found, status, cycle);
  return status;
}

enum wlk_status wlk_request_a_lock(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length,
    enum wlk_mode mode, enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlk_request **result, struct wlk_snapshot **cycle, struct wlk_events *events)
{
  events->count = 0;
  if (!wlk_resource_prepare(agent, name, length)) return WLK_NO_MEMORY;
  struct wlk_request *request = wlk_request_new(agent, mode, tag, extra);
  if (!request) {
    wlk_resource_trim_spare(agent);
    return WLK_NO_MEMORY;
  }

  request->passes = wlk_option_passes(option);
  enum wlk_status status = request_until_decided(manager, request, option, extra, cycle, events);
  wlk_resource_trim_spare(agent);
  if (status == WLK_GRANTED || status == WLK_PENDING)
    *result = request;
  else
    wlk_request_recycle(request);
  return status;
}

/* The common part of sections 4.2 and 4.3, which also ends the request. */
static void remove_from_resource(struct wlk_section *section, struct wlk_request *request)
    WLK_REQUIRES(section->shard->mutex)
{
  struct wlk_resource *resource = request->resource;
  if (request->state == WLK_STATE_PENDING) {
    wlk_queue_leave(request);
  } else {
    wlk_list_remove(&request->by_resource);
    resource->units -= request->weight;
  }
  withdraw_declaration(section, request);
  uncount_request(resource->part, request);
  process_the_lock_request_queue(section, resource);
  wlk_resource_drop_if_unused(section, resource);
  wlk_section_end_request(section, request);
}

/* Ends the request, and sets the thief in `events`. Returns WLK_STOLEN, or WLK_OK if the request
 * has only passed. */
static WLK_RARE enum wlk_status end_revoked(
    struct wlk_section *section, struct wlk_request *lock, struct wlk_events *events)
    WLK_REQUIRES(section->shard->mutex)
{
  events->thief_thread = lock->thief.thread;
  events->thief_number = lock->thief.number;
  bool passed = lock->passes;
  wlk_section_end_request(section, lock);
  return passed ? WLK_OK : WLK_STOLEN;
}

/* If `keep` is 0, marks nothing. */
static enum wlk_status release(struct wlk_request *lock, uint64_t keep, struct wlk_events *events)
{
  struct wlk_section section;
  enum wlk_status status = WLK_OK;
  wlk_enter(&section, lock->agent, lock->shard);
  if (lock->state == WLK_STATE_HELD) {
    if (keep > 0 && !wlk_mark_set(lock, keep)) status = WLK_NO_MEMORY;
    remove_from_resource(&section, lock);
  } else if (lock->state == WLK_STATE_REVOKED) {
    status = end_revoked(&section, lock, events);
  } else {
    status = WLK_NOT_HELD;
  }
  wlk_section_take_events(&section, events);
  wlk_leave(&section);
  return status;
}

/* Section 4.2: https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock */
enum wlk_status wlk_release_the_lock(struct wlk_request *lock, struct wlk_events *events)
{
  return release(lock, 0, events);
}

/* If a mark is needed and `*unused` is NULL, returns WLK_NO_MEMORY with `*length` set. */
static enum wlk_status prepare_mark(
    struct wlk_request *lock, struct wlk_entry **unused, uint32_t *length,
    struct wlk_events *events)
{
  struct wlk_section section;
  enum wlk_status status = WLK_NOT_HELD;
  wlk_enter(&section, lock->agent, lock->shard);
  if (lock->state == WLK_STATE_HELD) {
    *length = lock->resource->entry.length;
    status = wlk_mark_find_or_add(&section, lock, unused);
  } else if (lock->state == WLK_STATE_REVOKED) {
    status = end_revoked(&section, lock, events);
  }
  wlk_leave(&section);
  return status;
}

/* Other threads may steal the lock, so its resource can be read only in a critical section. The
 * first section finds out how long the name is. If a mark must be made, its memory is then
 * allocated, and a second section inserts it. */
enum wlk_status wlk_prepare_mark(struct wlk_request *lock, struct wlk_events *events)
{
  struct wlk_entry *unused = NULL;
  uint32_t length = 0;
  events->count = 0;
  enum wlk_status status = prepare_mark(lock, &unused, &length, events);
  if (status != WLK_NO_MEMORY) return status;
  unused = wlk_mark_new(length);
  if (!unused) return WLK_NO_MEMORY;
  status = prepare_mark(lock, &unused, &length, events);
  wlk_marks_free(unused);
  return status;
}

enum wlk_status wlk_release_and_mark(
    struct wlk_request *lock, uint64_t keep, struct wlk_events *events)
{
  return release(lock, keep, events);
}

/* Exchanges `*data` for what the lock has published. `*declaration` is for a lock without one.
 * Whatever is left in the two belongs to the caller. */
static enum wlk_status publish(
    struct wlk_request *lock, struct wlk_declaration **declaration, struct wlk_data **data)
{
  struct wlk_section section;
  enum wlk_status status = WLK_NOT_HELD;
  wlk_enter(&section, lock->agent, lock->shard);
  if (lock->state == WLK_STATE_HELD) {
    struct wlk_part *part = lock->resource->part;
    uncount_texts(part, lock);
    if (!lock->declaration) {
      lock->declaration = *declaration;
      *declaration = NULL;
    }
    if (lock->declaration) {
      struct wlk_data *former = lock->declaration->data;
      lock->declaration->data = *data;
      *data = former;
    }
    count_texts(part, lock);
    status = WLK_OK;
  } else if (lock->state == WLK_STATE_REVOKED) {
    status = WLK_STOLEN;
  }
  wlk_leave(&section);
  return status;
}

enum wlk_status wlk_publish(struct wlk_request *lock, const uint16_t *text, uint32_t length)
{
  struct wlk_declaration *declaration = NULL;
  struct wlk_data *data = NULL;
  enum wlk_status status = WLK_OK;
  if (length > 0) {
    data = wlk_data_new(text, length);
    if (!data) return WLK_NO_MEMORY;
    if (!lock->declaration) {
      declaration = wlk_declaration_new(lock, &(struct wlk_extra){0});
      if (!declaration) status = WLK_NO_MEMORY;
    }
  }
  if (status == WLK_OK) status = publish(lock, &declaration, &data);
  if (declaration) wlk_declaration_free(declaration);
  if (data) wlk_free(data);
  return status;
}

/* Section 4.3: https://www.w3.org/TR/2023/WD-web-locks-20230105/#abort-the-request */
enum wlk_status wlk_abort_the_request(struct wlk_request *request, struct wlk_events *events)
{
  struct wlk_section section;
  enum wlk_status status = WLK_OK;
  wlk_enter(&section, request->agent, request->shard);
  events->count = 0;
  if (request->state == WLK_STATE_PENDING) {
    remove_from_resource(&section, request);
    wlk_section_take_events(&section, events);
  } else if (request->passes) {
    wlk_section_end_request(&section, request);
  } else {
    /* An event could end the request that the caller must release, so no events are taken. */
    status = request->state == WLK_STATE_HELD ? WLK_GRANTED : WLK_STOLEN;
  }
  wlk_leave(&section);
  return status;
}

void wlk_end_the_request(struct wlk_request *request)
{
  struct wlk_section section;
  wlk_enter(&section, request->agent, request->shard);
  if (request->state == WLK_STATE_REVOKED)
    wlk_section_end_request(&section, request);
  else
    remove_from_resource(&section, request);
  wlk_section_leave_events(&section);
  wlk_leave(&section);
}

/* ---- blocking ---- */

/* While a thread blocks, it cannot end its own locks and requests, so those on the same resource
 * obstruct the request that it blocks for. */
struct own_locks {
  struct wlk_request *first; /* NULL if the thread has none */
  struct wlk_held_set set;
};

static void add_own_lock(struct own_locks *own, struct wlk_request *request)
{
  if (!own->first) own->first = request;
  wlk_held_set_add(&own->set, request->mode == WLK_EXCLUSIVE, request->weight);
}

/* The locks of the blocking thread, and its requests ahead in the queue, may exclude `request` or
 * another request ahead of it. Then `request` would wait for its own thread: returns the first of
 * them. Otherwise returns NULL. */
static struct wlk_request *find_own_obstacle(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  uint32_t thread = request->agent->thread_id;
  struct own_locks own = {0};
  WLK_LIST_FOR_EACH (link, &resource->held) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    if (lock->agent->thread_id == thread) add_own_lock(&own, lock);
  }
  WLK_LIST_FOR_EACH (link, &resource->queue) {
    struct wlk_request *other = WLK_REQUEST_OF(link, by_resource);
    if (!wlk_held_set_admits(own.set, other->mode == WLK_EXCLUSIVE, other->weight, resource->limit))
      return own.first;
    if (other == request) break;
    if (other->agent->thread_id == thread && !other->passes) add_own_lock(&own, other);
  }
  return NULL;
}

/* If the thread would wait for itself, returns true, and writes the cycle if it fits. */
static bool find_own_cycle(
    struct wlk_section *section, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(section->shard->mutex)
{
  if (request->state != WLK_STATE_PENDING) return false;
  struct wlk_request *obstacle = find_own_obstacle(request);
  if (!obstacle) return false;
  wlk_section_assert_whole(section);
  wlk_cycle_write_pair(cycle, section->process, request, obstacle);
  return true;
}

/* Returns WLK_DEADLOCK if the thread would wait for itself. Ends the request only if the cycle was
 * written. Otherwise the caller must enlarge `cycle` and call again. */
static enum wlk_status refuse_to_block(
    struct wlk_request *request, struct wlk_cycle *cycle, struct wlk_events *events)
{
  struct wlk_section section;
  enum wlk_status status = WLK_OK;
  wlk_enter_whole(&section, request->agent, request->shard);
  if (find_own_cycle(&section, request, cycle)) {
    status = WLK_DEADLOCK;
    if (cycle->written) {
      remove_from_resource(&section, request);
      wlk_section_take_events(&section, events);
    }
  }
  wlk_leave(&section);
  return status;
}

/* The thread must check once, and again while a request with a higher priority waits, because that
 * request may have overtaken this one. A theft also overtakes, but while this thread blocks, the
 * thief is another thread. */
static bool may_wait_for_itself(struct wlk_request *request)
{
  if (!request->blocked) return true;
  struct wlk_section section;
  wlk_enter(&section, request->agent, request->shard);
  bool may_be = request->state == WLK_STATE_PENDING && wlk_queue_is_overtaken(request);
  wlk_leave(&section);
  return may_be;
}

static void block(struct wlk_section *section, struct wlk_request *request, uint64_t timeout)
    WLK_REQUIRES(section->shard->mutex)
{
  uint64_t now = wlk_port_now(true);
  uint64_t end = timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
  request->awaited = true;
  while (request->state == WLK_STATE_PENDING && now < end) {
    wlk_condition_wait_for(&request->agent->changed, &section->shard->mutex, end - now);
    now = wlk_port_now(true);
  }
  request->awaited = false;
}

/* Does not check whether the thread would wait for itself. */
static enum wlk_status block_until_answered(
    struct wlk_request *request, uint64_t timeout, struct wlk_events *events)
{
  struct wlk_section section;
  enum wlk_status status = WLK_PENDING;
  wlk_enter(&section, request->agent, request->shard);
  block(&section, request, timeout);
  if (request->state == WLK_STATE_REVOKED) {
    status = end_revoked(&section, request, events);
  } else if (request->state == WLK_STATE_HELD) {
    wlk_agent_drop_event(request);
    events->token = request->token;
    status = WLK_GRANTED;
  }
  if (status != WLK_PENDING) wlk_section_take_events(&section, events);
  wlk_leave(&section);
  return status;
}

enum wlk_status wlk_wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_snapshot **cycle,
    struct wlk_events *events)
{
  struct wlk_cycle found = WLK_CYCLE_INIT;
  enum wlk_status status = WLK_OK;
  events->count = 0;
  if (may_wait_for_itself(request)) {
    do status = refuse_to_block(request, &found, events);
    while (status == WLK_DEADLOCK && wlk_cycle_grow(&found, &status));
    wlk_cycle_finish(&found, status, cycle);
  }
  if (status == WLK_NO_MEMORY) wlk_end_the_request(request);
  if (status != WLK_OK) return status;
  request->blocked = true;
  return block_until_answered(request, timeout, events);
}

/* The request's agent receives no event of a grant that follows. */
static void end_in_a_section(struct wlk_request *request, bool only_if_pending)
{
  struct wlk_section section;
  wlk_enter(&section, request->agent, request->shard);
  bool pending = request->state == WLK_STATE_PENDING;
  if (request->state == WLK_STATE_REVOKED && !only_if_pending)
    wlk_section_end_request(&section, request);
  else if (pending || !only_if_pending)
    remove_from_resource(&section, request);
  /* Grants to the agent itself need no event, because these locks end next. */
  WLK_LIST_DRAIN (link, &section.granted) wlk_list_remove(link);
  wlk_leave(&section);
}

/* Section 2.6: https://www.w3.org/TR/2023/WD-web-locks-20230105/#termination-of-locks */
static void terminate_remaining_locks_and_requests(struct wlk_agent *agent)
{
  struct wlk_link *next;
  for (struct wlk_link *link = agent->requests.next; link != &agent->requests; link = next) {
    next = link->next; /* An abort can grant other requests of the agent, but ends none of them. */
    end_in_a_section(WLK_REQUEST_OF(link, by_agent), true);
  }
  WLK_LIST_DRAIN (link, &agent->requests) end_in_a_section(WLK_REQUEST_OF(link, by_agent), false);
}

void wlk_agent_terminate(struct wlk_agent *agent)
{
  terminate_remaining_locks_and_requests(agent);
  wlk_agent_free(agent);
}
