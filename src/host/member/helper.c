#include "helper.h"

#include "../segment/arena.h"
#include "../segment/members.h"
#include "../segment/rebuild.h"
#include "events.h"
#include "job.h"
#include "membership.h"
#include "section.h"
#include "self_check.h"
#include "wake_up.h"

#include <string.h>

#define SHORTEST    UINT64_C(50000)
#define LONGEST     UINT64_C(100000000)
#define RAISE_AFTER UINT64_C(25000000)
#define CHECK_EACH  UINT64_C(1000000000)

enum {
  ACCEPTED = WLK_CAPACITY(WLH_MEMBERS + WLH_MEMBERS / 2, 1),
  AT_ONCE = WLK_CAPACITY(4096, 1),
  ROOMY_MOST = 10
};

/* Indices of `items` in `serve`. */
enum {
  ALARM,
  DATAGRAM,
  STREAM,
  WATCH,
  MEMBERS,
  OTHERS = MEMBERS + WLH_MEMBERS,
  ITEMS = OTHERS + ACCEPTED
};

static void schedule_check(struct wlh_watch *watch, uint64_t now)
{
  watch->check_at = now;
  watch->since = now;
}

/* A dying process loses its sockets some time before its byte lock, because the kernel frees the
 * memory of the process in between. So the lock is checked repeatedly: the next check comes after
 * an eighth of the time since the first suspicion. The times of checks lie on a grid, so that one
 * round checks many members. The grid of each process is shifted by its id, so that processes check
 * at different times. */
static void postpone_check(
    struct wlh_bucket *bucket, struct wlh_watch *watch, uint64_t now, uint64_t longest)
{
  uint64_t phase = bucket->id % LONGEST;
  uint64_t interval = (now - watch->since) / 8;
  uint64_t grid = SHORTEST;
  if (interval < SHORTEST) interval = SHORTEST;
  if (interval > longest) interval = longest;
  while (grid * 2 <= interval) grid *= 2;
  watch->check_at = ((now + phase) / grid + 1) * grid - phase;
}

static bool has_bit(const uint64_t *bits, uint32_t i)
{
  return (bits[i / 64] >> (i % 64)) & 1;
}

/* The more members there are, the more a check costs, and each member may have to check all others.
 * So the longest interval grows with the number of members to check. */
static uint64_t longest_interval(const struct wlh_bucket *bucket)
{
  uint64_t count = 0;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) count += bucket->watches[i].check_at != 0;
  return LONGEST * (1 + count / 32);
}

/* Returns whether a suspected member is dead. The caller must be outside, because the time that the
 * kernel needs for a check grows with the number of members. */
static bool check_suspects(struct wlh_bucket *bucket, uint64_t now)
{
  bool dead = false;
  bool connects = bucket->watching;
  uint64_t longest = longest_interval(bucket);
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    struct wlh_watch *watch = &bucket->watches[i];
    if (has_bit(bucket->suspects, i)) schedule_check(watch, now);
    if (watch->check_at == 0 || watch->check_at > now) continue;
    watch->check_at = 0;
    if (i == bucket->arena.member) continue;
    if (!wlh_port_is_alive(&bucket->port, i)) {
      dead = true;
      continue;
    }
    bool tried = connects && watch->descriptor < 0;
    if (tried && wlh_port_connect(&bucket->port, i, &watch->descriptor) == WLH_SENT) continue;
    if (tried) connects = false; /* Without a free descriptor, all attempts would fail. */
    postpone_check(bucket, watch, now, longest);
  }
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) bucket->suspects[i] = 0;
  return dead;
}

/* If a request of ours waits, sets a bit for each member to watch and returns true. Updates
 * `watching` and `joins`, too. Otherwise the connections stay, so that the next request that waits
 * does not need the helper, unless the helper must look at the files each LONGEST meanwhile. */
static bool find_members(struct wlh_bucket *bucket, uint64_t *members)
{
  if (wlh_cells_pending_count(&bucket->arena) == 0) {
    if (bucket->port.watch < 0) bucket->watching = false;
    return false;
  }
  bucket->watching = true;
  bucket->joins = bucket->arena.segment->header.joins;
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) members[i] = 0;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    if (i == bucket->arena.member || !wlh_cells_is_member(&bucket->arena, i)) continue;
    members[i / 64] |= UINT64_C(1) << (i % 64);
  }
  return true;
}

