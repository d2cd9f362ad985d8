/* A libFuzzer target: bytes become operations of several agents on a few names and managers. An
 * oracle, which shares no structures with the core, predicts the answer of every call and the
 * agents that it wakes.
 *
 * With -DWLK_STANDALONE it has a main() instead, which makes up runs: fuzz_corpus rounds */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { AGENTS = 4, NAMES = 5, MANAGERS = 2, MOST = 64 };

/* ---- the oracle ---- */

enum place { NOWHERE, QUEUED, HOLDING, ROBBED };

struct expected {
  enum place place;
  int agent, resource;
  enum wlk_mode mode;
  uint32_t weight; /* 0: no limit */
  int32_t priority;
  uint64_t begun; /* the time of the request or, once granted, of the grant */
  uint32_t news;  /* not taken yet */
  uint64_t since; /* when the news came, as a number in order */
  uint32_t thief; /* number of its agent */
  uint64_t order; /* the number of its grant */
  uint64_t token; /* once known */
  struct wlk_request *request;
  bool passes;     /* it waits for the unlock only */
  bool declared;   /* it rejects deadlocks */
  bool prepared;   /* a mark, and may set it */
  bool blocked;    /* its thread has blocked for it */
  uint16_t label;  /* the first unit of the text; 0: none */
  uint16_t data;   /* first unit of what it has published; 0: nothing */
  uint64_t inside; /* locks, as bits */
};

/* The state of the oracle. */
static struct oracle {
  struct expected all[MOST];
  int queues[NAMES * MANAGERS][MOST], lengths[NAMES * MANAGERS];
  bool has_limit[NAMES * MANAGERS]; /* whether a request has set it */
  uint32_t limits[NAMES * MANAGERS];
  uint64_t marked_until[NAMES * MANAGERS]; /* on the clock */
  uint64_t grants, news_count;
  bool is_due[AGENTS]; /* the agent was woken, and has not answered */
  int to_come[AGENTS]; /* how often it was to be woken */
} o, before;

static uint64_t now;

uint64_t __wrap_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact)
{
  (void)exact;
  return now;
}

static bool hashes_collide;

uint64_t __real_wlk_hash(const uint64_t key[2], const uint16_t *units, size_t length);
uint64_t __wrap_wlk_hash(const uint64_t key[2], const uint16_t *units, size_t length);
uint64_t __wrap_wlk_hash(const uint64_t key[2], const uint16_t *units, size_t length)
{
  return hashes_collide ? 0 : __real_wlk_hash(key, units, length);
}

static void must(bool condition, const char *sentence)
{
  if (condition) return;
  (void)fprintf(stderr, "the core and the oracle differ: %s\n", sentence);
  abort();
}

/* ---- wake-ups ---- */

static int caller; /* the agent whose call returns its events; -1: none */
static int wakes[AGENTS];

static void expect_wake(int agent)
{
  o.to_come[agent] += !o.is_due[agent];
  o.is_due[agent] = true;
}

/* One end or theft can cause events of several requests, in any order. */
static void notify(struct expected *e, uint32_t news)
{
  if (e->news == 0) e->since = o.news_count += caller >= 0 && news != WLK_NEWS_STOLEN;
  e->news |= news;
  if (e->agent != caller) expect_wake(e->agent);
}

static void count_wake(void *count)
{
  ++*(int *)count;
}

/* ---- queues ---- */

#define FOR_EACH(e) for (struct expected *e = o.all; e < o.all + MOST; e++)

static bool can_hold(const struct expected *asker)
{
  uint64_t units = asker->weight;
  FOR_EACH (e) {
    if (e->place != HOLDING || e->resource != asker->resource) continue;
    if (asker->mode == WLK_EXCLUSIVE || e->mode == WLK_EXCLUSIVE) return false;
    units += e->weight;
  }
  return asker->weight == 0 || units <= o.limits[asker->resource];
}

static size_t count_held(int resource)
{
  size_t count = 0;
  FOR_EACH (e) count += e->resource == resource && e->place == HOLDING;
  return count;
}

static bool is_used(int resource)
{
  return o.lengths[resource] > 0 || count_held(resource) > 0;
}

/* `caused_by` is the request whose grant is the answer to a call, or -1. */
static void process_queue(int resource, int caused_by)
{
  int *queue = o.queues[resource];
  while (o.lengths[resource] > 0 && can_hold(&o.all[queue[0]])) {
    struct expected *e = &o.all[queue[0]];
    e->place = e->passes ? ROBBED : HOLDING;
    if (!e->passes) e->order = ++o.grants;
    e->begun = now;
    if (queue[0] != caused_by) notify(e, e->passes ? WLK_NEWS_PASSED : WLK_NEWS_GRANTED);
    o.lengths[resource]--;
    memmove(queue, queue + 1, (size_t)o.lengths[resource] * sizeof *queue);
  }
}

/* Returns the index in the queue for a request of this priority. */
static int place_of(int resource, int32_t priority)
{
  int at = o.lengths[resource];
  while (at > 0 && o.all[o.queues[resource][at - 1]].priority < priority) at--;
  return at;
}

