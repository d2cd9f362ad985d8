/* A libFuzzer target: bytes are operations of several agents on a few names and managers. An oracle of its own, written
 * without the core's structures, says what every call has to answer and whom it has to tell.
 *
 * With -DWLK_STANDALONE it has a main() instead, for compilers without libFuzzer: it makes up so many
 * runs, and then runs the files it is given.
 *
 *   fuzz_corpus rounds [file…] */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { AGENTS = 4, NAMES = 3, MANAGERS = 2, MOST = 64 };

/* ---- the oracle ---- */

enum place { NOWHERE, QUEUED, HOLDING, ROBBED };

struct expected {
  enum place place;
  int agent, resource;
  enum wlk_mode mode;
  uint32_t weight; /* 0: has no limit */
  int32_t priority;
  uint32_t news;  /* not told yet */
  uint64_t since; /* of the news: in which order they came */
  uint32_t thief; /* the number of its agent */
  uint64_t order; /* once granted: of the grants */
  uint64_t token; /* once told */
  struct wlk_request *request;
  bool passes;     /* it only waits for its turn */
  bool declared;   /* it rejects deadlocks */
  bool prepared;   /* a mark, and may set it */
  uint64_t inside; /* locks, as bits */
};

static struct expected all[MOST];
static int queues[NAMES * MANAGERS][MOST], lengths[NAMES * MANAGERS];
static bool has_limit[NAMES * MANAGERS]; /* whether somebody said what it is */
static uint32_t limits[NAMES * MANAGERS];
static bool is_marked[NAMES * MANAGERS];
static uint64_t grants;

static void must(bool condition, const char *sentence)
{
  if (condition) return;
  (void)fprintf(stderr, "the core and the oracle differ: %s\n", sentence);
  abort();
}

/* ---- wake-ups ---- */

static int caller; /* the agent that calls, which gets its news by the call; -1: none does */
static bool is_due[AGENTS]; /* whether it was woken, and has not answered */
static int to_come[AGENTS]; /* how often it was to be woken */
static int wakes[AGENTS];   /* how often it was */
static uint64_t news_count;

static void expect_wake(int agent)
{
  to_come[agent] += !is_due[agent];
  is_due[agent] = true;
}

/* What an end, or a theft, tells of several requests comes in any order. */
static void tell(struct expected *e, uint32_t news)
{
  if (e->news == 0) e->since = news_count += caller >= 0 && news != WLK_NEWS_STOLEN;
  e->news |= news;
  if (e->agent != caller) expect_wake(e->agent);
}

static void start_anew(int agent)
{
  is_due[agent] = false;
  to_come[agent] = wakes[agent] = 0;
}

static void count_wake(void *count)
{
  ++*(int *)count;
}

static bool can_hold(int resource, enum wlk_mode mode, uint32_t weight)
{
  uint64_t units = weight;
  for (int i = 0; i < MOST; i++) {
    if (all[i].place != HOLDING || all[i].resource != resource) continue;
    if (mode == WLK_EXCLUSIVE || all[i].mode == WLK_EXCLUSIVE) return false;
    units += all[i].weight;
  }
  return weight == 0 || units <= limits[resource];
}

static bool is_used(int resource)
{
  for (int i = 0; i < MOST; i++)
    if (all[i].resource == resource && (all[i].place == HOLDING || all[i].place == QUEUED))
      return true;
  return false;
}

/* Whether a shared request has the limit that the name has, if it has one by now. */
static bool fits_limit(int resource, uint32_t limit)
{
  return !has_limit[resource] || !is_used(resource) || limits[resource] == limit;
}

static void note_limit(int resource, enum wlk_mode mode, uint32_t limit)
{
  if (!is_used(resource)) has_limit[resource] = false;
  if (mode == WLK_EXCLUSIVE || has_limit[resource]) return;
  has_limit[resource] = true;
  limits[resource] = limit;
}

/* `quiet`: the request that is told by the call's result; -1 if none. */
static void process_queue(int resource, int quiet)
{
  int *queue = queues[resource];
  while (lengths[resource] > 0 && can_hold(resource, all[queue[0]].mode, all[queue[0]].weight)) {
    struct expected *e = &all[queue[0]];
    e->place = e->passes ? ROBBED : HOLDING;
    if (!e->passes) e->order = ++grants;
    if (queue[0] != quiet) tell(e, e->passes ? WLK_NEWS_PASSED : WLK_NEWS_GRANTED);
    lengths[resource]--;
    memmove(queue, queue + 1, (size_t)lengths[resource] * sizeof *queue);
  }
}