/* The caller must be outside. A member that refuses the connection is checked soon. */
static void watch_members(struct wlh_bucket *bucket, const uint64_t *members, uint64_t now)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    struct wlh_watch *watch = &bucket->watches[i];
    if (!has_bit(members, i)) {
      /* We need not watch it now. If it is a member, the next request that waits must. */
      if (watch->check_at != 0) bucket->watching = false;
      watch->check_at = 0;
      continue;
    }
    if (watch->descriptor >= 0 || watch->check_at != 0) continue;
    if (wlh_port_connect(&bucket->port, i, &watch->descriptor) != WLH_SENT)
      schedule_check(watch, now + SHORTEST);
  }
}

/* Records why requests fail: the file is full if `error` is 0, else it cannot grow. */
static void note_no_room(struct wlh_bucket *bucket, uint64_t bytes, int error)
{
  wlk_mutex_lock(&bucket->qmu);
  if (error == 0) {
    (void)wlh_fail(
        &bucket->failure, WLH_FULL,
        WLH_PORT_FILE
        " is full: it has the maximum of %u cells. Hold and request fewer locks, or mark fewer "
        "names as done, at a time, or use several buckets.",
        bucket->port.path, (unsigned)WLH_CELLS_MOST);
  } else {
    (void)wlh_fail(
        &bucket->failure, WLH_FULL, WLH_PORT_FILE ": cannot allocate %llu bytes: %s%s",
        bucket->port.path, (unsigned long long)bytes, wlh_port_error_text(error),
        wlh_port_remedy(error));
  }
  wlk_mutex_unlock(&bucket->qmu);
}

/* Returns true if names whose marks are over have made room, or the tables cannot be entered. */
static bool make_room_of_marks(struct wlh_bucket *bucket)
{
  if (wlh_enter(bucket) != WLH_IN) return true;
  bool made = wlh_cells_make_room(&bucket->arena, bucket->needed);
  wlh_leave_tables(bucket);
  return made;
}

/* Frees cells. If these are too few, extends the tables until the first deferred operation fits. */
static void make_room(struct wlh_bucket *bucket)
{
  if (make_room_of_marks(bucket)) return;
  uint32_t ncells = bucket->arena.ncells;
  uint32_t wanted = ncells;
  uint32_t missing = bucket->needed;
  do {
    wanted *= 2;
  } while (wanted < WLH_CELLS_MOST && wanted - ncells < missing);
  uint64_t bytes = wlh_segment_bytes(wanted);
  /* Any later critical section that gives space back to the system raises this count. */
  uint64_t before = bucket->arena.shrinks;
  int error = wanted > WLH_CELLS_MOST ? 0 : wlh_port_grow(&bucket->port, bytes);
  bucket->no_room = wanted > WLH_CELLS_MOST || error != 0;
  if (bucket->no_room) note_no_room(bucket, bytes, error);
  if (bucket->no_room || wlh_enter(bucket) != WLH_IN) return;
  /* If another process has given the space back meanwhile, do_work grows the file again. */
  bool is_ours = bucket->arena.shrinks == before;
  error = wlh_extend_tables(bucket);
  if (is_ours) (void)wlh_cells_grow(&bucket->arena, wanted);
  wlh_leave_tables(bucket);
  bucket->no_room = error != 0;
  if (bucket->no_room) note_no_room(bucket, bytes, error);
}

/* Reaps dead members, does all deferred operations, and sets `*waits` to whether requests of ours
 * wait. The caller must have mu. */
static void do_work(struct wlh_bucket *bucket, bool *waits)
{
  uint64_t members[WLH_MEMBERS / 64] = {0};
  enum wlh_done done;
  bucket->no_room = false;
  bool dead = check_suspects(bucket, wlh_port_time());
  do {
    if (wlh_enter(bucket) != WLH_IN) return;
    if (dead) (void)wlh_cells_reap(&bucket->arena);
    dead = false;
    done = wlh_do_deferred(bucket, AT_ONCE);
    *waits = find_members(bucket, members);
    wlh_leave_tables(bucket);
    wlh_empty_trash(bucket);
    if (wlh_is_lost(bucket)) return;
    if (done == WLH_NEEDS_ROOM) make_room(bucket);
    if (done == WLH_NEEDS_HELPER) wlh_do_job(bucket);
  } while (done != WLH_DONE_ALL && !wlh_is_lost(bucket));
  watch_members(bucket, members, wlh_port_time());
}