static bool is_grantable(const struct expected *e)
{
  if (!is_used(e->resource)) return true;
  return place_of(e->resource, e->priority) == 0 && can_hold(e);
}

static void unqueue(int resource, int id)
{
  int *queue = o.queues[resource], i = 0;
  while (queue[i] != id) i++;
  o.lengths[resource]--;
  memmove(queue + i, queue + i + 1, (size_t)(o.lengths[resource] - i) * sizeof *queue);
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

/* The most units that this request, or a declared one ahead of it, needs. */
static uint64_t room_needed(const struct expected *e)
{
  uint64_t most = e->mode == WLK_EXCLUSIVE ? ALL : e->weight;
  for (int i = 0; i < o.lengths[e->resource]; i++) {
    const struct expected *ahead = &o.all[o.queues[e->resource][i]];
    if (ahead == e || ahead->priority < e->priority) break;
    if (!ahead->declared) continue;
    if (ahead->mode == WLK_EXCLUSIVE || ahead->weight > most)
      most = ahead->mode == WLK_EXCLUSIVE ? ALL : ahead->weight;
  }
  return most;
}

/* Whether waiting for this lock closes a cycle: the asker, or a declared request that it would
 * overtake, was made within it. */
static bool is_end(const struct expected *asker, int lock)
{
  FOR_EACH (e)
    if (waits_declared(e) && e->resource == asker->resource && is_inside(e, lock) &&
        e->priority < asker->priority)
      return true;
  return is_inside(asker, lock);
}

/* Whether a request waits, or would have to wait, until a lock ends. */
static bool waits_for(
    const struct expected *e, const struct expected *lock, const struct expected *asker,
    uint32_t limit)
{
  if (lock->place != HOLDING || !lock->declared || lock->resource != e->resource) return false;
  uint64_t room = room_needed(e);
  uint32_t most = e->resource == asker->resource ? limit : o.limits[e->resource];
  return lock->mode == WLK_EXCLUSIVE || room == ALL || lock->weight + room > most;
}

static bool excludes_itself(const struct expected *asker, uint32_t limit)
{
  uint64_t own = asker->weight;
  FOR_EACH (e) {
    if (e->place != HOLDING || e->resource != asker->resource) continue;
    if (!is_inside(asker, (int)(e - o.all))) continue;
    if (asker->mode == WLK_EXCLUSIVE || e->mode == WLK_EXCLUSIVE) return true;
    own += e->weight;
  }
  return asker->mode == WLK_SHARED && own > limit;
}

static bool closes_circle(const struct expected *asker, uint32_t limit)
{
  const struct expected *waiting[MOST + 1] = {asker};
  int count = 1;
  uint64_t seen = 0, found = 0;
  if (excludes_itself(asker, limit)) return true;
  for (int w = 0; w < count; w++)
    for (int lock = 0; lock < MOST; lock++) {
      if ((seen >> lock & 1) || !waits_for(waiting[w], &o.all[lock], asker, limit)) continue;
      if (is_end(asker, lock)) return true;
      seen |= UINT64_C(1) << lock;
      for (int i = 0; i < MOST; i++) {
        if ((found >> i & 1) || !waits_declared(&o.all[i]) || !is_inside(&o.all[i], lock)) continue;
        found |= UINT64_C(1) << i;
        waiting[count++] = &o.all[i];
      }
    }
  return false;
}

/* Removes a lock that ended from the `inside` of requests. */
static void forget(int id)
{
  FOR_EACH (e) e->inside &= ~(UINT64_C(1) << id);
}

/* ---- the core, run in parallel ---- */

static long failing; /* which allocation of a request fails; 0: none */

static size_t room; /* for events, in this operation */
static struct wlk_process process;
static struct wlk_manager *managers[MANAGERS];
static struct wlk_agent *agents[AGENTS];

/* Two agents belong to one thread. Long names of threads are cut. */
enum { LONG = 200, LONGEST = 2100 };
static const uint16_t units[LONG] = {0xd800};
static const struct wlk_thread threads[AGENTS] = {
    {0, units, 0},
    {0, units, WLK_THREAD_NAME_MOST},
    {1, units, WLK_THREAD_NAME_MOST + 1},
    {1, units, LONG},
};

/* The tokens of a name grow in the order of its grants. */
static void check_token(struct expected *lock, uint64_t token)
{
  lock->token = token;
  must(token > 0, "a lock without a token");
  FOR_EACH (e) {
    if (e == lock || e->resource != lock->resource || e->token == 0) continue;
    must((e->token < token) == (e->order < lock->order), "the order of tokens");
  }
}

/* Compares the events of an agent, in their order. */
static void check_events(int agent, const struct wlk_events *events)
{
  uint64_t last = 0;
  for (size_t i = 0; i < events->count; i++) {
    const struct wlk_event *event = &events->items[i];
    struct expected *e = &o.all[event->tag];
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

/* Compares the events, and checks that none is missing if there was room for all. */
static void check_all_events(int agent, const struct wlk_events *events)
{
  check_events(agent, events);
  if (events->count == events->capacity) return;
  FOR_EACH (e)
    must(e->place == NOWHERE || e->agent != agent || e->news == 0, "no event is missing");
}

/* Takes events, in answer to a wake-up or without one. */
static void do_take(int agent, bool is_answer)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  wlk_agent_take_events(agents[agent], is_answer, &events);
  if (is_answer) o.is_due[agent] = false;
  check_all_events(agent, &events);
}

/* Most names are prefixes of the next one. Kept memory may be just too small for a name, and is
 * never kept for the longest. */
static uint16_t names[NAMES][LONGEST] = {[3][LONG - 1] = 1};
static const uint32_t name_lengths[NAMES] = {0, LONG - 1, LONG, LONG, LONGEST};

/* Writes a text that its first unit identifies. */
static uint32_t write_text(uint16_t first, uint16_t text[LONG])
{
  uint32_t length = first == 0 ? 0 : 1 + first * 7 % LONG;
  for (uint32_t i = 0; i < length; i++) text[i] = (uint16_t)(first + i);
  return length;
}

static enum wlk_status ask_core(
    int id, const struct expected *e, enum wlk_option option, const struct wlk_extra *extra,
    struct wlk_snapshot **cycle, struct wlk_events *events)
{
  uint16_t name[LONGEST]; /* ends when this returns */
  memcpy(name, names[e->resource % NAMES], sizeof name);
  (void)fail_allocation(failing);
  enum wlk_status status = wlk_request_a_lock(
      agents[e->agent], managers[e->resource / NAMES], name, name_lengths[e->resource % NAMES],
      e->mode, option, (uint32_t)id, extra, &o.all[id].request, cycle, events);
  must(fail_allocation(0) || status != WLK_NO_MEMORY, "only a failed allocation is no memory");
  return status;
}

/* Returns the index of the request that an entry of a snapshot describes; it is in the label. */
static int index_of(const struct wlk_snapshot *s, const struct wlk_lock_info *info)
{
  must(info->label != WLK_NO_TEXT, "a labelled request has its label");
  return s->names[info->label].units[0] - 1;
}

/* A cycle alternates requests with locks that they wait for; the next request is within
 * the lock. */
static void check_circle(const struct expected *asker, int id, struct wlk_snapshot *cycle)
{
  size_t count = cycle->lock_count;
  must(count >= 2 && count % 2 == 0, "a circle has as many locks as requests");
  must(index_of(cycle, cycle->locks) == id, "a circle begins with the request that closes it");
  for (size_t i = 0; i < count; i++) {
    const struct wlk_lock_info *info = &cycle->locks[i];
    must(info->held == i % 2, "in a circle locks follow requests");
    if (!info->held) continue;
    int lock = index_of(cycle, info), next = index_of(cycle, &cycle->locks[(i + 1) % count]);
    must(info->name == cycle->locks[i - 1].name, "a request of a circle waits for its lock");
    must(o.all[lock].place == HOLDING, "a lock of a circle is held");
    must(
        i + 1 < count ? is_inside(&o.all[next], lock) : is_end(asker, lock),
        "the request of a circle that waits next was made inside the lock");
  }
  wlk_snapshot_free(cycle);
}

/* Returns why a request is refused, or WLK_OK. */
static enum wlk_status refusal(
    const struct expected *e, enum wlk_option option, const struct wlk_extra *extra)
{
  int resource = e->resource;
  if (option == WLK_STEAL) return WLK_OK;
  if (e->mode == WLK_SHARED && o.has_limit[resource] && o.limits[resource] != extra->limit)
    return WLK_OTHER_LIMIT;
  if (is_grantable(e)) return WLK_OK;
  if (!wlk_option_waits(option)) return WLK_NOT_AVAILABLE;
  if (extra->bounded && (uint32_t)o.lengths[resource] >= extra->max_pending) return WLK_QUEUE_FULL;
  uint32_t limit = o.limits[resource];
  if (!o.has_limit[resource]) limit = e->mode == WLK_SHARED ? extra->limit : 0;
  return e->declared && closes_circle(e, limit) ? WLK_DEADLOCK : WLK_OK;
}

static void steal(int resource, int thief)
{
  FOR_EACH (e) {
    if (e->place != HOLDING || e->resource != resource) continue;
    e->place = ROBBED;
    e->thief = agents[thief]->number;
    notify(e, WLK_NEWS_STOLEN);
  }
}

/* Queues a request, at the front if it steals. Returns the call's answer. */
static enum wlk_status enqueue(
    int id, const struct expected *made, enum wlk_option option, uint32_t limit)
{
  int resource = made->resource, *queue = o.queues[resource];
  int at = option == WLK_STEAL ? 0 : place_of(resource, made->priority);
  o.news_count++;
  if (option == WLK_STEAL) steal(resource, made->agent);
  if (made->mode == WLK_SHARED && !o.has_limit[resource]) {
    o.has_limit[resource] = true;
    o.limits[resource] = limit;
  }
  forget(id);
  o.all[id] = *made;
  memmove(queue + at + 1, queue + at, (size_t)(o.lengths[resource] - at) * sizeof *queue);
  queue[at] = id;
  o.lengths[resource]++;
  process_queue(resource, id);
  return o.all[id].place == HOLDING ? WLK_GRANTED : WLK_PENDING;
}

static void do_request(
    int agent, int resource, enum wlk_mode mode, enum wlk_option option, struct wlk_extra *given)
{
  static struct wlk_extra nothing;
  const struct wlk_extra *extra = given ? given : &nothing;
  int id = 0;
  while (id < MOST && o.all[id].place != NOWHERE) id++;
  if (id == MOST) return;
  uint16_t label[LONG];
  if (given) given->label = label, given->label_length = write_text((uint16_t)(id + 1), label);
  caller = agent;
  before = o;
  struct expected made = {
      .place = QUEUED,
      .agent = agent,
      .resource = resource,
      .mode = mode,
      .weight = extra->limit > 0 && mode == WLK_SHARED ? extra->weight : 0,
      .priority = extra->priority,
      .passes = wlk_option_passes(option),
      .declared = extra->reject_deadlock,
      .label = given ? (uint16_t)(id + 1) : 0,
      .begun = now,
  };
  for (uint32_t i = 0; i < extra->inside_count; i++)
    FOR_EACH (e)
      if (e->place != NOWHERE && e->request == extra->inside[i] && e->declared)
        made.inside |= UINT64_C(1) << (e - o.all);
  if (!is_used(resource)) o.has_limit[resource] = false;
  enum wlk_status expected = refusal(&made, option, extra);
  if (expected == WLK_OK && !(made.passes && is_grantable(&made)))
    expected = enqueue(id, &made, option, extra->limit);
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  struct wlk_snapshot *cycle = NULL;
  enum wlk_status status = ask_core(id, &made, option, given, &cycle, &events);
  if (status == WLK_NO_MEMORY) {
    must(events.count == 0 && !cycle, "a request without memory changes nothing");
    o = before;
    return;
  }
  must(status == expected, "the answer to a request");
  if (status == WLK_GRANTED) check_token(&o.all[id], events.token);
  must(status != WLK_OTHER_LIMIT || events.limit == o.limits[resource], "the limit of an answer");
  if (status == WLK_DEADLOCK) check_circle(&made, id, cycle);
  check_all_events(agent, &events);
}

/* Makes a declared request within all locks that its agent was granted. */
static void do_declare(int agent, int resource, enum wlk_mode mode, uint8_t more)
{
  struct wlk_request *inside[MOST];
  struct wlk_extra extra = {.reject_deadlock = true, .inside = inside, .priority = more % 5 - 2};
  if (resource % 2 == 1) extra.limit = 3, extra.weight = 1 + more % 3;
  FOR_EACH (e)
    if (more % 4 != 0 && e->agent == agent && !e->passes && e->place >= HOLDING)
      inside[extra.inside_count++] = e->request;
  do_request(agent, resource, mode, WLK_WAIT, &extra);
}

/* Chooses a request that has not ended, or -1. */
static int choose(int pick)
{
  for (int i = 0; i < MOST; i++)
    if (o.all[(pick + i) % MOST].place != NOWHERE) return (pick + i) % MOST;
  return -1;
}

static void end_in_oracle(struct expected *e)
{
  e->place = NOWHERE;
  e->news = 0;
}

/* `keep` is how long the release marks the name; 0: not at all. */
static void do_release(struct expected *e, uint64_t keep)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  const enum wlk_status answers[] = {
      [QUEUED] = WLK_NOT_HELD,
      [HOLDING] = keep > 0 && !e->prepared ? WLK_NO_MEMORY : WLK_OK,
      [ROBBED] = e->passes ? WLK_OK : WLK_STOLEN,
  };
  enum wlk_status expected = answers[e->place];
  bool was_held = e->place == HOLDING;
  caller = e->agent;
  if (was_held && keep > 0 && e->prepared)
    o.marked_until[e->resource] = keep == WLK_FOREVER ? keep : now + keep + 1;
  if (expected != WLK_NOT_HELD) end_in_oracle(e);
  if (was_held) process_queue(e->resource, -1);
  enum wlk_status status = keep > 0 ? wlk_release_and_mark(e->request, keep, &events)
                                    : wlk_release_the_lock(e->request, &events);
  must(status == expected, "the answer to a release");
  must(expected != WLK_STOLEN || events.thief_number == e->thief, "the thief of a release");
  check_all_events(e->agent, &events);
}

static void do_prepare_mark(struct expected *e)
{
  struct wlk_events events = {.capacity = 0};
  if (e->passes || (e->place == HOLDING && e->mode == WLK_SHARED)) return;
  const enum wlk_status answers[] = {
      [QUEUED] = WLK_NOT_HELD,
      [HOLDING] = o.marked_until[e->resource] > now ? WLK_MARKED : WLK_OK,
      [ROBBED] = WLK_STOLEN,
  };
  (void)fail_allocation(failing);
  enum wlk_status status = wlk_prepare_mark(e->request, &events);
  if (fail_allocation(0) && status == WLK_NO_MEMORY) return;
  must(status == answers[e->place], "whether a name is marked");
  e->prepared = status == WLK_OK;
  if (status != WLK_STOLEN) return;
  must(events.thief_number == e->thief, "the thief of a lock that asks for a mark");
  end_in_oracle(e);
}

static void do_publish(struct expected *e, uint16_t data)
{
  const enum wlk_status answers[] = {
      [QUEUED] = WLK_NOT_HELD, [HOLDING] = WLK_OK, [ROBBED] = WLK_STOLEN};
  uint16_t text[LONG];
  uint32_t length = write_text(data, text);
  if (e->passes) return;
  (void)fail_allocation(failing);
  enum wlk_status status = wlk_publish(e->request, text, length);
  if (fail_allocation(0) && status == WLK_NO_MEMORY) return;
  must(status == answers[e->place], "the answer to what publishes");
  if (status == WLK_OK) e->data = data;
}

static void do_abort(int id)
{
  struct expected *e = &o.all[id];
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  const enum wlk_status answers[] = {
      [QUEUED] = WLK_OK, [HOLDING] = WLK_GRANTED, [ROBBED] = e->passes ? WLK_OK : WLK_STOLEN};
  enum wlk_status expected = answers[e->place];
  bool was_queued = e->place == QUEUED;
  caller = e->agent;
  if (was_queued) unqueue(e->resource, id);
  if (expected == WLK_OK) end_in_oracle(e);
  if (was_queued) process_queue(e->resource, -1);
  must(wlk_abort_the_request(e->request, &events) == expected, "the answer to an abort");
  if (was_queued) check_all_events(e->agent, &events);
}

/* Ends a request in any state. A wake-up notifies its agent of what it has then. */
static void end_with_wake_up(struct expected *e)
{
  enum place place = e->place;
  caller = -1;
  o.news_count++;
  if (place == QUEUED) unqueue(e->resource, (int)(e - o.all));
  end_in_oracle(e);
  if (place != ROBBED) process_queue(e->resource, -1);
  FOR_EACH (other)
    if (other->place != NOWHERE && other->agent == e->agent && other->news != 0)
      expect_wake(e->agent);
}

static void do_end(struct expected *e)
{
  end_with_wake_up(e);
  wlk_end_the_request(e->request);
  do_take(e->agent, true);
}

/* ---- blocking, with a time limit of 0 ---- */

/* The locks and requests for a name that belong to a thread while it blocks. */
struct own {
  struct expected *first;
  bool is_exclusive;
  uint64_t units;
};

static bool admits(const struct own *own, const struct expected *e)
{
  if (!own->first) return true;
  return !own->is_exclusive && e->mode == WLK_SHARED &&
         (e->weight == 0 || own->units + e->weight <= o.limits[e->resource]);
}

static void add_if_own(struct own *own, struct expected *e, int agent)
{
  if (e->passes || threads[e->agent].id != threads[agent].id) return;
  if (!own->first) own->first = e;
  own->is_exclusive = own->is_exclusive || e->mode == WLK_EXCLUSIVE;
  own->units += e->weight;
}

/* Returns the lock of a name that was granted next after `last`, or first. */
static struct expected *lock_after(int resource, const struct expected *last)
{
  struct expected *next = NULL;
  FOR_EACH (e)
    if (e->place == HOLDING && e->resource == resource && (!last || e->order > last->order) &&
        (!next || e->order < next->order))
      next = e;
  return next;
}

/* Returns the first lock or request of the thread that its own request waits for, or NULL. */
static struct expected *find_own_obstacle(const struct expected *e)
{
  struct own own = {0};
  for (struct expected *lock = NULL; (lock = lock_after(e->resource, lock)) != NULL;)
    add_if_own(&own, lock, e->agent);
  for (const int *queue = o.queues[e->resource];; queue++) {
    struct expected *ahead = &o.all[*queue];
    if (!admits(&own, ahead)) return own.first;
    if (ahead == e) return NULL;
    add_if_own(&own, ahead, e->agent);
  }
}

static bool is_about(
    const struct wlk_snapshot *s, const struct wlk_lock_info *info, const struct expected *e);

static bool is_own_circle(
    struct wlk_snapshot *s, const struct expected *e, const struct expected *obstacle)
{
  return s && s->lock_count == 2 && !s->locks[0].held && is_about(s, &s->locks[0], e) &&
         s->locks[1].held == (obstacle->place == HOLDING) && is_about(s, &s->locks[1], obstacle);
}

static void do_block(struct expected *e)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = room};
  struct wlk_snapshot *cycle = NULL;
  struct expected *obstacle = NULL;
  const enum wlk_status answers[] = {
      [QUEUED] = WLK_PENDING, [HOLDING] = WLK_GRANTED, [ROBBED] = e->passes ? WLK_OK : WLK_STOLEN};
  enum wlk_status expected = answers[e->place];
  if (e->place != QUEUED && e->news == 0) return;
  if (e->place == QUEUED && (!e->blocked || o.all[o.queues[e->resource][0]].priority > e->priority))
    obstacle = find_own_obstacle(e);
  e->blocked = true;
  (void)fail_allocation(failing);
  enum wlk_status status = wlk_wait_for_the_lock(e->request, 0, &cycle, &events);
  if (fail_allocation(0) && status == WLK_NO_MEMORY) {
    must(obstacle, "only a deadlock needs memory");
    end_with_wake_up(e);
    return do_take(e->agent, true);
  }
  must(status == (obstacle ? WLK_DEADLOCK : expected), "the answer to a thread that blocks");
  must(!obstacle || is_own_circle(cycle, e, obstacle), "what a thread that blocks waits for");
  wlk_snapshot_free(cycle);
  must(status != WLK_STOLEN || events.thief_number == e->thief, "the thief before a block");
  if (status == WLK_GRANTED) check_token(e, events.token);
  e->news = 0;
  caller = e->agent;
  if (status != WLK_GRANTED && status != WLK_PENDING) end_in_oracle(e);
  if (obstacle) unqueue(e->resource, (int)(e - o.all)), process_queue(e->resource, -1);
  if (status == WLK_PENDING)
    must(events.count == 0, "who blocks in vain takes no events");
  else
    check_all_events(e->agent, &events);
}

