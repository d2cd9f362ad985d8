/* Threads with agents run small stories, and a judge checks what they see: exclusion, by data that
 * only the locks guard; the order of grants of each name; that everything grantable is granted; and
 * that nothing is left.
 *
 *   chosen_test [runs] [seed]   in schedules that the seed chooses (port_chosen.h)
 *   stress_test [runs] [seed]   with threads of the system (port_threads.c) */
#include "harness.h"
#include "port_chosen.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  MOST = 4,
  RECORDS = 1000,
  LIVES = 300,
  JOBS = 3,
  OPERATIONS = 12,
  GROWN = 6,
  GROWN_MOST = 30
};

/* Names. SHARED_UNITS has a limit. Only locks of STOLEN and later names may be stolen. */
enum { PLAIN, OTHER, SHARED_UNITS, STOLEN, CHECKED = STOLEN, JOB = 8, BUCKET = 12, OWN = 64 };
enum { LIMIT = 3 };

struct life {
  struct thread *thread;
  _Atomic bool ended;
};

/* The judge's record of a request: when it was made, by a counter, and its token. */
struct record {
  int name, priority;
  uint64_t began, returned, granted, token;
  bool overtakes;       /* a theft */
  bool is_out_of_order; /* it was aborted, or ended unseen */
};

struct held {
  struct wlk_request *request;
  struct record *record;
  int name;
  enum wlk_mode mode;
  uint32_t weight;
  bool live, inside;
};

struct thread {
  int number;
  struct wlk_agent *agent;
  struct life *life;
  struct wlk_mutex mutex;
  struct wlk_condition signal;
  bool woken;             /* guarded by `mutex` */
  struct held held[MOST]; /* by tag */
};

typedef void operation(struct thread *t);

/* The state of one run. */
static struct {
  struct wlk_process process;
  struct wlk_manager *manager;
  const struct story *story;
  struct thread threads[CHOSEN_THREADS];
  struct life lives[LIVES];
  struct record records[RECORDS];
  _Atomic int life_count, record_count;
  _Atomic int writers[CHECKED], units[CHECKED], readers[CHECKED];
  _Atomic int runs[JOBS];
  _Atomic uint64_t clock;
  int favourite;
  uint64_t
      random[1 + CHOSEN_THREADS]; /* of each thread, so that it does the same in all schedules */
} run;

static int below(int limit)
{
  uint64_t *x = &run.random[chosen_self()];
  *x ^= *x << 13;
  *x ^= *x >> 7;
  *x ^= *x << 17;
  return (int)((*x >> 20) % (uint64_t)limit);
}

static void rest(void)
{
  if (below(2)) chosen_rest();
}

static void must(bool condition, const char *otherwise)
{
  if (!condition) chosen_fail(otherwise);
}

/* Even names are in one shard and odd names in another, each in a chain of its own. */
uint64_t __wrap_wlk_hash(const uint64_t key[2], const uint16_t *name, size_t length)
{
  (void)key;
  uint64_t number = length > 0 ? name[0] : 0;
  return (number & 1) << 32 | number;
}

const char *chosen_name_of(const struct wlk_mutex *mutex)
{
  if (mutex == &run.process.mutex) return "the mutex of the process";
  for (int i = 0; i < WLK_SHARDS; i++)
    if (mutex == &run.process.shards[i].mutex) return "the mutex of a shard";
  for (int i = 0; i < CHOSEN_THREADS; i++)
    if (mutex == &run.threads[i].mutex) return "the mutex of its events";
  return "the mutex of an agent";
}

/* ---- the judge ---- */

static void enter(struct held *h, uint64_t token)
{
  must(h->live && !h->inside, "a request was granted twice, or after its end");
  h->inside = true;
  h->record->granted = ++run.clock;
  h->record->token = token;
  if (h->name >= CHECKED) return;
  run.writers[h->name] += h->mode == WLK_EXCLUSIVE;
  run.readers[h->name] += h->mode == WLK_SHARED;
  run.units[h->name] += (int)h->weight;
  must(run.writers[h->name] <= 1, "two exclusive locks are held");
  must(run.writers[h->name] == 0 || run.readers[h->name] == 0, "an exclusive lock is not alone");
  must(run.units[h->name] <= LIMIT, "more units are held than the limit");
}