/* Sends the wake-ups of `unsent` now. If any fails again, sets `retry_at`, at growing intervals. */
static void retry_wake_ups(struct wlh_bucket *bucket, uint64_t now)
{
  if (wlh_wake_up_retry(bucket)) {
    bucket->retry_at = 0;
    return;
  }
  if (bucket->retry_at == 0)
    bucket->retry_interval = SHORTEST;
  else if (now < bucket->retry_at)
    return;
  else if (bucket->retry_interval < LONGEST)
    bucket->retry_interval *= 2;
  bucket->retry_at = now + bucket->retry_interval;
}

static uint64_t time_of_next_work(const struct wlh_bucket *bucket)
{
  uint64_t until = WLH_PORT_FOREVER;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    uint64_t at = bucket->watches[i].check_at;
    if (at != 0 && at < until) until = at;
  }
  if (bucket->retry_at != 0 && bucket->retry_at < until) until = bucket->retry_at;
  if (bucket->raise_at != 0 && bucket->raise_at < until) until = bucket->raise_at;
  return until;
}

static uint64_t time_to_wait(const struct wlh_bucket *bucket, bool waits, uint64_t now)
{
  uint64_t until = time_of_next_work(bucket);
  if (bucket->check_at != 0 && bucket->check_at < until) until = bucket->check_at;
  if (bucket->refresh_at < until) until = bucket->refresh_at;
  /* Without a watch, nothing reports the deletion of our sockets, so we check every LONGEST. */
  if (waits && bucket->port.watch < 0 && until > now + LONGEST) until = now + LONGEST;
  if (until == WLH_PORT_FOREVER) return until;
  return until > now ? until - now : 0;
}

/* Accepts all connections. If there is no room for more, sets `cannot_accept`. */
static void accept_others(struct wlh_bucket *bucket)
{
  for (uint32_t i = 0; i < ACCEPTED; i++) {
    if (bucket->accepted[i] >= 0) continue;
    if (!wlh_port_accept(&bucket->port, &bucket->accepted[i], &bucket->cannot_accept)) return;
  }
  bucket->cannot_accept = true;
}

/* Marks a harmed file as lost, and binds missing sockets again. Returns whether there is work:
 * wake-ups to missing sockets were lost, so there may be mail. */
static bool repair_files(struct wlh_bucket *bucket)
{
  uint64_t bytes = wlh_segment_bytes(bucket->arena.ncells);
  if (bucket->port.watch >= 0) wlh_port_take_file_reports(&bucket->port);
  const char *harm = wlh_port_find_harm(&bucket->port, bytes);
  if (harm) {
    wlh_set_lost(bucket, harm);
    return true;
  }
  if (wlh_port_is_bound(&bucket->port, bucket->arena.member)) return false;
  wlh_stop_hearing(bucket);
  /* After a failure, the next check binds again and replaces these sockets. If they were watched, a
   * report of that would make us bind again at once, for as long as it fails. */
  if (wlh_port_bind(&bucket->port, bucket->arena.member) == 0)
    wlh_port_watch(&bucket->port, bucket->arena.member);
  return true;
}

static bool has_requests(struct wlh_bucket *bucket)
{
  bool has = false;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &bucket->agents) {
    struct wlh_agent *agent = WLK_ITEM(link, struct wlh_agent, by_bucket);
    has = has || !wlk_list_is_empty(&agent->requests);
  }
  wlk_mutex_unlock(&bucket->qmu);
  return has;
}

/* Does nothing before `refresh_at`. */
static void refresh_file(struct wlh_bucket *bucket, uint64_t now)
{
  if (now < bucket->refresh_at) return;
  uint64_t after = wlh_port_refresh(&bucket->port);
  bucket->refresh_at = after == WLH_PORT_FOREVER ? after : now + after;
}

void wlh_helper_give_up_cells(struct wlh_bucket *bucket, bool idle)
{
  struct wlh_segment *segment = wlh_begin_look(bucket);
  bool roomy = wlh_cells_has_member(&bucket->arena) && wlh_cells_would_shrink(&bucket->arena);
  wlh_end_look(bucket, segment);
  bucket->shrinkable_checks = roomy ? bucket->shrinkable_checks + 1 : 0;
  if (bucket->shrinkable_checks == 0 || (!idle && bucket->shrinkable_checks < ROOMY_MOST)) return;
  if (wlh_enter(bucket) != WLH_IN) return;
  if (wlh_cells_would_shrink(&bucket->arena)) (void)wlh_cells_rebuild(&bucket->arena);
  wlh_leave_tables(bucket);
  bucket->shrinkable_checks = 0;
}