/* Where a request of this priority belongs in the queue. */
static int place_of(int resource, int32_t priority)
{
  int at = lengths[resource];
  while (at > 0 && all[queues[resource][at - 1]].priority < priority) at--;
  return at;
}

static void unqueue(int resource, int id)
{
  int *queue = queues[resource], i = 0;
  while (queue[i] != id) i++;
  lengths[resource]--;
  memmove(queue + i, queue + i + 1, (size_t)(lengths[resource] - i) * sizeof *queue);
}

/* ---- deadlocks, as weblocks.h says ---- */

#define ALL UINT64_MAX

static bool is_inside(const struct expected *e, int lock)
{
  return (e->inside >> lock & 1) != 0;
}

static bool waits_declared(const struct expected *e)
{
  return e->place == QUEUED && e->declared;
}

/* The most units that it needs, or a declared one ahead of it. */
static uint64_t room_needed(const struct expected *e)
{
  uint64_t most = e->mode == WLK_EXCLUSIVE ? ALL : e->weight;
  for (int i = 0; i < lengths[e->resource]; i++) {
    const struct expected *ahead = &all[queues[e->resource][i]];
    if (ahead == e || ahead->priority < e->priority) break;
    if (!ahead->declared) continue;
    if (ahead->mode == WLK_EXCLUSIVE || ahead->weight > most)
      most = ahead->mode == WLK_EXCLUSIVE ? ALL : ahead->weight;
  }
  return most;
}

/* Whether what the asker waits for in the end is a lock of its own, or of one that it gets ahead of. */
static bool is_end(const struct expected *asker, int lock)
{
  for (int i = 0; i < MOST; i++)
    if (waits_declared(&all[i]) && all[i].resource == asker->resource && is_inside(&all[i], lock) &&
        all[i].priority < asker->priority)
      return true;
  return is_inside(asker, lock);
}

static bool closes_circle(const struct expected *asker, uint32_t limit)
{
  const struct expected *waiting[MOST + 1] = {asker};
  int count = 1;
  uint64_t seen = 0, found = 0, own = asker->weight;
  for (int i = 0; i < MOST; i++)
    if (is_inside(asker, i) && all[i].place == HOLDING && all[i].resource == asker->resource) {
      if (asker->mode == WLK_EXCLUSIVE || all[i].mode == WLK_EXCLUSIVE) return true;
      own += all[i].weight;
    }
  if (asker->mode == WLK_SHARED && own > limit) return true;
  for (int w = 0; w < count; w++) {
    uint64_t room = room_needed(waiting[w]);
    for (int i = 0; i < MOST; i++) {
      const struct expected *lock = &all[i];
      if (lock->place != HOLDING || !lock->declared || (seen >> i & 1) != 0) continue;
      if (lock->resource != waiting[w]->resource) continue;
      uint32_t most = lock->resource == asker->resource ? limit : limits[lock->resource];
      if (lock->mode == WLK_SHARED && room != ALL && lock->weight + room <= most) continue;
      if (is_end(asker, i)) return true;
      seen |= UINT64_C(1) << i;
      for (int j = 0; j < MOST; j++) {
        if (!waits_declared(&all[j]) || !is_inside(&all[j], i) || (found >> j & 1) != 0) continue;
        found |= UINT64_C(1) << j;
        waiting[count++] = &all[j];
      }
    }
  }
  return false;
}

/* A lock that ended is forgotten by those that were made inside of it. */
static void forget(int id)
{
  for (int i = 0; i < MOST; i++) all[i].inside &= ~(UINT64_C(1) << id);
}

