/* Sections 2.2, 2.6 and 4 of the specification. The specification's lock task queue, which runs one
 * algorithm after the other, is the mutex of a name's shard: a turn is a task. Where it enqueues
 * steps on an agent's event loop, the agent gets an event, or, if the agent is the caller, the
 * result of the call. */
#include "agent.h"
#include "alloc.h"
#include "deadlock.h"
#include "declaration.h"
#include "hash.h"
#include "mark.h"
#include "process.h"
#include "queue.h"
#include "resource.h"
#include "snapshot.h"
#include "store.h"
#include "turn.h"

#include <string.h>

/* ---- 2.2 lock managers ---- */

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
  enum wlk_status status = wlk_process_start(process);
  if (status != WLK_OK) return status;
  struct wlk_manager *fresh = new_manager(process, bucket, length);
  if (!fresh) return WLK_NO_MEMORY;

  wlk_mutex_lock(&process->mutex);
  struct wlk_entry *known = wlk_table_find(&process->managers, &fresh->entry);
  if (!known) wlk_table_insert(&process->managers, &fresh->entry);
  struct wlk_manager *manager = known ? WLK_ITEM(known, struct wlk_manager, entry) : fresh;
  manager->openings++;
  wlk_mutex_unlock(&process->mutex);

  wlk_table_fit(&process->managers, &process->mutex);
  if (manager != fresh) wlk_free(fresh);
  *result = manager;
  return WLK_OK;
}

void wlk_manager_close(struct wlk_manager *manager)
{
  struct wlk_process *process = manager->process;
  wlk_mutex_lock(&process->mutex);
  bool last = --manager->openings == 0;
  if (last) wlk_table_remove(&process->managers, &manager->entry);
  wlk_mutex_unlock(&process->mutex);
  if (!last) return;
  /* Nobody can find the manager any more: it is this call's. */
  for (int i = 0; i < WLK_SHARDS; i++) {
    const struct wlk_table *table = &manager->parts[i].resources;
    if (table->chains != table->least) wlk_free(table->chains);
  }
  wlk_marks_clear(manager);
  wlk_free(manager);
  wlk_table_fit(&process->managers, &process->mutex);
}

/* ---- 2.5 lock requests ---- */

/* Whether a request is grantable; it may be the first of its queue, or not be in it yet. */
static bool is_grantable(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  const struct wlk_link *queue = &resource->queue;
  bool is_behind = !wlk_list_is_empty(queue) && queue->next != &request->by_resource;
  if (is_behind && !wlk_queue_would_be_first(request)) return false;
  if (wlk_list_is_empty(&resource->held)) return true;
  /* An exclusive lock is alone, so any one of the held locks tells the mode of all. Without a limit
   * all three numbers are 0. */
  return request->mode == WLK_SHARED &&
         WLK_REQUEST_OF(resource->held.next, by_resource)->mode == WLK_SHARED &&
         resource->units + request->weight <= resource->limit;
}

/* What is declared is the process's. */
static void declare(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->shard->mutex)
{
  if (!wlk_declares(request)) return;
  wlk_turn_lock_process(turn);
  wlk_declare(turn->process, request);
  wlk_turn_unlock_process(turn);
}

static void withdraw_declaration(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->shard->mutex)
{
  if (!wlk_declares(request)) return;
  wlk_turn_lock_process(turn);
  wlk_withdraw_declaration(turn->process, request);
  wlk_turn_unlock_process(turn);
}

/* Counts a request that enters its manager, or leaves it. */
static void count_in(struct wlk_part *part, const struct wlk_request *request)
{
  part->requests++;
  part->labels += wlk_label_length(request) > 0;
  part->name_units += wlk_label_length(request);
}

static void count_out(struct wlk_part *part, const struct wlk_request *request)
{
  part->requests--;
  part->labels -= wlk_label_length(request) > 0;
  part->name_units -= wlk_label_length(request);
}

/* ---- 4.4 process the lock request queue ---- */

/* Makes a lock of a request that is grantable and in no list. */
static void grant(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->shard->mutex)
{
  struct wlk_resource *resource = request->resource;
  wlk_list_append(&resource->held, &request->by_resource);
  resource->units += request->weight;
  request->token = ++turn->shard->grants;
  request->state = WLK_STATE_HELD;
}

/* Takes a lock, or a request that passes, out of its manager; it is in no list any more. Its agent
 * is told `news`. */
