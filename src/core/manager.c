/* Sections 2.2, 2.6 and 4 of the specification. The specification's lock task queue, which runs one
 * algorithm after the other, is the process's mutex: a turn is a task. Where it enqueues steps on
 * an agent's event loop, the agent gets an event, or, if the agent is the caller, the result of the
 * call. */
#include "manager.h"

#include "alloc.h"
#include "hash.h"
#include "resource.h"
#include "snapshot.h"

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
  wlk_table_init(&manager->resources);
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

  struct wlk_turn turn;
  wlk_turn_begin(&turn, process, NULL);
  struct wlk_entry *known = wlk_table_find(&process->managers, &fresh->entry);
  if (!known) wlk_turn_insert(&turn, &process->managers, &fresh->entry);
  struct wlk_manager *manager = known ? WLK_ITEM(known, struct wlk_manager, entry) : fresh;
  manager->openings++;
  wlk_turn_end(&turn);

  if (manager != fresh) wlk_free(fresh);
  *result = manager;
  return WLK_OK;
}

void wlk_manager_close(struct wlk_manager *manager)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, manager->process, NULL);
  bool last = --manager->openings == 0;
  if (last) {
    wlk_turn_remove(&turn, &manager->process->managers, &manager->entry);
    wlk_list_remove(&manager->resources.by_unfit);
  }
  wlk_turn_end(&turn);
  if (!last) return;
  /* Nobody can find the manager any more: it is this call's. */
  if (manager->resources.chains != manager->resources.least) wlk_free(manager->resources.chains);
  wlk_free(manager);
}

/* ---- 2.5 lock requests ---- */

/* Whether a request is grantable; it may be the first of its queue, or not be in it yet. */
static bool is_grantable(const struct wlk_request *request)
{
  const struct wlk_resource *resource = request->resource;
  const struct wlk_link *queue = &resource->queue;
  if (!wlk_list_is_empty(queue) && queue->next != &request->by_resource) return false;
  if (wlk_list_is_empty(&resource->held)) return true;
  /* An exclusive lock is alone, so any one of the held locks tells the mode of all. Without a limit
   * all three numbers are 0. */
  return request->mode == WLK_SHARED &&
         WLK_REQUEST_OF(resource->held.next, by_resource)->mode == WLK_SHARED &&
         resource->units + request->weight <= resource->limit;
}

/* ---- 4.4 process the lock request queue ---- */

static void process_the_lock_request_queue(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->process->mutex)
{
  WLK_LIST_DRAIN (link, &resource->queue) {
    struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    if (!is_grantable(request)) return;
    wlk_list_remove(link);
    wlk_list_append(&resource->held, link);
    resource->pending--;
    resource->units += request->weight;
    request->token = ++turn->process->grants;
    request->state = WLK_STATE_HELD;
    request->since = wlk_port_now(false);
    wlk_withdraw_declaration(request);
    wlk_agent_tell(turn, request, WLK_NEWS_GRANTED);
  }
}

/* ---- 4.1 request a lock ---- */

/* Counts a request that enters its manager, or leaves it. */
static void count_in(struct wlk_manager *manager, const struct wlk_request *request)
{
  manager->requests++;
  manager->labels += wlk_label_length(request) > 0;
  manager->name_units += wlk_label_length(request);
}

static void count_out(struct wlk_manager *manager, const struct wlk_request *request)
{
  manager->requests--;
  manager->labels -= wlk_label_length(request) > 0;
  manager->name_units -= wlk_label_length(request);
}

static void steal_the_held_locks(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->process->mutex)
{
  WLK_LIST_DRAIN (link, &resource->held) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_resource);
    wlk_list_remove(link);
    count_out(resource->manager, lock);
    lock->state = WLK_STATE_STOLEN;
    lock->thief.thread = turn->caller->thread_id;
    lock->thief.number = turn->caller->number;
    wlk_agent_tell(turn, lock, WLK_NEWS_STOLEN);
  }
  resource->units = 0;
}

/* Tells a caller by its result, not by an event, that its request was granted. */
static enum wlk_status answer(
    struct wlk_turn *turn, struct wlk_request *request, struct wlk_events *events)
    WLK_REQUIRES(turn->process->mutex)
{
  if (request->state == WLK_STATE_PENDING) {
    request->since = wlk_port_now(false);
    wlk_declare(turn->process, request);
    return WLK_PENDING;
  }
  request->news = 0;
  wlk_list_remove(&request->by_event);
  events->token = request->token;
  return WLK_GRANTED;
}

/* Whether the request, which would wait, closes a cycle; if so, and if `cycle` has room for it, it
 * is written there. */