/* What the oracle knows is kept for the case that a request is not made, and is put back then. */
static void keep(bool back)
{
  static char kept
      [sizeof all + sizeof queues + sizeof lengths + sizeof has_limit + sizeof limits +
       sizeof grants + sizeof is_due + sizeof to_come + sizeof news_count];
  static const struct {
    void *memory;
    size_t size;
  } parts[] = {
      {all, sizeof all},
      {queues, sizeof queues},
      {lengths, sizeof lengths},
      {has_limit, sizeof has_limit},
      {limits, sizeof limits},
      {&grants, sizeof grants},
      {is_due, sizeof is_due},
      {to_come, sizeof to_come},
      {&news_count, sizeof news_count},
  };
  char *at = kept;
  for (size_t i = 0; i < sizeof parts / sizeof *parts; at += parts[i++].size)
    memcpy(back ? parts[i].memory : at, back ? at : parts[i].memory, parts[i].size);
}

/* ---- the core beside it ---- */

static long failing; /* which allocation of a request fails; 0: none */

static size_t room; /* for events, in this operation */
static struct wlk_process process;
static struct wlk_manager *managers[MANAGERS];
static struct wlk_agent *agents[AGENTS];

/* Tokens are in the order of the grants, for each name. */
static void check_token(struct expected *told, uint64_t token)
{
  told->token = token;
  must(token > 0, "a lock without a token");
  for (int i = 0; i < MOST; i++) {
    const struct expected *e = &all[i];
    if (e == told || e->resource != told->resource || e->token == 0) continue;
    must((e->token < token) == (e->order < told->order), "the order of tokens");
  }
}

/* Events of the agent, in their order. */
static void check_events(int agent, const struct wlk_events *events)
{
  uint64_t last = 0;
  for (size_t i = 0; i < events->count; i++) {
    const struct wlk_event *event = &events->items[i];
    struct expected *e = &all[event->tag];
    must(e->agent == agent && e->news == event->news, "an event");
    must(e->since >= last, "the order of events");
    last = e->since;
    uint64_t high = event->token_high;
    if (e->news & WLK_NEWS_GRANTED) check_token(e, high << 32 | event->token_low);
    must(!(e->news & WLK_NEWS_STOLEN) || event->thief_number == e->thief, "the thief of an event");
    e->news = 0;
    if (e->place == ROBBED) e->place = NOWHERE;
  }
}

/* The same, and no other one is left if there was room for it. */
static void check_all_events(int agent, const struct wlk_events *events)
{
  check_events(agent, events);
  for (int i = 0; i < MOST && events->count < events->capacity; i++)
    must(
        all[i].place == NOWHERE || all[i].agent != agent || all[i].news == 0,
        "an event is missing");
}

/* In answer to a wake-up, or unasked. */
static void do_take(int agent, bool is_answer)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  wlk_agent_take_events(agents[agent], is_answer, &events);
  if (is_answer) is_due[agent] = false;
  check_all_events(agent, &events);
}

/* Each name is the beginning of the next one. */
static const uint16_t units[NAMES] = {0xd800};

static enum wlk_status ask_core(
    int id, int agent, int resource, enum wlk_mode mode, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_snapshot **cycle, struct wlk_events *events)
{
  uint16_t name[NAMES]; /* which is nobody's any more when this returns */
  memcpy(name, units, sizeof name);
  (void)fail_allocation(failing);
  enum wlk_status status = wlk_request_a_lock(
      agents[agent], managers[resource / NAMES], name, (uint32_t)(resource % NAMES), mode, option,
      (uint32_t)id, extra, &all[id].request, cycle, events);
  must(fail_allocation(0) || status != WLK_NO_MEMORY, "want of memory");
  return status;
}

/* In turn a request, and a lock that it waits for. */
static void check_circle(struct wlk_snapshot *cycle)
{
  must(cycle->lock_count >= 2 && cycle->lock_count % 2 == 0, "the size of a circle");
  for (size_t i = 0; i < cycle->lock_count; i++) {
    must(cycle->locks[i].held == i % 2, "a lock or a request in a circle");
    must(i % 2 == 0 || cycle->locks[i].name == cycle->locks[i - 1].name, "a name in a circle");
  }
  wlk_snapshot_free(cycle);
}