static void take_away(
    struct wlk_turn *turn, struct wlk_request *request, struct wlk_agent *thief, enum wlk_news news)
    WLK_REQUIRES(turn->shard->mutex)
{
  count_out(request->resource->part, request);
  request->state = WLK_STATE_STOLEN;
  request->thief.thread = thief->thread_id;
  request->thief.number = thief->number;
  wlk_turn_post_event(turn, request, news);
}

static void process_the_lock_request_queue(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->shard->mutex)
{
  WLK_LIST_DRAIN (link, &resource->queue) {
    struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    if (!is_grantable(request)) return;
    wlk_queue_leave(request);
    if (request->passes) {
      withdraw_declaration(turn, request);
      take_away(turn, request, request->agent, WLK_NEWS_PASSED);
      continue;
    }
    grant(turn, request);
    request->since = wlk_port_now(false);
    withdraw_declaration(turn, request);
    wlk_turn_post_event(turn, request, WLK_NEWS_GRANTED);
  }
}

/* ---- 4.1 request a lock ---- */

static WLK_RARE void steal_the_held_locks(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->shard->mutex)
{
  WLK_LIST_DRAIN (link, &resource->held) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    wlk_list_remove(link);
    take_away(turn, lock, turn->caller, WLK_NEWS_STOLEN);
  }
  resource->units = 0;
}

/* Whether the request, if it waits, can close a cycle: only if it was made inside of a lock, or has
 * others wait behind it that wait already. */
static bool can_close_a_cycle(const struct wlk_request *request)
{
  return wlk_declares(request) &&
         (request->declaration->nesting_count > 0 || wlk_queue_would_overtake(request));
}

/* Whether it does; if so, and if `cycle` has room for it, it is written there. */
static WLK_RARE bool closes_a_cycle(
    struct wlk_turn *turn, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(turn->shard->mutex)
{
  struct wlk_request *lock;
  wlk_turn_is_whole(turn);
  struct wlk_declaration *end = wlk_find_deadlock(turn->process, request->declaration, &lock);
  if (!end) return false;
  wlk_cycle_write(cycle, turn->process, end, lock);
  return true;
}

/* Sets the limit of a name whose first shared request this is. Returns whether it did. */
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

/* Why a request that would have to wait is not made, nothing was changed; WLK_OK if it is. In a
 * turn without everything WLK_DEADLOCK means "perhaps": it takes one with everything to know. */
static enum wlk_status refuse_to_wait(
    struct wlk_turn *turn, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle) WLK_REQUIRES(turn->shard->mutex)
{
  if (!wlk_option_waits(option)) return WLK_NOT_AVAILABLE;
  if (!extra) return WLK_OK;
  if (extra->bounded && request->resource->pending >= extra->max_pending) return WLK_QUEUE_FULL;
  if (!can_close_a_cycle(request)) return WLK_OK;
  if (!turn->whole) return WLK_DEADLOCK;
  return closes_a_cycle(turn, request, cycle) ? WLK_DEADLOCK : WLK_OK;
}

static void enqueue(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->shard->mutex)
{
  wlk_queue_enter(request);
  declare(turn, request);
}

/* The specification enqueues each request and processes the queue. The head of a queue is never
 * grantable between turns, so of all that are in it then only the new one can be granted: it is, or
 * it is enqueued. A thief is first in the queue of what nobody holds any more. Where nothing is
 * changed, the resource is held or waited for: it is an old one and stays. */
static enum wlk_status request_a_lock(
    struct wlk_turn *turn, struct wlk_manager *manager, struct wlk_request *request,
    enum wlk_option option, const struct wlk_extra *extra, struct wlk_cycle *cycle,
    struct wlk_events *events) WLK_REQUIRES(turn->shard->mutex)
{
  struct wlk_resource *resource = wlk_resource_get(turn, manager);
  request->resource = resource;
  bool grantable = true;
  if (option == WLK_STEAL) {
    steal_the_held_locks(turn, resource);
  } else {
    uint32_t limit = extra ? extra->limit : 0;
    bool is_first = set_limit(request, limit);
    if (request->mode == WLK_SHARED && resource->limit != limit) {
      events->limit = resource->limit;
      return WLK_OTHER_LIMIT;
    }
    grantable = is_grantable(request);
    enum wlk_status refusal =
        grantable ? WLK_OK : refuse_to_wait(turn, request, option, extra, cycle);
    if (refusal != WLK_OK) {
      if (is_first) unset_limit(resource);
      return refusal;
    }
    if (grantable && wlk_option_passes(option)) {
      wlk_resource_drop_if_unused(turn, resource);
      return WLK_OK;
    }
  }
  count_in(resource->part, request);
  wlk_list_append(&request->agent->requests, &request->by_agent);
  if (!grantable) {
    enqueue(turn, request);
    return WLK_PENDING;
  }
  grant(turn, request);
  if (option == WLK_STEAL) process_the_lock_request_queue(turn, resource);
  events->token = request->token;
  return WLK_GRANTED;
}

/* Ends the turn of a request. One that is followed by another takes no events: that one's would
 * take their place. */
static void end_asking(struct wlk_turn *turn, bool again, struct wlk_events *events)
    WLK_RELEASES(turn->shard->mutex)
{
  if (!again) wlk_turn_take_events(turn, events);
  wlk_turn_end(turn);
}

/* WLK_DEADLOCK: perhaps, see refuse_to_wait. */
static enum wlk_status ask(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_events *events)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, request->agent, request->shard);
  enum wlk_status status = request_a_lock(&turn, manager, request, option, extra, NULL, events);
  end_asking(&turn, status == WLK_DEADLOCK, events);
  return status;
}