/* No notification reports that a directory above ours was moved, or that the file was overwritten.
 * So the files are checked each second while this process has requests, or its agents entered in
 * the last second. Otherwise the next critical section wakes the helper, which checks at once.
 * Returns whether there is work. */
static bool check_files(struct wlh_bucket *bucket, uint64_t now)
{
  refresh_file(bucket, now);
  if (bucket->is_checked && now < bucket->check_at) return false;
  bool idle = !bucket->used;
  bool needed = !bucket->is_checked || bucket->used || has_requests(bucket);
  bucket->is_checked = needed;
  bucket->used = false;
  bucket->check_at = needed ? now + CHECK_EACH : 0;
  if (repair_files(bucket)) return true;
  if (needed) wlh_check_own_cells(bucket);
  wlh_helper_give_up_cells(bucket, idle);
  return wlh_is_lost(bucket);
}

static void fill_items(struct wlh_bucket *bucket, struct wlh_wait_item *items)
{
  items[ALARM] = (struct wlh_wait_item){bucket->alarm.rings, true, false, false};
  wlk_mutex_lock(&bucket->qmu);
  int datagram = bucket->hearer ? -1 : bucket->port.datagram;
  wlk_mutex_unlock(&bucket->qmu);
  items[DATAGRAM] = (struct wlh_wait_item){datagram, true, false, false};
  items[STREAM] =
      (struct wlh_wait_item){bucket->cannot_accept ? -1 : bucket->port.stream, true, false, false};
  items[WATCH] = (struct wlh_wait_item){bucket->port.watch, true, false, false};
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    int descriptor = bucket->watches[i].descriptor;
    items[MEMBERS + i] = (struct wlh_wait_item){descriptor, false, false, false};
  }
  for (uint32_t i = 0; i < ACCEPTED; i++) {
    items[OTHERS + i] = (struct wlh_wait_item){bucket->accepted[i], false, false, false};
  }
}

/* Handles the ready items. Returns whether there is work. */
static bool take_items(struct wlh_bucket *bucket, const struct wlh_wait_item *items)
{
  uint64_t now = wlh_port_time();
  bool any = time_of_next_work(bucket) <= now;
  for (uint32_t i = 0; i < ITEMS; i++) any = any || items[i].ready;
  if (items[ALARM].ready) wlh_port_take_pokes(bucket->alarm);
  if (items[DATAGRAM].ready) wlh_port_take_wake_ups(&bucket->port);
  if (items[STREAM].ready) accept_others(bucket);
  bool look = items[DATAGRAM].hung_up || items[STREAM].hung_up || items[WATCH].ready;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    if (!items[MEMBERS + i].hung_up) continue;
    /* The member may have left because the files are lost, so they must be checked. */
    look = true;
    wlh_port_disconnect(&bucket->port, &bucket->watches[i].descriptor);
    schedule_check(&bucket->watches[i], now);
  }
  for (uint32_t i = 0; i < ACCEPTED; i++) {
    if (!items[OTHERS + i].hung_up) continue;
    wlh_port_disconnect(&bucket->port, &bucket->accepted[i]);
    bucket->cannot_accept = false;
  }
  if (look || bucket->port.watch < 0) any = repair_files(bucket) || any;
  return any;
}

/* Moves our descriptors to high numbers (wlh_port_move_all_high). Descriptors are not moved at the
 * start, when a process waits for its first grant, because many processes end soon afterwards. The
 * function releases mu during the slow system call: wlh_port_enlarge_table reads only `port.base`,
 * which only the helper changes. */
static void raise_descriptors(struct wlh_bucket *bucket) WLK_REQUIRES(bucket->mu)
{
  bucket->raise_at = 0;
  wlk_mutex_unlock(&bucket->mu);
  wlh_port_enlarge_table(&bucket->port);
  wlk_mutex_lock(&bucket->mu);
  wlh_port_move_all_high(&bucket->port);
  for (uint32_t i = 0; i < ACCEPTED; i++) wlh_port_move_high(&bucket->port, &bucket->accepted[i]);
}