/* Why it is not to be made; WLK_OK if it is. */
static enum wlk_status refusal(
    const struct expected *e, enum wlk_option option, const struct wlk_extra *extra)
{
  int resource = e->resource;
  enum wlk_mode mode = e->mode;
  if (option == WLK_STEAL) return WLK_OK;
  if (mode == WLK_SHARED && !fits_limit(resource, extra ? extra->limit : 0)) return WLK_OTHER_LIMIT;
  if (!is_used(resource)) return WLK_OK;
  bool is_first = place_of(resource, extra ? extra->priority : 0) == 0;
  if (is_first && can_hold(resource, mode, e->weight)) return WLK_OK;
  if (!wlk_option_waits(option)) return WLK_NOT_AVAILABLE;
  bool full = extra && extra->bounded && (uint32_t)lengths[resource] >= extra->max_pending;
  if (full) return WLK_QUEUE_FULL;
  uint32_t limit = has_limit[resource] ? limits[resource] : 0;
  if (!has_limit[resource] && mode == WLK_SHARED) limit = extra ? extra->limit : 0;
  return e->declared && closes_circle(e, limit) ? WLK_DEADLOCK : WLK_OK;
}

static void do_request(
    int agent, int resource, enum wlk_mode mode, enum wlk_option option,
    const struct wlk_extra *extra)
{
  int id = 0;
  caller = agent;
  keep(false);
  while (id < MOST && all[id].place != NOWHERE) id++;
  if (id == MOST) return;
  uint32_t weight = extra && extra->limit > 0 && mode == WLK_SHARED ? extra->weight : 0;
  struct expected *e = &all[id];
  struct expected made = {
      .place = QUEUED,
      .agent = agent,
      .resource = resource,
      .mode = mode,
      .weight = weight,
      .priority = extra ? extra->priority : 0,
      .passes = wlk_option_passes(option),
      .declared = extra && extra->reject_deadlock,
  };
  for (uint32_t i = 0; extra && i < extra->inside_count; i++)
    for (int j = 0; j < MOST; j++)
      if (all[j].place != NOWHERE && all[j].request == extra->inside[i] && all[j].declared)
        made.inside |= UINT64_C(1) << j;
  if (!is_used(resource)) has_limit[resource] = false;
  enum wlk_status expected_status = refusal(&made, option, extra);
  bool is_next = place_of(resource, extra ? extra->priority : 0) == 0;
  bool nothing_to_wait_for = wlk_option_passes(option) &&
                             (!is_used(resource) || (is_next && can_hold(resource, mode, weight)));
  if (expected_status == WLK_OK && !nothing_to_wait_for) {
    if (option != WLK_STEAL) note_limit(resource, mode, extra ? extra->limit : 0);
    int32_t priority = extra ? extra->priority : 0;
    news_count++;
    int at = option == WLK_STEAL ? 0 : place_of(resource, priority);
    for (int i = 0; option == WLK_STEAL && i < MOST; i++)
      if (all[i].place == HOLDING && all[i].resource == resource) {
        all[i].place = ROBBED;
        all[i].thief = agents[agent]->number;
        tell(&all[i], WLK_NEWS_STOLEN);
      }
    forget(id);
    *e = made;
    memmove(
        &queues[resource][at + 1], &queues[resource][at],
        (size_t)(lengths[resource] - at) * sizeof(int));
    queues[resource][at] = id;
    lengths[resource]++;
    process_queue(resource, id);
    expected_status = e->place == HOLDING ? WLK_GRANTED : WLK_PENDING;
  }
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  struct wlk_snapshot *cycle = NULL;
  enum wlk_status status = ask_core(id, agent, resource, mode, option, extra, &cycle, &events);
  if (status == WLK_NO_MEMORY) {
    must(events.count == 0 && !cycle, "what comes of a request that was not made");
    keep(true);
    return;
  }
  must(status == expected_status, "the answer to a request");
  if (status == WLK_GRANTED) check_token(e, events.token);
  must(status != WLK_OTHER_LIMIT || events.limit == limits[resource], "the limit of an answer");
  if (status == WLK_DEADLOCK) check_circle(cycle);
  check_all_events(agent, &events);
}

/* A request that declares that it is made inside of all locks that its agent was granted. */
static void do_declare(int agent, int resource, enum wlk_mode mode, uint8_t more)
{
  struct wlk_request *inside[MOST];
  struct wlk_extra extra = {.reject_deadlock = true, .inside = inside, .priority = more % 5 - 2};
  if (resource % 2 == 1) extra.limit = 3, extra.weight = 1 + more % 3;
  for (int i = 0; i < MOST && more % 4 != 0; i++)
    if (all[i].agent == agent && !all[i].passes &&
        (all[i].place == HOLDING || all[i].place == ROBBED))
      inside[extra.inside_count++] = all[i].request;
  do_request(agent, resource, mode, WLK_WAIT, &extra);
}