/* Makes each allocation of a call fail once, until the call needs no more. */
static void until_it_has_memory(enum wlk_status (*call)(int number), int number)
{
  bool failed = true;
  for (long n = 1; failed; n++) {
    (void)fail_allocation(n);
    enum wlk_status status = call(number);
    failed = fail_allocation(0);
    must(status == (failed ? WLK_NO_MEMORY : WLK_OK), "the answer to what creates or opens");
  }
}

static enum wlk_status create_agent(int agent)
{
  return wlk_agent_create(
      &process, "fuzz-", &threads[agent], count_wake, &wakes[agent], &agents[agent]);
}

static enum wlk_status open_manager(int number)
{
  uint16_t bucket = (uint16_t)number;
  return wlk_manager_open(&process, &bucket, (uint32_t)number, &managers[number]);
}

/* Closes and reopens an unused bucket: its marks end with it. */
static void do_reopen(int manager)
{
  for (int i = 0; i < NAMES; i++)
    if (is_used(manager * NAMES + i)) return;
  FOR_EACH (e)
    if (e->place != NOWHERE && e->resource / NAMES == manager) return;
  wlk_manager_close(managers[manager]);
  until_it_has_memory(open_manager, manager);
  for (int i = 0; i < NAMES; i++) o.marked_until[manager * NAMES + i] = 0;
}