static void leave(struct held *h)
{
  if (h->inside && h->name < CHECKED) {
    run.writers[h->name] -= h->mode == WLK_EXCLUSIVE;
    run.readers[h->name] -= h->mode == WLK_SHARED;
    run.units[h->name] -= (int)h->weight;
  }
  if (h->live && !h->inside) h->record->is_out_of_order = true;
  h->inside = h->live = false;
}

static bool must_be_earlier(const struct record *one, const struct record *other)
{
  if (one->granted && one->granted < other->began) return true;
  return !one->overtakes && !other->overtakes && one->returned && one->returned < other->began &&
         one->priority >= other->priority;
}

/* A request that ended unseen has no token. */
static void judge_order(void)
{
  for (int i = 0; i < run.record_count; i++)
    for (int k = 0; k < run.record_count; k++) {
      const struct record *one = &run.records[i], *other = &run.records[k];
      if (one->name != other->name || one->is_out_of_order || other->is_out_of_order) continue;
      if (one->token == 0 || other->token == 0) continue;
      if (must_be_earlier(one, other) && one->token >= other->token)
        chosen_fail("a request was granted before one that was ahead of it");
    }
}

static bool is_held(const struct wlk_snapshot *s, uint16_t name)
{
  for (size_t i = 0; i < s->lock_count; i++)
    if (s->locks[i].held && s->names[s->locks[i].name].units[0] == name) return true;
  return false;
}

/* A snapshot shows one moment: every name with waiters is held, and a thread that holds the second
 * name of a pair also holds the first. */
static void judge_snapshot(const struct wlk_snapshot *s, bool whole)
{
  for (size_t i = 0; i < s->lock_count; i++) {
    const struct wlk_lock_info *lock = &s->locks[i];
    uint16_t name = s->names[lock->name].units[0];
    must(is_held(s, name), "a snapshot has a name that is only waited for");
    must(lock->client < s->client_count, "a snapshot has a lock of nobody");
    must(
        lock->data == WLK_NO_TEXT ||
            (s->names[lock->data].length == 2 &&
             s->names[lock->data].units[0] == s->names[lock->data].units[1]),
        "a snapshot has half of what was published");
    if (name < OWN || name >= BUCKET * OWN) continue;
    must(
        s->clients[lock->client].thread_id == (uint32_t)name / OWN,
        "a snapshot has a lock of another thread");
    if (!whole || name % 2 == 0) continue;
    must(is_held(s, name - 1), "a snapshot is of two moments");
  }
}

/* ---- agents ---- */

static void wake(void *data)
{
  struct life *life = data;
  struct thread *t = life->thread;
  chosen_must_have_no_mutex();
  must(!life->ended, "an agent is woken after its end");
  wlk_mutex_lock(&t->mutex);
  t->woken = true;
  wlk_condition_broadcast(&t->signal);
  wlk_mutex_unlock(&t->mutex);
  must(!life->ended, "an agent has ended while it is woken");
}

static void start_agent(struct thread *t)
{
  struct wlk_thread thread = {(uint32_t)t->number, NULL, 0};
  int life = run.life_count++;
  must(life < LIVES, "the test has too few lives");
  t->life = &run.lives[life];
  t->life->thread = t;
  while (wlk_agent_create(&run.process, "t-", &thread, wake, t->life, &t->agent) != WLK_OK)
    continue;
}

static void end_agent(struct thread *t)
{
  for (int i = 0; i < MOST; i++) leave(&t->held[i]);
  wlk_agent_terminate(t->agent);
  t->life->ended = true;
  t->woken = false;
}

static void handle(struct thread *t, const struct wlk_events *events)
{
  for (size_t i = 0; i < events->count; i++) {
    const struct wlk_event *e = &events->items[i];
    struct held *h = &t->held[e->tag];
    must(e->tag < MOST && h->live, "an event is of no request");
    if (e->news & WLK_NEWS_GRANTED) enter(h, (uint64_t)e->token_high << 32 | e->token_low);
    if (e->news & WLK_NEWS_STOLEN) leave(h);
  }
}

static void take_events(struct thread *t, bool woken)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = 1 + (size_t)below(MOST)};
  do {
    wlk_agent_take_events(t->agent, woken, &events);
    handle(t, &events);
    woken = false;
  } while (events.count == events.capacity);
}