static enum wlk_status ask_with_everything(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle, struct wlk_events *events)
{
  struct wlk_turn turn;
  wlk_turn_begin_whole(&turn, request->agent, request->shard);
  enum wlk_status status = request_a_lock(&turn, manager, request, option, extra, cycle, events);
  end_asking(&turn, status == WLK_DEADLOCK && !cycle->written, events);
  return status;
}

/* A request that would wait and rejects deadlocks looks for one. Once the room for a cycle is
 * enough, the answer is final. Until then all is asked anew: the cycle may be another one by then,
 * or gone. */
static enum wlk_status ask_until_told(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_snapshot **snapshot, struct wlk_events *events)
{
  enum wlk_status status = ask(manager, request, option, extra, events);
  if (status != WLK_DEADLOCK) return status;
  struct wlk_cycle cycle = WLK_CYCLE_INIT;
  do status = ask_with_everything(manager, request, option, extra, &cycle, events);
  while (status == WLK_DEADLOCK && wlk_cycle_grow(&cycle, &status));
  wlk_cycle_finish(&cycle, status, snapshot);
  return status;
}

enum wlk_status wlk_request_a_lock(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length,
    enum wlk_mode mode, enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlk_request **result, struct wlk_snapshot **snapshot, struct wlk_events *events)
{
  events->count = 0;
  if (!wlk_resource_prepare(agent, name, length)) return WLK_NO_MEMORY;
  struct wlk_request *request = wlk_request_new(agent, mode, tag, extra);
  if (!request) {
    wlk_resource_trim_spare(agent);
    return WLK_NO_MEMORY;
  }

  request->passes = wlk_option_passes(option);
  enum wlk_status status = ask_until_told(manager, request, option, extra, snapshot, events);
  wlk_resource_trim_spare(agent);
  if (status == WLK_GRANTED || status == WLK_PENDING)
    *result = request;
  else
    wlk_request_recycle(request);
  return status;
}

/* ---- 4.2 release the lock ---- */

/* Takes a lock or a request off its resource, lets in who waits behind it, and ends it. */
static void remove_from_resource(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->shard->mutex)
{
  struct wlk_resource *resource = request->resource;
  if (request->state == WLK_STATE_PENDING) {
    wlk_queue_leave(request);
  } else {
    wlk_list_remove(&request->by_resource);
    resource->units -= request->weight;
  }
  withdraw_declaration(turn, request);
  count_out(resource->part, request);
  process_the_lock_request_queue(turn, resource);
  wlk_resource_drop_if_unused(turn, resource);
  wlk_turn_end_request(turn, request);
}

/* Ends a lock that was stolen, or a request that has passed. */
static WLK_RARE enum wlk_status end_stolen(
    struct wlk_turn *turn, struct wlk_request *lock, struct wlk_events *events)
    WLK_REQUIRES(turn->shard->mutex)
{
  events->thief_thread = lock->thief.thread;
  events->thief_number = lock->thief.number;
  bool passed = lock->passes;
  wlk_turn_end_request(turn, lock);
  return passed ? WLK_OK : WLK_STOLEN;
}

/* `keep`: how long its name is marked, 0 for not. */
static enum wlk_status release(struct wlk_request *lock, uint64_t keep, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_OK;
  wlk_turn_begin(&turn, lock->agent, lock->shard);
  if (lock->state == WLK_STATE_HELD) {
    if (keep > 0 && !wlk_mark_set(lock, keep)) status = WLK_NO_MEMORY;
    remove_from_resource(&turn, lock);
  } else if (lock->state == WLK_STATE_STOLEN) {
    status = end_stolen(&turn, lock, events);
  } else {
    status = WLK_NOT_HELD;
  }
  wlk_turn_take_events(&turn, events);
  wlk_turn_end(&turn);
  return status;
}