static void start_agent(int agent)
{
  o.is_due[agent] = false;
  o.to_come[agent] = wakes[agent] = 0;
  until_it_has_memory(create_agent, agent);
}

static void do_terminate(int agent)
{
  char id[WLK_CLIENT_ID_SIZE];
  memcpy(id, wlk_agent_client_id(agents[agent]), sizeof id);
  caller = -1;
  o.news_count++;
  for (enum place place = QUEUED; place <= ROBBED; place++)
    FOR_EACH (e) {
      if (e->agent != agent || e->place != place) continue;
      if (place == QUEUED) unqueue(e->resource, (int)(e - o.all));
      e->place = NOWHERE;
      if (place != ROBBED) process_queue(e->resource, -1);
    }
  wlk_agent_terminate(agents[agent]);
  must(!fail_allocation(0), "what gives back needs no memory");
  start_agent(agent);
  must(strcmp(id, wlk_agent_client_id(agents[agent])) != 0, "a client id is not given again");
}

/* ---- snapshots ---- */

static bool is_text(const struct wlk_snapshot *s, uint32_t text, uint16_t first)
{
  uint16_t expected[LONG];
  uint32_t length = write_text(first, expected);
  if (first == 0 || text == WLK_NO_TEXT) return first == 0 && text == WLK_NO_TEXT;
  return s->names[text].length == length &&
         memcmp(s->names[text].units, expected, length * sizeof *expected) == 0;
}