static bool should_go_on(const struct wlh_bucket *bucket)
{
  return !wlh_is_lost(bucket) && !wlh_is_stopping(bucket);
}

/* Returns when the file is lost or the bucket is being closed. The caller must have mu; the
 * function releases it while it waits. */
static void serve(struct wlh_bucket *bucket) WLK_REQUIRES(bucket->mu)
{
  struct wlh_wait_item items[ITEMS];
  bool waits = false;
  bool any = true;
  while (should_go_on(bucket)) {
    any = check_files(bucket, wlh_port_time()) || any;
    if (any && should_go_on(bucket)) do_work(bucket, &waits);
    if (!should_go_on(bucket)) return;
    uint64_t now = wlh_port_time();
    retry_wake_ups(bucket, now);
    uint64_t time = time_to_wait(bucket, waits, now);
    fill_items(bucket, items);
    wlk_mutex_unlock(&bucket->mu);
    wlh_wake_agents(bucket);
    wlh_port_wait(&bucket->port, items, ITEMS, time);
    wlk_mutex_lock(&bucket->mu);
    any = take_items(bucket, items);
    if (bucket->raise_at != 0 && wlh_port_time() >= bucket->raise_at) raise_descriptors(bucket);
  }
}

/* Prepares what the helper alone uses for the next membership; it closes nothing. */
static void reset_state(struct wlh_bucket *bucket)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    bucket->watches[i].descriptor = -1;
    bucket->watches[i].check_at = 0;
  }
  for (uint32_t i = 0; i < ACCEPTED; i++) bucket->accepted[i] = -1;
  bucket->cannot_accept = false;
  bucket->retry_at = 0;
  bucket->raise_at = wlh_port_time() + RAISE_AFTER;
  bucket->check_at = wlh_port_time() + CHECK_EACH; /* Opening has checked the files. */
  bucket->is_checked = true;
  bucket->shrinkable_checks = 0;
  bucket->refresh_at = 0;
  bucket->used = false;
  bucket->watching = false;
}

static void close_connections(struct wlh_bucket *bucket)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++)
    wlh_port_disconnect(&bucket->port, &bucket->watches[i].descriptor);
  for (uint32_t i = 0; i < ACCEPTED; i++) wlh_port_disconnect(&bucket->port, &bucket->accepted[i]);
}

/* A release, an end and a termination cannot fail, so they are done later, without tables. */
static void fail_operation(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_status status)
    WLK_REQUIRES(bucket->qmu)
{
  enum wlh_op op = item->op;
  if (op == WLH_OP_TERMINATE || op == WLH_OP_RELEASE || op == WLH_OP_END) return;
  wlh_remove_deferred(bucket, item);
  item->op = WLH_OP_NONE;
  if (op == WLH_OP_REQUEST) {
    wlh_request_of(item)->state = WLH_ENDED;
    wlh_post_event(bucket, item, WLH_NEWS_FAILED, (uint32_t)status, 0);
  } else if (op == WLH_OP_READY || op == WLH_OP_SNAPSHOT || op == WLH_OP_PUBLISH) {
    uint32_t news = op == WLH_OP_SNAPSHOT ? WLH_NEWS_SNAPSHOT : WLH_NEWS_READY;
    wlh_record_job_failure(item, status);
    wlh_post_event(bucket, item, news, (uint32_t)status, 0);
  }
}

/* Fails the operations that were deferred before the file was opened. Later ones may be deferred
 * because a user has removed the cause of the failure, so the helper opens the file again. */
static void fail_operations(struct wlh_bucket *bucket, enum wlh_status status)
{
  wlk_mutex_lock(&bucket->qmu);
  struct wlk_link *next;
  for (struct wlk_link *link = bucket->deferred.next; link != &bucket->deferred; link = next) {
    next = link->next;
    struct wlh_item *item = WLK_ITEM(link, struct wlh_item, by_deferred);
    if (item->openings != bucket->openings) fail_operation(bucket, item, status);
  }
  wlk_mutex_unlock(&bucket->qmu);
}