/* Handles the events of a call, and those that did not fit into it. */
static void handle_all(struct thread *t, const struct wlk_events *events)
{
  handle(t, events);
  if (events->count == events->capacity) take_events(t, false);
}

static void wait_for_events(struct thread *t)
{
  wlk_mutex_lock(&t->mutex);
  while (!t->woken) wlk_condition_wait(&t->signal, &t->mutex);
  t->woken = false;
  wlk_mutex_unlock(&t->mutex);
  take_events(t, true);
}

static void take_events_if_woken(struct thread *t)
{
  wlk_mutex_lock(&t->mutex);
  bool woken = t->woken;
  t->woken = false;
  wlk_mutex_unlock(&t->mutex);
  if (woken) take_events(t, true);
}

/* ---- operations ---- */

#define ROOM(name)                                                                                 \
  struct wlk_event name##_items[MOST];                                                             \
  struct wlk_events name = {.items = name##_items, .capacity = 1 + (size_t)below(MOST)}

static struct held *find(struct thread *t, bool live)
{
  for (int i = 0, first = below(MOST); i < MOST; i++) {
    struct held *h = &t->held[(first + i) % MOST];
    if (h->live == live) return h;
  }
  return NULL;
}

static void request(
    struct thread *t, struct held *h, enum wlk_option option, struct wlk_extra *extra)
{
  ROOM(events);
  struct wlk_snapshot *cycle = NULL;
  uint16_t name = (uint16_t)h->name;
  int record = run.record_count++;
  must(record < RECORDS, "the test has too few records");
  h->record = &run.records[record];
  *h->record = (struct record){
      .name = h->name,
      .priority = extra->priority,
      .began = ++run.clock,
      .overtakes = option == WLK_STEAL,
  };
  h->weight = extra->weight;
  enum wlk_status status = wlk_request_a_lock(
      t->agent, run.manager, &name, 1, h->mode, option, (uint32_t)(h - t->held), extra, &h->request,
      &cycle, &events);
  h->record->returned = ++run.clock;
  h->live = status == WLK_GRANTED || status == WLK_PENDING;
  wlk_snapshot_free(cycle);
  if (status == WLK_GRANTED) enter(h, events.token);
  handle_all(t, &events);
}

static void ask_for_a_lock(struct thread *t)
{
  chosen_note("requests");
  struct held *h = find(t, false);
  if (!h) return;
  uint16_t label[] = {1, 1};
  h->name = below(2) ? run.favourite : below(CHECKED);
  h->mode = h->name == SHARED_UNITS || below(3) == 0 ? WLK_SHARED : WLK_EXCLUSIVE;
  struct wlk_extra extra = {.priority = below(4) == 0 ? below(3) - 1 : 0, .label = label};
  extra.label_length = below(2) ? 2 : 0;
  if (h->name == SHARED_UNITS) extra.limit = LIMIT, extra.weight = 1 + (uint32_t)below(LIMIT);
  request(t, h, below(5) == 0 ? WLK_IF_AVAILABLE : WLK_WAIT, &extra);
}

static void steal(struct thread *t)
{
  chosen_note("steals, or asks for what is stolen");
  struct held *h = find(t, false);
  if (!h) return;
  struct wlk_extra extra = {0};
  h->name = STOLEN;
  h->mode = WLK_EXCLUSIVE;
  request(t, h, below(2) ? WLK_STEAL : WLK_WAIT, &extra);
}

static void give_back(struct thread *t, struct held *h)
{
  ROOM(events);
  struct wlk_request *request = h->request;
  if (!h->inside && below(2) == 0) {
    chosen_note("ends a request");
    leave(h);
    wlk_end_the_request(request);
    return;
  }
  chosen_note("aborts or releases");
  if (!h->inside && wlk_abort_the_request(request, &events) == WLK_OK) {
    leave(h);
  } else {
    leave(h);
    must(wlk_release_the_lock(request, &events) != WLK_NOT_HELD, "a lock is not held");
  }
  handle_all(t, &events);
}

static void give_one_back(struct thread *t)
{
  struct held *h = find(t, true);
  if (h) give_back(t, h);
}

/* Ends everything but one pending request, and makes one if there is none. The other threads do the
 * same, so one of them grants it. */
static struct held *keep_one(struct thread *t)
{
  struct held *kept = NULL;
  for (int i = 0; i < MOST; i++) {
    struct held *h = &t->held[i];
    if (h->live && !h->inside && !kept)
      kept = h;
    else if (h->live)
      give_back(t, h);
  }
  if (!kept) ask_for_a_lock(t), kept = find(t, true);
  return kept && kept->live && !kept->inside ? kept : NULL;
}

static void wait_for_one(struct thread *t)
{
  struct held *h = keep_one(t);
  chosen_note("waits for an event");
  while (h && h->live && !h->inside) wait_for_events(t);
  rest();
}

static struct held *find_inside(struct thread *t)
{
  for (int i = 0; i < MOST; i++)
    if (t->held[i].inside) return &t->held[i];
  return NULL;
}

/* Releases all locks, then waits. */
static void wait_for_any(struct thread *t)
{
  struct held *h;
  while ((h = find_inside(t)) != NULL) give_back(t, h);
  chosen_note("waits for an event");
  if (find(t, true)) wait_for_events(t);
  rest();
}

static void block(struct thread *t)
{
  struct held *h = keep_one(t);
  if (!h) return;
  chosen_note("blocks");
  ROOM(events);
  struct wlk_snapshot *cycle = NULL;
  uint64_t timeout = below(3) == 0 ? 10 : WLK_FOREVER;
  enum wlk_status status;
  do status = wlk_wait_for_the_lock(h->request, timeout, &cycle, &events);
  while (status == WLK_PENDING && below(2));
  must(timeout < WLK_FOREVER || status != WLK_PENDING, "a wait for ever has ended");
  must(status != WLK_DEADLOCK, "a thread waits for itself");
  if (status == WLK_GRANTED) enter(h, events.token);
  if (status == WLK_STOLEN) leave(h);
  handle_all(t, &events);
}

static void start_again(struct thread *t)
{
  chosen_note("ends its agent");
  end_agent(t);
  start_agent(t);
}

/* Takes a lock that no other thread holds or waits for. */
static struct wlk_request *hold(struct thread *t, struct wlk_manager *manager, int number)
{
  ROOM(none);
  none.capacity = 0;
  struct wlk_request *lock = NULL;
  uint16_t name = (uint16_t)number;
  enum wlk_status status = WLK_NO_MEMORY;
  while (status == WLK_NO_MEMORY)
    status = wlk_request_a_lock(
        t->agent, manager, &name, 1, WLK_EXCLUSIVE, WLK_WAIT, 0, NULL, &lock, NULL, &none);
  must(status == WLK_GRANTED, "a name that nobody else uses is not free");
  return lock;
}

static void let_go(struct wlk_request *lock)
{
  struct wlk_events none = {.capacity = 0};
  must(wlk_release_the_lock(lock, &none) == WLK_OK, "a lock is not held");
}

/* Holds two names that are in different shards. */
static void hold_a_pair(struct thread *t)
{
  chosen_note("holds a pair");
  struct wlk_request *first = hold(t, run.manager, OWN * t->number);
  struct wlk_request *second = hold(t, run.manager, OWN * t->number + 1);
  uint16_t text[] = {(uint16_t)t->number, (uint16_t)t->number};
  enum wlk_status status = wlk_publish(second, text, (uint32_t)below(2) * 2);
  must(status == WLK_OK || status == WLK_NO_MEMORY, "nothing can be published");
  rest();
  let_go(second);
  let_go(first);
}

static void look(struct thread *t)
{
  (void)t;
  chosen_note("makes a snapshot");
  struct wlk_snapshot *s = NULL;
  uint16_t name = (uint16_t)below(OWN);
  if (name >= CHECKED) name = (uint16_t)(OWN * (1 + below(CHOSEN_THREADS)) + 1);
  bool whole = below(2);
  enum wlk_status status = whole ? wlk_snapshot_the_lock_state(run.manager, &s)
                                 : wlk_snapshot_a_name(run.manager, &name, 1, true, &s);
  if (status == WLK_NO_MEMORY) return;
  must(status == WLK_OK, "a snapshot cannot be made");
  judge_snapshot(s, whole);
  wlk_snapshot_free(s);
}

static void publish(struct thread *t)
{
  chosen_note("publishes");
  struct held *h = find(t, true);
  uint16_t text[] = {7, 7};
  if (h && h->inside) (void)wlk_publish(h->request, text, (uint32_t)below(2) * 2);
}

static struct wlk_manager *open_bucket(uint16_t number)
{
  struct wlk_manager *manager;
  while (wlk_manager_open(&run.process, &number, 1, &manager) != WLK_OK) continue;
  return manager;
}

/* Makes the tables of two threads grow and shrink together. */
static void grow(struct thread *t)
{
  chosen_note("takes many names, and opens many buckets");
  struct wlk_request *locks[GROWN_MOST];
  struct wlk_manager *managers[GROWN_MOST];
  int count = GROWN * chosen_scale, first = OWN * (BUCKET + t->number);
  for (int i = 0; i < count; i++) {
    locks[i] = hold(t, run.manager, first + 2 * i);
    managers[i] = open_bucket((uint16_t)(first + i));
  }
  rest();
  for (int i = 0; i < count; i++) {
    let_go(locks[i]);
    wlk_manager_close(managers[i]);
  }
}

static void open_and_close(struct thread *t)
{
  chosen_note("opens and closes buckets");
  struct wlk_manager *manager = open_bucket(BUCKET);
  struct wlk_request *lock = hold(t, manager, t->number);
  must(open_bucket(BUCKET) == manager, "a bucket has two managers");
  let_go(lock);
  rest();
  wlk_manager_close(manager);
  wlk_manager_close(manager);
}

/* One of the threads runs each job, unless its lock is stolen before. */
static void run_once(struct thread *t)
{
  chosen_note("runs a job once");
  struct wlk_events none = {.capacity = 0};
  struct wlk_request *lock = NULL;
  int job = below(JOBS);
  uint16_t name = (uint16_t)(JOB + job);
  enum wlk_status status = wlk_request_a_lock(
      t->agent, run.manager, &name, 1, WLK_EXCLUSIVE, below(4) ? WLK_WAIT : WLK_STEAL, MOST, NULL,
      &lock, NULL, &none);
  if (status == WLK_NO_MEMORY) return;
  if (status == WLK_PENDING) status = wlk_wait_for_the_lock(lock, WLK_FOREVER, NULL, &none);
  rest();
  if (status == WLK_GRANTED) status = wlk_prepare_mark(lock, &none);
  rest();
  if (status == WLK_MARKED || status == WLK_NO_MEMORY) (void)wlk_release_the_lock(lock, &none);
  if (status == WLK_OK && wlk_release_and_mark(lock, WLK_FOREVER, &none) == WLK_OK)
    must(++run.runs[job] == 1, "a job ran twice");
}

/* Waits for a second lock while holding the first: unless cycles are refused, all threads hang. */
static void nest(struct thread *t)
{
  for (int i = 0; i < MOST; i++) must(!t->held[i].live, "a thread has more locks");
  struct wlk_request *inside[1];
  struct wlk_extra extra = {.reject_deadlock = true, .inside = inside};
  int first = below(CHECKED);
  for (int i = 0; i < 2; i++) {
    struct held *h = &t->held[i];
    h->name = (first + i) % (CHECKED);
    h->mode = below(4) == 0 ? WLK_SHARED : WLK_EXCLUSIVE;
    chosen_note("requests with 'reject'");
    request(t, h, WLK_WAIT, &extra);
    chosen_note("waits inside a lock");
    while (h->live && !h->inside) wait_for_events(t);
    rest();
    inside[0] = h->request;
    extra.inside_count = h->live;
    extra.priority = below(3) - 1;
  }
  for (int i = 2; i-- > 0;)
    if (t->held[i].live) give_back(t, &t->held[i]);
}

static void request_and_rest(struct thread *t, int name, enum wlk_mode mode, enum wlk_option option)
{
  struct wlk_extra extra = {0};
  t->held[name].name = name;
  t->held[name].mode = mode;
  request(t, &t->held[name], option, &extra);
  rest();
}

static bool waits_for(const struct thread *t, int name)
{
  return t->held[name].live && !t->held[name].inside;
}

/* The first thread locks two names, and the others wait for both. Between the two grants they make
 * no call that could find the second one, so a lost wake-up would be seen. */
static void lead_or_follow(struct thread *t)
{
  bool leads = t->number == 1;
  chosen_note(leads ? "leads" : "follows");
  request_and_rest(t, PLAIN, leads ? WLK_EXCLUSIVE : WLK_SHARED, WLK_WAIT);
  while (leads && waits_for(t, PLAIN)) wait_for_events(t);
  request_and_rest(
      t, OTHER, leads ? WLK_EXCLUSIVE : WLK_SHARED, leads ? WLK_IF_AVAILABLE : WLK_WAIT);
  while (waits_for(t, PLAIN) || waits_for(t, OTHER)) wait_for_events(t);
  for (int i = PLAIN; i <= OTHER; i++)
    if (t->held[i].live) give_back(t, &t->held[i]);
}

/* ---- stories ---- */

static const struct story {
  operation *operations[OPERATIONS];
} stories[] = {
    {{ask_for_a_lock, ask_for_a_lock, ask_for_a_lock, give_one_back, wait_for_any, wait_for_one}},
    {{ask_for_a_lock, give_one_back, wait_for_one, block, start_again}},
    {{steal, ask_for_a_lock, give_one_back, block, publish, start_again}},
    {{ask_for_a_lock, look, hold_a_pair, hold_a_pair, publish, give_one_back, wait_for_one}},
    {{grow, grow, open_and_close, look, start_again}},
    {{run_once, run_once, look, start_again}},
    {{nest}},
    {{lead_or_follow}},
    {{ask_for_a_lock, steal, give_one_back, wait_for_one, wait_for_any, block, look, hold_a_pair,
      grow, run_once, start_again}},
};
enum { STORIES = sizeof stories / sizeof *stories };

static void do_one_operation(struct thread *t)
{
  int count = 0;
  while (count < OPERATIONS && run.story->operations[count]) count++;
  run.story->operations[below(count)](t);
}

/* Releases everything as soon as it is granted, so that all requests can be granted. */
static void finish(struct thread *t)
{
  do wait_for_any(t);
  while (find(t, true));
}

static void live(void *data)
{
  struct thread *t = data;
  chosen_note("starts its agent");
  must(wlk_condition_init(&t->signal), "no condition");
  start_agent(t);
  for (int i = (2 + below(4)) * chosen_scale; i > 0; i--) {
    do_one_operation(t);
    rest();
    take_events_if_woken(t);
  }
  finish(t);
  chosen_note("ends its agent for good");
  end_agent(t);
  wlk_condition_destroy(&t->signal);
}

static void judge_end(void)
{
  judge_order();
  must(run.process.agent_count == 0, "an agent is left");
  must(request_count(run.manager) == 0, "a request is left");
  must(name_count(run.manager) == 0, "a name is left");
  must(chain_count(run.manager) == LEAST_CHAINS, "a table is too large");
  wlk_manager_close(run.manager);
  must(run.process.managers.count == 0, "a manager is left");
  must(chosen_live_blocks() == 0, "memory is left");
}

/* Returns the number of steps. */
static uint64_t tell(const struct chosen_schedule *schedule)
{
  memset(&run, 0, sizeof run);
  chosen_begin(schedule);
  run.process = (struct wlk_process)WLK_PROCESS_INIT;
  for (uint64_t i = 0; i <= CHOSEN_THREADS; i++)
    run.random[i] = (schedule->seed * 8 + i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  run.story = &stories[below(STORIES)];
  run.favourite = below(CHECKED);
  run.manager = open_bucket(0);
  int count = 3 + below(CHOSEN_THREADS - 2);
  for (int i = 0; i < count; i++) {
    run.threads[i].number = i + 1;
    chosen_add_thread(live, &run.threads[i]);
  }
  uint64_t steps = chosen_run();
  judge_end();
  return steps;
}

/* The first run, without changes of priority, counts the steps to choose from. */
static void tell_twice(uint64_t seed)
{
  struct chosen_schedule schedule = {seed, 0, 0, seed % 2 == 1};
  schedule.steps = tell(&schedule);
  schedule.changes = 1 + (int)(seed / 2 % CHOSEN_CHANGES);
  (void)tell(&schedule);
}

int main(int argc, char **argv)
{
  uint64_t runs = argc > 1 ? strtoull(argv[1], NULL, 10) : 5000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  for (uint64_t i = seed; i < seed + runs; i++) {
    (void)snprintf(
        chosen_repeat, sizeof chosen_repeat, "%s 1 %llu", argv[0], (unsigned long long)i);
    tell_twice(i);
  }
  printf(
      "ok - %llu runs of stories of threads, from seed %llu\n", (unsigned long long)runs,
      (unsigned long long)seed);
  return 0;
}