static bool is_client(const struct wlk_client *client, int agent)
{
  uint32_t length = threads[agent].name_length;
  if (length > WLK_THREAD_NAME_MOST) length = WLK_THREAD_NAME_MOST;
  return strcmp(client->id, wlk_agent_client_id(agents[agent])) == 0 &&
         client->thread_id == threads[agent].id && client->thread.length == length &&
         memcmp(client->thread.units, units, length * sizeof *units) == 0;
}

/* Whether an entry of a snapshot describes a request. */
static bool is_about(
    const struct wlk_snapshot *s, const struct wlk_lock_info *info, const struct expected *e)
{
  uint64_t high = info->token_high, age = info->age_high;
  return (age << 32 | info->age_low) == now - e->begun && info->mode == e->mode &&
         info->weight == e->weight && info->priority == e->priority &&
         (info->weight == 0 || info->limit == o.limits[e->resource]) &&
         (e->token == 0 || e->token == (high << 32 | info->token_low)) &&
         is_text(s, info->label, e->label) && is_text(s, info->data, e->data) &&
         is_client(&s->clients[info->client], e->agent);
}

static size_t count_entries(int resource, bool has_pending)
{
  return count_held(resource) + (has_pending ? (size_t)o.lengths[resource] : 0);
}

/* Compares the entries of one name: its locks in the order of their grants, then its queue. */
static void compare_name(
    const struct wlk_snapshot *s, const struct wlk_lock_info *info, int resource, size_t count)
{
  const struct wlk_name *name = &s->names[info->name];
  struct expected *e = NULL;
  size_t held = count_held(resource);
  for (size_t i = 0; i < count; i++, info++) {
    e = i < held ? lock_after(resource, e) : &o.all[o.queues[resource][i - held]];
    must(&s->names[info->name] == name, "the entries of a name stand together");
    must(info->held == (i < held) && is_about(s, info, e), "an entry of a snapshot");
  }
}