/* Notifies an agent that its request or its lock is lost. The caller must have mu and qmu. */
static void lose_request(struct wlh_bucket *bucket, struct wlh_request *request)
    WLK_REQUIRES(bucket->qmu)
{
  wlh_forget_cell(bucket, request);
  if (request->state == WLH_DEFERRED || request->state == WLH_ENDED) return;
  bool waited = request->state == WLH_WAITING;
  wlh_remove_deferred(bucket, &request->item);
  request->item.op = WLH_OP_NONE;
  request->state = WLH_ENDED;
  if (request->item.gone) {
    wlh_move_to_trash(bucket, request);
  } else if (!(request->item.event.news & WLK_NEWS_STOLEN)) {
    /* The event of a lock keeps its token, because it may also report the grant. */
    uint32_t low = waited ? (uint32_t)WLH_LOST : request->item.event.token_low;
    wlh_post_event(
        bucket, &request->item, waited ? WLH_NEWS_FAILED : WLH_NEWS_LOST, low,
        request->item.event.token_high);
  }
}

/* Records in `failure` how the file was lost, too. */
static void lose_all_requests(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (by_bucket, &bucket->agents) {
    struct wlh_agent *agent = WLK_ITEM(by_bucket, struct wlh_agent, by_bucket);
    agent->cell = 0;
    struct wlk_link *next;
    for (struct wlk_link *link = agent->requests.next; link != &agent->requests; link = next) {
      next = link->next;
      lose_request(bucket, WLK_ITEM(link, struct wlh_request, by_agent));
    }
  }
  const char *why = __atomic_load_n(&bucket->lost_why, __ATOMIC_RELAXED);
  (void)wlh_fail(
      &bucket->failure, WLH_LOST, WLH_PORT_FILE " %s", bucket->port.path,
      why ? why : "was truncated");
  wlk_mutex_unlock(&bucket->qmu);
}

/* Returns the descriptor of the watch, or -1. Closing it takes some 10 ms, so the caller must close
 * it only when no thread waits for the helper. */
static int run_membership(struct wlh_bucket *bucket)
{
  int slow = -1;
  struct wlh_failure failure = {WLH_OK, ""};
  wlk_mutex_lock(&bucket->mu);
  wlk_mutex_lock(&bucket->qmu);
  bucket->openings++;
  wlk_mutex_unlock(&bucket->qmu);
  reset_state(bucket);
  enum wlh_status status = wlh_member_open(bucket, &failure);
  if (status == WLH_OK) {
    serve(bucket);
    close_connections(bucket);
    if (wlh_is_lost(bucket)) lose_all_requests(bucket);
    slow = wlh_member_close(bucket);
  } else {
    wlk_mutex_lock(&bucket->qmu);
    bucket->failure = failure;
    wlk_mutex_unlock(&bucket->qmu);
    fail_operations(bucket, status);
  }
  wlh_do_deferred_without_tables(bucket);
  wlh_empty_trash(bucket);
  wlk_mutex_unlock(&bucket->mu);
  wlh_wake_agents(bucket);
  return slow;
}

/* Opens the file again if operations were deferred meanwhile. */
static void run_helper(void *data)
{
  struct wlh_bucket *bucket = data;
  for (bool done = false; !done;) {
    int slow = run_membership(bucket);
    wlk_mutex_lock(&bucket->qmu);
    done = wlh_is_stopping(bucket) || wlk_list_is_empty(&bucket->deferred);
    if (done) {
      bucket->running = false;
      wlk_condition_broadcast(&bucket->ended);
    }
    /* If `done`, another thread may free the bucket from here on. */
    wlk_mutex_unlock(&bucket->qmu);
    wlh_port_close_descriptor(slow);
  }
}

bool wlh_helper_start(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  int error = bucket->running ? 0 : wlh_port_start_thread(run_helper, bucket);
  if (error == 0)
    bucket->running = true;
  else
    (void)wlh_fail(
        &bucket->failure, WLH_FULL,
        "cannot start a thread: %s. End threads or processes, or raise their limit (ulimit -u; in "
        "a container, the pids limit).",
        wlh_port_error_text(error));
  bool running = bucket->running;
  wlk_mutex_unlock(&bucket->qmu);
  if (running) wlh_wake_helper(bucket);
  return running;
}

void wlh_helper_stop(struct wlh_bucket *bucket)
{
  __atomic_store_n(&bucket->stop, 1, __ATOMIC_RELEASE);
  wlh_wake_helper(bucket);
  wlk_mutex_lock(&bucket->qmu);
  while (bucket->running) wlk_condition_wait(&bucket->ended, &bucket->qmu);
  wlk_mutex_unlock(&bucket->qmu);
}