enum wlk_status wlk_release_the_lock(struct wlk_request *lock, struct wlk_events *events)
{
  return release(lock, 0, events);
}

/* ---- marks ---- */

/* `unused` as in wlk_mark_prepare. */
static enum wlk_status look_for_the_mark(
    struct wlk_request *lock, struct wlk_entry **unused, uint32_t *length,
    struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_NOT_HELD;
  wlk_turn_begin(&turn, lock->agent, lock->shard);
  if (lock->state == WLK_STATE_HELD) {
    *length = lock->resource->entry.length;
    status = wlk_mark_prepare(&turn, lock, unused);
  } else if (lock->state == WLK_STATE_STOLEN) {
    status = end_stolen(&turn, lock, events);
  }
  wlk_turn_end(&turn);
  return status;
}

/* The resource of a lock that somebody may steal can be looked at in a turn only: the first one
 * tells how much memory a mark takes. */
enum wlk_status wlk_is_marked(struct wlk_request *lock, struct wlk_events *events)
{
  struct wlk_entry *unused = NULL;
  uint32_t length = 0;
  events->count = 0;
  enum wlk_status status = look_for_the_mark(lock, &unused, &length, events);
  if (status != WLK_NO_MEMORY) return status;
  unused = wlk_mark_new(length);
  if (!unused) return WLK_NO_MEMORY;
  status = look_for_the_mark(lock, &unused, &length, events);
  wlk_marks_free(unused);
  return status;
}

enum wlk_status wlk_release_and_mark(
    struct wlk_request *lock, uint64_t keep, struct wlk_events *events)
{
  return release(lock, keep, events);
}

/* ---- 4.3 abort the request ---- */

enum wlk_status wlk_abort_the_request(struct wlk_request *request, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_OK;
  wlk_turn_begin(&turn, request->agent, request->shard);
  events->count = 0;
  if (request->state == WLK_STATE_PENDING) {
    remove_from_resource(&turn, request);
    wlk_turn_take_events(&turn, events);
  } else if (request->passes) {
    wlk_turn_end_request(&turn, request);
  } else {
    /* No events are taken: one could end the very request that the caller is about to release. */
    status = request->state == WLK_STATE_HELD ? WLK_GRANTED : WLK_STOLEN;
  }
  wlk_turn_end(&turn);
  return status;
}

/* ---- both at once ---- */

void wlk_end_the_request(struct wlk_request *request)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, request->agent, request->shard);
  if (request->state == WLK_STATE_STOLEN)
    wlk_turn_end_request(&turn, request);
  else
    remove_from_resource(&turn, request);
  wlk_turn_leave_events(&turn);
  wlk_turn_end(&turn);
}

/* ---- blocking ---- */

/* What a thread that blocks has of a resource, and will have: it ends nothing. */
struct own_locks {
  struct wlk_request *first; /* NULL if it has nothing */
  bool exclusive;
  uint64_t units;
};

static void add_own(struct own_locks *own, struct wlk_request *request)
{
  if (!own->first) own->first = request;
  own->exclusive = own->exclusive || request->mode == WLK_EXCLUSIVE;
  own->units += request->weight;
}

/* What keeps a pending request waiting for as long as its thread blocks: the lock or request of
 * that thread that is furthest ahead, if those ahead exclude this one or somebody's in between.
 * NULL if there is none. */
static struct wlk_request *find_own_obstacle(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  uint32_t thread = request->agent->thread_id;
  struct own_locks own = {NULL, false, 0};
  WLK_LIST_FOR_EACH (link, &resource->held) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    if (lock->agent->thread_id == thread) add_own(&own, lock);
  }
  WLK_LIST_FOR_EACH (link, &resource->queue) {
    struct wlk_request *other = WLK_REQUEST_OF(link, by_resource);
    bool excluded = own.exclusive || other->mode == WLK_EXCLUSIVE ||
                    own.units + other->weight > resource->limit;
    if (own.first && excluded) return own.first;
    if (other == request) break;
    if (other->agent->thread_id == thread && !other->passes) add_own(&own, other);
  }
  return NULL;
}

/* Whether the thread would wait for itself; if so, and if `cycle` has room for it, it is written
 * there. */