static bool is_name(const struct wlk_name *name, int i)
{
  return name->length == name_lengths[i] &&
         memcmp(name->units, names[i], name->length * sizeof *name->units) == 0;
}

/* Takes a snapshot of a manager, or of one of its names unless that is NAMES. Returns NULL if there
 * is no memory. */
static struct wlk_snapshot *snapshot_of(int manager, int name, bool has_pending)
{
  struct wlk_snapshot *s = NULL;
  (void)fail_allocation(failing);
  enum wlk_status status =
      name == NAMES ? wlk_snapshot_the_lock_state(managers[manager], &s)
                    : wlk_snapshot_a_name(
                          managers[manager], names[name], name_lengths[name], has_pending, &s);
  bool failed = fail_allocation(0);
  must(status == (failed ? WLK_NO_MEMORY : WLK_OK), "the answer to who asks for a snapshot");
  return status == WLK_OK ? s : NULL;
}

/* Compares the snapshot of a manager, or of one name unless that is NAMES, with the oracle. */
static void compare_snapshot(int manager, int name, bool has_pending)
{
  struct wlk_snapshot *s = snapshot_of(manager, name, has_pending);
  size_t total = 0, compared = 0;
  if (!s) return;
  for (int i = 0; i < NAMES; i++)
    if (name == NAMES || name == i) total += count_entries(manager * NAMES + i, has_pending);
  must(s->lock_count == total, "the size of a snapshot");
  must(name < NAMES || s->client_count == AGENTS, "the clients in a snapshot");
  while (compared < total) {
    int i = 0;
    while (i < NAMES && !is_name(&s->names[s->locks[compared].name], i)) i++;
    must(i < NAMES, "a name in a snapshot");
    size_t count = count_entries(manager * NAMES + i, has_pending);
    must(count > 0, "a snapshot has no name that is not in use");
    compare_name(s, &s->locks[compared], manager * NAMES + i, count);
    compared += count;
  }
  wlk_snapshot_free(s);
}