static bool is_deadlock(struct wlk_turn *turn, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(turn->process->mutex)
{
  struct wlk_request *lock;
  if (!request->declaration || !request->declaration->declares) return false;
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

/* Why a request is not made, nothing was changed; WLK_OK if it is. The resource is held or waited
 * for if not, so it is an old one and stays. */
static enum wlk_status refuse(
    struct wlk_turn *turn, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle) WLK_REQUIRES(turn->process->mutex)
{
  if (option == WLK_IF_AVAILABLE) return is_grantable(request) ? WLK_OK : WLK_NOT_AVAILABLE;
  if (!extra || is_grantable(request)) return WLK_OK;
  if (extra->bounded && request->resource->pending >= extra->max_pending) return WLK_QUEUE_FULL;
  return is_deadlock(turn, request, cycle) ? WLK_DEADLOCK : WLK_OK;
}

static enum wlk_status request_a_lock(
    struct wlk_turn *turn, struct wlk_manager *manager, struct wlk_request *request,
    enum wlk_option option, const struct wlk_extra *extra, struct wlk_cycle *cycle,
    struct wlk_events *events) WLK_REQUIRES(turn->process->mutex)
{
  struct wlk_resource *resource = wlk_resource_get(turn, manager);
  request->resource = resource;
  if (option == WLK_STEAL) {
    steal_the_held_locks(turn, resource);
    wlk_list_prepend(&resource->queue, &request->by_resource);
  } else {
    uint32_t limit = extra ? extra->limit : 0;
    bool is_first = set_limit(request, limit);
    if (request->mode == WLK_SHARED && resource->limit != limit) {
      events->limit = resource->limit;
      return WLK_OTHER_LIMIT;
    }
    enum wlk_status refusal = refuse(turn, request, option, extra, cycle);
    if (refusal != WLK_OK) {
      if (is_first) unset_limit(resource);
      return refusal;
    }
    wlk_list_append(&resource->queue, &request->by_resource);
  }
  resource->pending++;
  count_in(manager, request);
  wlk_list_append(&request->agent->requests, &request->by_agent);
  process_the_lock_request_queue(turn, resource);
  return answer(turn, request, events);
}

static enum wlk_status ask(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_cycle *cycle, struct wlk_events *events)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, request->agent->process, request->agent);
  enum wlk_status status = request_a_lock(&turn, manager, request, option, extra, cycle, events);
  /* A turn that is followed by another takes no events: that one's would take their place. */
  bool again = status == WLK_DEADLOCK && cycle && !cycle->written;
  if (!again) wlk_turn_take_events(&turn, events);
  wlk_turn_end(&turn);
  return status;
}

/* Once the room for a cycle is enough, the answer is final. Until then all is asked anew: the cycle
 * may be another one by then, or gone. */
static enum wlk_status ask_until_told(
    struct wlk_manager *manager, struct wlk_request *request, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_snapshot **snapshot, struct wlk_events *events)
{
  struct wlk_cycle cycle = WLK_CYCLE_INIT;
  enum wlk_status status;
  do status = ask(manager, request, option, extra, &cycle, events);
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

  enum wlk_status status = extra ? ask_until_told(manager, request, option, extra, snapshot, events)
                                 : ask(manager, request, option, NULL, NULL, events);
  wlk_resource_trim_spare(agent);
  if (status == WLK_GRANTED || status == WLK_PENDING)
    *result = request;
  else
    wlk_request_recycle(agent, request);
  return status;
}

/* ---- 4.2 release the lock ---- */

/* Takes a lock or a request off its resource, lets in who waits behind it, and ends it. */
static void remove_from_resource(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->process->mutex)
{
  struct wlk_resource *resource = request->resource;
  wlk_list_remove(&request->by_resource);
  if (request->state == WLK_STATE_PENDING)
    resource->pending--;
  else
    resource->units -= request->weight;
  wlk_withdraw_declaration(request);
  count_out(resource->manager, request);
  process_the_lock_request_queue(turn, resource);
  wlk_resource_drop_if_unused(turn, resource);
  wlk_request_end(turn, request);
}

static enum wlk_status end_stolen(
    struct wlk_turn *turn, struct wlk_request *lock, struct wlk_events *events)
    WLK_REQUIRES(turn->process->mutex)
{
  events->thief_thread = lock->thief.thread;
  events->thief_number = lock->thief.number;
  wlk_request_end(turn, lock);
  return WLK_STOLEN;
}