/* Chooses a request that has not ended; -1 if there is none. */
static int choose(int pick)
{
  for (int i = 0; i < MOST; i++)
    if (all[(pick + i) % MOST].place != NOWHERE) return (pick + i) % MOST;
  return -1;
}

static void do_release(int id, bool marks)
{
  struct expected *e = &all[id];
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  const enum wlk_status answers[] = {
      0, WLK_NOT_HELD, marks && !e->prepared ? WLK_NO_MEMORY : WLK_OK,
      e->passes ? WLK_OK : WLK_STOLEN};
  enum wlk_status expected_status = answers[e->place];
  caller = e->agent;
  if (e->place == HOLDING) {
    is_marked[e->resource] = is_marked[e->resource] || (marks && e->prepared);
    e->place = NOWHERE;
    process_queue(e->resource, -1);
  }
  if (expected_status != WLK_NOT_HELD) {
    e->place = NOWHERE;
    e->news = 0;
  }
  enum wlk_status status = marks ? wlk_release_and_mark(e->request, WLK_FOREVER, &events)
                                 : wlk_release_the_lock(e->request, &events);
  must(status == expected_status, "the answer to a release");
  must(expected_status != WLK_STOLEN || events.thief_number == e->thief, "the thief of a release");
  check_all_events(e->agent, &events);
}

static void do_prepare_mark(int id)
{
  struct expected *e = &all[id];
  struct wlk_events events = {.capacity = 0};
  if (e->passes || (e->place == HOLDING && e->mode == WLK_SHARED)) return;
  const enum wlk_status answers[] = {
      0, WLK_NOT_HELD, is_marked[e->resource] ? WLK_MARKED : WLK_OK, WLK_STOLEN};
  must(wlk_prepare_mark(e->request, &events) == answers[e->place], "whether a name is marked");
  e->prepared = e->place == HOLDING && !is_marked[e->resource];
  if (e->place == ROBBED) {
    must(events.thief_number == e->thief, "the thief, told instead of a mark");
    e->place = NOWHERE;
    e->news = 0;
  }
}

static void do_abort(int id)
{
  struct expected *e = &all[id];
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  const enum wlk_status answers[] = {0, WLK_OK, WLK_GRANTED, e->passes ? WLK_OK : WLK_STOLEN};
  enum wlk_status expected_status = answers[e->place];
  bool was_queued = e->place == QUEUED;
  caller = e->agent;
  if (e->place == ROBBED && e->passes) {
    e->place = NOWHERE;
    e->news = 0;
  }
  if (was_queued) {
    unqueue(e->resource, id);
    e->place = NOWHERE;
    process_queue(e->resource, -1);
  }
  must(wlk_abort_the_request(e->request, &events) == expected_status, "the answer to an abort");
  if (was_queued) check_all_events(e->agent, &events);
}

/* Ends a request whatever it is. Its agent hears by a wake-up of what it then has. */
static void do_end(int id)
{
  struct expected *e = &all[id];
  enum place place = e->place;
  caller = -1;
  news_count++;
  if (place == QUEUED) unqueue(e->resource, id);
  e->place = NOWHERE;
  e->news = 0;
  if (place != ROBBED) process_queue(e->resource, -1);
  for (int i = 0; i < MOST; i++)
    if (all[i].place != NOWHERE && all[i].agent == e->agent && all[i].news != 0)
      expect_wake(e->agent);
  wlk_end_the_request(e->request);
  do_take(e->agent, true);
}

static void do_terminate(int agent)
{
  caller = -1;
  news_count++;
  for (int i = 0; i < MOST; i++)
    if (all[i].agent == agent && all[i].place == QUEUED) {
      unqueue(all[i].resource, i);
      all[i].place = NOWHERE;
      process_queue(all[i].resource, -1);
    }
  for (int i = 0; i < MOST; i++)
    if (all[i].agent == agent && all[i].place != NOWHERE) {
      bool holding = all[i].place == HOLDING;
      all[i].place = NOWHERE;
      if (holding) process_queue(all[i].resource, -1);
    }
  wlk_agent_terminate(agents[agent]);
  start_anew(agent);
  if (wlk_agent_create(&process, "fuzz-", &no_thread, count_wake, &wakes[agent], &agents[agent]) !=
      WLK_OK)
    abort();
}