/* ---- bytes to operations ---- */

static void request_somehow(int kind, int agent, int resource, enum wlk_mode mode, uint8_t more)
{
  struct wlk_extra prior = {.priority = more % 5 - 2};
  struct wlk_extra limited = {
      .limit = 1 + more % 3,
      .weight = 1 + more / 3 % (1 + more % 3),
      .bounded = more % 2 == 1,
      .priority = more % 4 == 3 ? -1 : 0,
      .max_pending = more / 4,
  };
  if (kind <= 1) do_request(agent, resource, mode, WLK_WAIT, NULL);
  if (kind == 2) do_request(agent, resource, mode, WLK_WAIT, &prior);
  if (kind == 3) do_declare(agent, resource, mode, more);
  if (kind == 4) do_request(agent, resource, mode, WLK_IF_AVAILABLE, more % 2 ? &prior : NULL);
  if (kind == 5 && more % 2 == 0) do_request(agent, resource, WLK_EXCLUSIVE, WLK_STEAL, NULL);
  if (kind == 5 && more % 2 == 1)
    do_request(
        agent, resource, WLK_EXCLUSIVE, more == 7 ? WLK_PASS_IF_AVAILABLE : WLK_PASS,
        more % 4 == 1 ? &prior : NULL);
  if (kind == 6) do_request(agent, resource, mode, WLK_WAIT, &limited);
  if (kind == 7)
    do_request(agent, resource, WLK_SHARED, more % 4 ? WLK_WAIT : WLK_IF_AVAILABLE, &limited);
}