enum wlk_status wlk_release_the_lock(struct wlk_request *lock, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_OK;
  wlk_turn_begin(&turn, lock->agent->process, lock->agent);
  if (lock->state == WLK_STATE_HELD) {
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

/* ---- 4.3 abort the request ---- */

enum wlk_status wlk_abort_the_request(struct wlk_request *request, struct wlk_events *events)
{
  struct wlk_turn turn;
  enum wlk_status status = WLK_OK;
  wlk_turn_begin(&turn, request->agent->process, request->agent);
  events->count = 0;
  if (request->state == WLK_STATE_PENDING) {
    remove_from_resource(&turn, request);
    wlk_turn_take_events(&turn, events);
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
  struct wlk_agent *agent = request->agent;
  wlk_turn_begin(&turn, agent->process, agent);
  if (request->state == WLK_STATE_STOLEN)
    wlk_request_end(&turn, request);
  else
    remove_from_resource(&turn, request);
  if (!wlk_list_is_empty(&agent->events)) wlk_agent_wake(&turn, agent);
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
    if (other->agent->thread_id == thread) add_own(&own, other);
  }
  return NULL;
}

/* Whether the thread would wait for itself; if so, and if `cycle` has room for it, it is written
 * there. Asked once: nothing gets ahead of a request but thefts, by other threads. */
static bool is_blocked_by_itself(
    struct wlk_turn *turn, struct wlk_request *request, struct wlk_cycle *cycle)
    WLK_REQUIRES(turn->process->mutex)
{
  if (request->state != WLK_STATE_PENDING || request->blocked) return false;
  struct wlk_request *obstacle = find_own_obstacle(request);
  if (!obstacle) return false;
  wlk_cycle_write_pair(cycle, turn->process, request, obstacle);
  return true;
}

/* Blocks until the request is not pending any more, or the time is over. */
static void block(struct wlk_process *process, struct wlk_request *request, uint64_t timeout)
    WLK_REQUIRES(process->mutex)
{
  struct wlk_agent *agent = request->agent;
  uint64_t now = wlk_port_now(true);
  uint64_t end = timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
  request->blocked = true;
  agent->awaited = request;
  while (request->state == WLK_STATE_PENDING && now < end) {
    wlk_condition_wait_for(&agent->unblocked, &process->mutex, end - now);
    now = wlk_port_now(true);
  }
  agent->awaited = NULL;
}

static enum wlk_status wait_for_the_lock(
    struct wlk_turn *turn, struct wlk_request *request, uint64_t timeout, struct wlk_cycle *cycle,
    struct wlk_events *events) WLK_REQUIRES(turn->process->mutex)
{
  if (is_blocked_by_itself(turn, request, cycle)) {
    if (cycle->written) remove_from_resource(turn, request);
    return WLK_DEADLOCK;
  }
  block(turn->process, request, timeout);
  if (request->state == WLK_STATE_STOLEN) return end_stolen(turn, request, events);
  return request->state == WLK_STATE_HELD ? answer(turn, request, events) : WLK_PENDING;
}

enum wlk_status wlk_wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_snapshot **snapshot,
    struct wlk_events *events)
{
  struct wlk_cycle cycle = WLK_CYCLE_INIT;
  enum wlk_status status;
  events->count = 0;
  do {
    struct wlk_turn turn;
    wlk_turn_begin(&turn, request->agent->process, request->agent);
    status = wait_for_the_lock(&turn, request, timeout, &cycle, events);
    /* As for a request that closes a cycle: a turn that is followed by another takes none. */
    if (status != WLK_PENDING && (status != WLK_DEADLOCK || cycle.written))
      wlk_turn_take_events(&turn, events);
    wlk_turn_end(&turn);
  } while (status == WLK_DEADLOCK && wlk_cycle_grow(&cycle, &status));
  wlk_cycle_finish(&cycle, status, snapshot);
  if (status == WLK_NO_MEMORY) wlk_end_the_request(request);
  return status;
}

/* ---- 2.6 termination of locks ---- */

static void terminate_remaining_locks_and_requests(struct wlk_turn *turn, struct wlk_agent *agent)
    WLK_REQUIRES(turn->process->mutex)
{
  struct wlk_link *next;
  for (struct wlk_link *link = agent->requests.next; link != &agent->requests; link = next) {
    struct wlk_request *request = WLK_REQUEST_OF(link, by_agent);
    next = link->next; /* an abort can grant other requests of the agent, but ends none of them */
    if (request->state == WLK_STATE_PENDING) remove_from_resource(turn, request);
  }
  WLK_LIST_DRAIN (link, &agent->requests) {
    struct wlk_request *lock = WLK_REQUEST_OF(link, by_agent);
    if (lock->state == WLK_STATE_HELD)
      remove_from_resource(turn, lock);
    else
      wlk_request_end(turn, lock);
  }
}

void wlk_agent_terminate(struct wlk_agent *agent)
{
  struct wlk_turn turn;
  struct wlk_process *process = agent->process;
  wlk_turn_begin(&turn, process, agent);
  agent->terminating = true;
  terminate_remaining_locks_and_requests(&turn, agent);
  wlk_list_remove(&agent->by_wake);
  wlk_list_remove(&agent->by_process);
  process->agent_count--;
  /* Nothing can tell the agent anything from here on, so the pins only become fewer. */
  while (agent->pins > 0) wlk_condition_wait(&process->unpinned, &turn.process->mutex);
  wlk_turn_end(&turn);
  wlk_free(agent->spare);
  wlk_free(agent->spare_request);
  wlk_condition_destroy(&agent->unblocked);
  wlk_free(agent);
}