/* Whether `info` is about a lock that the oracle knows as held and that is not in `seen` yet. */
static bool is_held(int resource, const struct wlk_lock_info *info, const char *client, bool *seen)
{
  for (int i = 0; i < MOST; i++) {
    const struct expected *e = &all[i];
    if (seen[i] || e->place != HOLDING || e->resource != resource || e->mode != info->mode ||
        e->weight != info->weight || e->priority != info->priority ||
        strcmp(client, wlk_agent_client_id(agents[e->agent])) != 0)
      continue;
    seen[i] = true;
    return true;
  }
  return false;
}

static size_t count_on(int resource)
{
  size_t count = 0;
  for (int i = 0; i < MOST; i++)
    count += all[i].resource == resource && (all[i].place == QUEUED || all[i].place == HOLDING);
  return count;
}

static void compare_snapshot_of(int resource, bool pending)
{
  struct wlk_snapshot *s;
  uint32_t length = (uint32_t)(resource % NAMES);
  if (wlk_snapshot_a_name(managers[resource / NAMES], units, length, pending, &s) != WLK_OK)
    abort();
  size_t queued = (size_t)lengths[resource];
  size_t total = count_on(resource) - (pending ? 0 : queued);
  must(s->lock_count == total, "the size of the snapshot of a name");
  for (size_t i = 0; pending && i < queued; i++) {
    const struct wlk_lock_info *info = &s->locks[total - queued + i];
    const struct expected *e = &all[queues[resource][i]];
    const char *id = wlk_agent_client_id(agents[e->agent]);
    must(!info->held && info->mode == e->mode, "a request in the snapshot of a name");
    must(strcmp(s->clients[info->client].id, id) == 0, "a client in the snapshot of a name");
  }
  wlk_snapshot_free(s);
}

static void compare_snapshot(int manager)
{
  struct wlk_snapshot *s;
  if (wlk_snapshot_the_lock_state(managers[manager], &s) != WLK_OK) abort();
  size_t total = 0;
  for (int i = 0; i < NAMES; i++) total += count_on(manager * NAMES + i);
  must(s->lock_count == total, "the size of a snapshot");
  int position[NAMES] = {0};
  bool seen[MOST] = {false};
  for (size_t i = 0; i < s->lock_count; i++) {
    const struct wlk_lock_info *info = &s->locks[i];
    size_t name = s->names[info->name].length;
    must(memcmp(s->names[info->name].units, units, name * sizeof *units) == 0, "a name's units");
    int resource = manager * NAMES + (int)name;
    if (info->held) {
      must(is_held(resource, info, s->clients[info->client].id, seen), "a lock in a snapshot");
      continue;
    }
    must(position[name] < lengths[resource], "the queue in a snapshot");
    const struct expected *e = &all[queues[resource][position[name]++]];
    must(info->mode == e->mode && info->weight == e->weight, "a request in a snapshot");
    must(info->priority == e->priority, "a priority in a snapshot");
    must(info->weight == 0 || info->limit == limits[resource], "a limit in a snapshot");
    must(
        strcmp(s->clients[info->client].id, wlk_agent_client_id(agents[e->agent])) == 0,
        "a client id");
  }
  wlk_snapshot_free(s);
}

/* ---- bytes to operations ---- */