static bool is_blocked_by_itself(
    struct wlk_turn *turn, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(turn->shard->mutex)
{
  if (request->state != WLK_STATE_PENDING) return false;
  struct wlk_request *obstacle = find_own_obstacle(request);
  if (!obstacle) return false;
  wlk_turn_is_whole(turn);
  wlk_cycle_write_pair(cycle, turn->process, request, obstacle);
  return true;
}

/* Ends the request if its thread would wait for itself; says so, if there is memory. */
static enum wlk_status refuse_to_block(
    struct wlk_request *request, struct wlk_cycle *cycle, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_OK;
  wlk_turn_begin_whole(&turn, request->agent, request->shard);
  if (is_blocked_by_itself(&turn, request, cycle)) {
    status = WLK_DEADLOCK;
    if (cycle->written) {
      remove_from_resource(&turn, request);
      wlk_turn_take_events(&turn, events);
    }
  }
  wlk_turn_end(&turn);
  return status;
}

/* Whether it has to be asked whether the thread waits for itself: once, and again while a request
 * waits that may have got ahead since. Thefts, which do so, too, are by other threads. */
static bool may_be_in_its_own_way(struct wlk_request *request)
{
  if (!request->blocked) return true;
  struct wlk_turn turn;
  wlk_turn_begin(&turn, request->agent, request->shard);
  bool may_be = request->state == WLK_STATE_PENDING && wlk_queue_has_more(request);
  wlk_turn_end(&turn);
  return may_be;
}

/* Blocks until the request is not pending any more, or the time is over. */
static void block(struct wlk_turn *turn, struct wlk_request *request, uint64_t timeout)
    WLK_REQUIRES(turn->shard->mutex)
{
  uint64_t now = wlk_port_now(true);
  uint64_t end = timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
  request->awaited = true;
  while (request->state == WLK_STATE_PENDING && now < end) {
    wlk_condition_wait_for(&request->agent->changed, &turn->shard->mutex, end - now);
    now = wlk_port_now(true);
  }
  request->awaited = false;
}

static enum wlk_status wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_PENDING;
  wlk_turn_begin(&turn, request->agent, request->shard);
  block(&turn, request, timeout);
  if (request->state == WLK_STATE_STOLEN) {
    status = end_stolen(&turn, request, events);
  } else if (request->state == WLK_STATE_HELD) {
    /* The caller is told by its result, not by the event. */
    wlk_agent_drop_event(request);
    events->token = request->token;
    status = WLK_GRANTED;
  }
  if (status != WLK_PENDING) wlk_turn_take_events(&turn, events);
  wlk_turn_end(&turn);
  return status;
}

enum wlk_status wlk_wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_snapshot **snapshot,
    struct wlk_events *events)
{
  struct wlk_cycle cycle = WLK_CYCLE_INIT;
  enum wlk_status status = WLK_OK;
  events->count = 0;
  if (may_be_in_its_own_way(request)) {
    do status = refuse_to_block(request, &cycle, events);
    while (status == WLK_DEADLOCK && wlk_cycle_grow(&cycle, &status));
    wlk_cycle_finish(&cycle, status, snapshot);
  }
  if (status == WLK_NO_MEMORY) wlk_end_the_request(request);
  if (status != WLK_OK) return status;
  request->blocked = true;
  return wait_for_the_lock(request, timeout, events);
}

/* ---- 2.6 termination of locks ---- */

/* A turn for each: between two of them others see that some have ended. */
static void end_in_a_turn(struct wlk_request *request, bool only_if_pending)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, request->agent, request->shard);
  bool pending = request->state == WLK_STATE_PENDING;
  if (request->state == WLK_STATE_STOLEN && !only_if_pending)
    wlk_turn_end_request(&turn, request);
  else if (pending || !only_if_pending)
    remove_from_resource(&turn, request);
  /* What this granted to the agent itself ends like its other locks: nobody is told. */
  WLK_LIST_DRAIN (link, &turn.granted) wlk_list_remove(link);
  wlk_turn_end(&turn);
}

static void terminate_remaining_locks_and_requests(struct wlk_agent *agent)
{
  struct wlk_link *next;
  for (struct wlk_link *link = agent->requests.next; link != &agent->requests; link = next) {
    next = link->next; /* an abort can grant other requests of the agent, but ends none of them */
    end_in_a_turn(WLK_REQUEST_OF(link, by_agent), true);
  }
  WLK_LIST_DRAIN (link, &agent->requests) end_in_a_turn(WLK_REQUEST_OF(link, by_agent), false);
}

void wlk_agent_terminate(struct wlk_agent *agent)
{
  terminate_remaining_locks_and_requests(agent);
  wlk_agent_free(agent);
}