/* Changes a request. Only preparing a mark, blocking and publishing may need memory. */
static void change_somehow(int kind, int id, uint8_t more)
{
  struct expected *e = &o.all[id];
  bool is_shared = e->mode == WLK_SHARED && e->place == HOLDING;
  if (kind == 8) do_prepare_mark(e);
  if (kind == 9 && more < 6) do_block(e);
  if (kind == 9 && more >= 6) do_publish(e, more % 4 ? more : 0);
  (void)fail_allocation(1);
  if (kind == 10 && !is_shared) do_release(e, more % 2 ? WLK_FOREVER : 1u + more / 4);
  if (kind == 11 || (kind == 10 && is_shared)) do_release(e, 0);
  if (kind == 12 && more % 2) do_abort(id);
  if (kind == 12 && more % 2 == 0) do_end(e);
  must(!fail_allocation(0), "what gives back needs no memory");
}

static void operate(uint8_t operation, uint8_t argument)
{
  int agent = argument % AGENTS, resource = (argument & 0x7f) / AGENTS % (NAMES * MANAGERS);
  int kind = operation % 16, chosen = choose(argument % MOST);
  uint8_t more = operation / 16;
  if (kind <= 7)
    request_somehow(kind, agent, resource, argument & 0x80 ? WLK_SHARED : WLK_EXCLUSIVE, more);
  else if (kind <= 12 && chosen >= 0)
    change_somehow(kind, chosen, more);
  else if (kind == 13)
    do_take(agent, more % 4 != 0);
  else if (kind == 14 && more % 2)
    compare_snapshot(resource / NAMES, resource % NAMES, argument & 0x80);
  else if (kind == 14)
    compare_snapshot(resource / NAMES, NAMES, true);
  else if (kind == 15 && more < 8)
    do_terminate(agent);
  else if (kind == 15 && more < 12)
    do_reopen(resource / NAMES);
  else if (kind == 15)
    now += more < 15 ? more - 11u : UINT64_C(60) * 24 * 60 * 60 * 1000;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  o = (struct oracle){0};
  now = 1000;
  hashes_collide = size % 4 == 0;
  process = (struct wlk_process)WLK_PROCESS_INIT;
  for (int i = 0; i < MANAGERS; i++) until_it_has_memory(open_manager, i);
  for (int i = 0; i < AGENTS; i++) start_agent(i);
  /* Tokens soon exceed 32 bits. */
  for (int i = 0; i < WLK_SHARDS; i++) process.shards[i].grants = UINT32_MAX - 3;

  for (size_t i = 0; i + 1 < size; i += 2) {
    room = i / 2 % 5 == 0 ? i / 10 % 3 : MOST;
    failing = i / 2 % 7 == 0 ? 1 + (long)i / 14 % 4 : 0;
    operate(data[i], data[i + 1]);
    const char *sentence = broken(&process);
    must(!sentence, sentence);
    for (int j = 0; j < AGENTS; j++) {
      const struct wlk_resource *spare = agents[j]->spare;
      must(wakes[j] == o.to_come[j], "how often an agent is woken");
      must(!spare || spare->capacity < LONGEST, "the memory of a long name is not kept");
    }
  }

  room = MOST;
  failing = 0;
  for (int i = 0; i < AGENTS; i++) do_take(i, true);
  for (int i = 0; i < MANAGERS; i++) compare_snapshot(i, NAMES, true);
  for (int i = 0; i < AGENTS; i++) wlk_agent_terminate(agents[i]);
  for (int i = 0; i < MANAGERS; i++) wlk_manager_close(managers[i]);
  must(live_blocks() == 0, "all memory was given back");
  return 0;
}

#if defined(WLK_STANDALONE)
/* Requests, prepares marks, releases with short marks, and lets time pass. */
static const uint8_t of_marks[] = {0x00, 0x00, 0x08, 0x08, 0x0a, 0xca, 0xcf, 0xef};

int main(int argc, char **argv)
{
  static uint8_t data[600];
  long rounds = argc > 1 ? atol(argv[1]) : 0;
  for (long round = 0; round < rounds; round++) {
    uint64_t seed = (uint64_t)round;
    for (size_t i = 0; i < sizeof data; i++) {
      seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
      data[i] = (uint8_t)(seed >> 33);
    }
    /* Every eighth run is about marks, most of which have ended when their name is marked again. */
    for (size_t i = 0; i < sizeof data && round % 8 == 2; i += 2) {
      data[i] = of_marks[data[i] % sizeof of_marks];
      data[i + 1] &= 0x1f;
    }
    /* Every other run has few names with long queues; half of those are about deadlocks. */
    for (size_t i = 0; i < sizeof data && round % 2 == 1; i += 2) {
      data[i + 1] &= 0x87;
      if (round % 4 == 1 && data[i] % 3 != 0) data[i] = (uint8_t)(data[i] / 16 * 16 + 3);
    }
    (void)LLVMFuzzerTestOneInput(data, sizeof data - 2 * (size_t)(round % 3 == 0));
  }
  printf("ok - the core did what the oracle says in %ld runs\n", rounds);
  return 0;
}
#endif