static void operate(uint8_t operation, uint8_t argument)
{
  int agent = argument % AGENTS, resource = (argument & 0x7f) / AGENTS % (NAMES * MANAGERS);
  enum wlk_mode mode = argument & 0x80 ? WLK_SHARED : WLK_EXCLUSIVE;
  int chosen = choose(argument % MOST);
  uint8_t more = operation / 15;
  room = more % 3 == 0 ? more / 3 % 3 : MOST;
  failing = more % 8 == 5 ? 1 + argument / 32 % 4 : 0;
  struct wlk_extra extra = {
      .limit = 1 + more % 3,
      .weight = 1 + more / 3 % (1 + more % 3),
      .bounded = more % 2 == 1,
      .priority = more % 4 == 3 ? -1 : 0,
      .max_pending = more / 4,
  };
  struct wlk_extra prior = {.priority = more % 5 - 2};
  switch (operation % 15) {
  case 0:
  case 1:
    do_request(agent, resource, mode, WLK_WAIT, NULL);
    break;
  case 2:
    do_request(agent, resource, mode, WLK_WAIT, &prior);
    break;
  case 3:
    do_declare(agent, resource, mode, more);
    break;
  case 13:
    do_request(agent, resource, mode, WLK_WAIT, &extra);
    break;
  case 14:
    do_request(agent, resource, WLK_SHARED, more % 4 ? WLK_WAIT : WLK_IF_AVAILABLE, &extra);
    break;
  case 4:
    do_request(agent, resource, mode, WLK_IF_AVAILABLE, more % 2 ? &prior : NULL);
    break;
  case 5:
    if (more % 2)
      do_request(
          agent, resource, WLK_EXCLUSIVE, more % 8 == 7 ? WLK_PASS_IF_AVAILABLE : WLK_PASS,
          more % 4 == 1 ? &prior : NULL);
    else
      do_request(agent, resource, WLK_EXCLUSIVE, WLK_STEAL, NULL);
    break;
  case 6:
  case 7:
    if (chosen >= 0 && more % 4 == 1)
      do_prepare_mark(chosen);
    else if (chosen >= 0)
      do_release(
          chosen,
          more % 4 == 2 && (all[chosen].mode == WLK_EXCLUSIVE || all[chosen].place != HOLDING));
    break;
  case 8:
    if (chosen >= 0) do_abort(chosen);
    break;
  case 9:
    do_take(agent, more % 4 != 0);
    break;
  case 12:
    if (chosen >= 0) do_end(chosen);
    break;
  case 10:
    compare_snapshot(argument % MANAGERS);
    compare_snapshot_of(resource, argument & 0x80);
    break;
  default:
    do_terminate(agent);
    break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  memset(all, 0, sizeof all);
  memset(lengths, 0, sizeof lengths);
  memset(has_limit, 0, sizeof has_limit);
  memset(is_marked, 0, sizeof is_marked);
  grants = 0;
  for (int i = 0; i < AGENTS; i++) start_anew(i);
  process = (struct wlk_process)WLK_PROCESS_INIT;
  for (uint16_t i = 0; i < MANAGERS; i++)
    if (wlk_manager_open(&process, &i, i, &managers[i]) != WLK_OK) abort();
  for (int i = 0; i < AGENTS; i++)
    if (wlk_agent_create(&process, "fuzz-", &no_thread, count_wake, &wakes[i], &agents[i]) !=
        WLK_OK)
      abort();

  for (size_t i = 0; i + 1 < size; i += 2) {
    operate(data[i], data[i + 1]);
    const char *sentence = broken(&process);
    must(!sentence, sentence);
    for (int j = 0; j < AGENTS; j++) must(wakes[j] == to_come[j], "how often an agent is woken");
  }

  room = MOST;
  for (int i = 0; i < AGENTS; i++) do_take(i, true);
  for (int i = 0; i < MANAGERS; i++) compare_snapshot(i);
  for (int i = 0; i < AGENTS; i++) wlk_agent_terminate(agents[i]);
  for (int i = 0; i < MANAGERS; i++) wlk_manager_close(managers[i]);
  must(live_blocks() == 0, "memory was not given back");
  return 0;
}

#if defined(WLK_STANDALONE)
int main(int argc, char **argv)
{
  static uint8_t data[1 << 16];
  long rounds = argc > 1 ? atol(argv[1]) : 0;
  for (long round = 0; round < rounds; round++) {
    uint64_t seed = (uint64_t)round;
    for (size_t i = 0; i < 600; i++) {
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      data[i] = (uint8_t)(seed >> 33);
    }
    /* Every other run is about few names, whose queues are long, and half of those about deadlocks. */
    for (size_t i = 0; i < 600 && round % 2 == 1; i += 2) {
      data[i + 1] &= 0x87;
      if (round % 4 == 1 && data[i] % 3 != 0) data[i] = (uint8_t)(data[i] / 15 * 15 + 3);
    }
    (void)LLVMFuzzerTestOneInput(data, 600);
  }
  for (int i = 2; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file) return 2;
    size_t size = fread(data, 1, sizeof data, file);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(data, size);
  }
  printf("ok - the core did what the oracle says in %ld runs and %d files\n", rounds, argc - 2);
  return 0;
}
#endif
