/* Threads as agents: each call of the core at random, with exclusion checked at every grant. At times
 * an allocation fails, in whatever thread makes it.
 * Usage: stress_test [steps a thread] [seed]. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, NAMES = 6, MANAGERS = 2, MOST = 8, CHECKED = 4, JOBS = 400, OWN_NAMES = 400 };
enum { OWN_BUCKETS = 20, OTHER_JOBS = 1 << 15, MANY_MARKS = 2 * JOBS };

static struct wlk_process process = WLK_PROCESS_INIT;
static struct wlk_manager *managers[MANAGERS];
static long steps = 20000;

/* How many are inside, by manager and name. Names from CHECKED on are for stealing. */
static atomic_int exclusive[MANAGERS][NAMES], shared[MANAGERS][NAMES];
static atomic_int runs[JOBS];
static atomic_long grants, aborts, thefts, waits;

struct held {
  struct wlk_request *request;
  int manager, name;
  enum wlk_mode mode;
  bool inside, live;
};

/* A thread with its agent. Only the thread itself touches it, except for the signal. */
struct thread {
  struct wlk_agent *agent;
  uint16_t number;
  uint64_t random;
  struct held held[MOST]; /* by tag */
  pthread_mutex_t mutex;
  pthread_cond_t signal;
  bool woken; /* guarded by `mutex` */
};

static int below(struct thread *t, int limit)
{
  t->random ^= t->random << 13;
  t->random ^= t->random >> 7;
  t->random ^= t->random << 17;
  return (int)(t->random % (uint64_t)limit);
}

static void wake(void *data)
{
  struct thread *t = data;
  pthread_mutex_lock(&t->mutex);
  t->woken = true;
  pthread_cond_signal(&t->signal);
  pthread_mutex_unlock(&t->mutex);
}

static void start_agent(struct thread *t)
{
  struct wlk_thread thread = {t->number, NULL, 0};
  while (wlk_agent_create(&process, "thread-", &thread, wake, t, &t->agent) != WLK_OK) continue;
}

static struct wlk_manager *open_bucket(uint16_t number, uint16_t bucket)
{
  struct wlk_manager *manager;
  const uint16_t units[] = {number, bucket};
  while (wlk_manager_open(&process, units, 2, &manager) != WLK_OK) continue;
  return manager;
}

static void enter(struct held *h)
{
  atomic_fetch_add(&grants, 1);
  h->inside = true;
  if (h->name >= CHECKED) return;
  bool alone = h->mode == WLK_EXCLUSIVE;
  atomic_int *writers = &exclusive[h->manager][h->name], *readers = &shared[h->manager][h->name];
  int before = atomic_fetch_add(alone ? writers : readers, 1);
  CHECK((alone ? before + atomic_load(readers) : atomic_load(writers)) == 0);
}

static void leave(struct held *h)
{
  if (h->inside && h->name < CHECKED)
    atomic_fetch_sub(&(h->mode == WLK_EXCLUSIVE ? exclusive : shared)[h->manager][h->name], 1);
  h->inside = h->live = false;
}

static void handle(struct thread *t, const struct wlk_events *events)
{
  for (size_t i = 0; i < events->count; i++) {
    struct held *h = &t->held[events->items[i].tag];
    if (events->items[i].news & WLK_NEWS_GRANTED) enter(h);
    if (events->items[i].news & WLK_NEWS_STOLEN) leave(h);
  }
}

static void request(struct thread *t, struct held *h)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
  struct wlk_request *inside[MOST];
  struct wlk_snapshot *cycle = NULL;
  uint16_t name = (uint16_t)below(t, NAMES);
  int dice = below(t, 10);
  bool steal = name >= CHECKED && dice == 0;
  struct wlk_extra extra = {
      .priority = below(t, 5) - 2,
      .label = &t->number,
      .label_length = 1,
      .reject_deadlock = below(t, 2) == 0,
      .inside = inside,
  };
  for (int i = 0; i < MOST; i++)
    if (t->held[i].inside) inside[extra.inside_count++] = t->held[i].request;
  h->manager = below(t, MANAGERS);
  h->name = name;
  h->mode = !steal && below(t, 3) == 0 ? WLK_SHARED : WLK_EXCLUSIVE;
  enum wlk_status status = wlk_request_a_lock(
      t->agent, managers[h->manager], &name, 1, h->mode,
      steal       ? WLK_STEAL
      : dice == 1 ? WLK_IF_AVAILABLE
                  : WLK_WAIT,
      (uint32_t)(h - t->held), dice < 5 ? NULL : &extra, &h->request, &cycle, &events);
  wlk_snapshot_free(cycle);
  h->live = status == WLK_GRANTED || status == WLK_PENDING;
  if (steal) atomic_fetch_add(&thefts, 1);
  if (status == WLK_GRANTED) enter(h);
  handle(t, &events);
}

static void give_back(struct thread *t, struct held *h)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
  if (!h->inside && wlk_abort_the_request(h->request, &events) == WLK_OK) {
    atomic_fetch_add(&aborts, 1);
    leave(h);
  } else {
    struct wlk_request *lock = h->request;
    leave(h);
    CHECK(wlk_release_the_lock(lock, &events) != WLK_NOT_HELD);
  }
  handle(t, &events);
}

/* Ends the agent with all that it has, which it leaves before others enter. */
static void terminate(struct thread *t)
{
  for (int i = 0; i < MOST; i++) leave(&t->held[i]);
  wlk_agent_terminate(t->agent);
  t->woken = false;
}

/* Waits until the agent is woken, and takes its events. */
static void wait_for_events(struct thread *t)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
  pthread_mutex_lock(&t->mutex);
  while (!t->woken) pthread_cond_wait(&t->signal, &t->mutex);
  t->woken = false;
  pthread_mutex_unlock(&t->mutex);
  wlk_agent_take_events(t->agent, true, &events);
  handle(t, &events);
}

static bool is_woken(struct thread *t)
{
  pthread_mutex_lock(&t->mutex);
  bool woken = t->woken;
  pthread_mutex_unlock(&t->mutex);
  return woken;
}

/* Blocks until a request is granted, or was stolen again. */
static enum wlk_status block(struct thread *t, struct wlk_request *request)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
  enum wlk_status status = wlk_wait_for_the_lock(request, WLK_FOREVER, NULL, &events);
  CHECK(status == WLK_GRANTED || status == WLK_STOLEN);
  handle(t, &events);
  return status;
}

/* Gives up everything but one pending request, and waits for that. As all others do likewise, it is
 * granted, unless a wake-up is lost. */
static void wait_for_one(struct thread *t)
{
  struct held *waiting = NULL;
  for (int i = 0; i < MOST; i++) {
    struct held *h = &t->held[i];
    if (h->live && !h->inside && !waiting)
      waiting = h;
    else if (h->live)
      give_back(t, h);
  }
  if (!waiting || !waiting->live || waiting->inside) return;
  atomic_fetch_add(&waits, 1);
  if (below(t, 2) == 0) {
    if (block(t, waiting->request) == WLK_GRANTED)
      enter(waiting);
    else
      leave(waiting);
  }
  while (waiting->live && !waiting->inside) wait_for_events(t);
  if (waiting->live) give_back(t, waiting);
}

/* Runs a job unless its name is marked: of all threads, one runs it. The marks of other jobs are over
 * at once. */
static void run_once(struct thread *t)
{
  struct wlk_events none = {.capacity = 0};
  struct wlk_request *lock;
  uint16_t job = (uint16_t)below(t, JOBS + OTHER_JOBS), name = NAMES + job;
  if (below(t, 2)) name = NAMES + (job %= JOBS);
  enum wlk_status status = wlk_request_a_lock(
      t->agent, managers[0], &name, 1, WLK_EXCLUSIVE, below(t, 5) ? WLK_WAIT : WLK_STEAL, MOST,
      NULL, &lock, NULL, &none);
  if (status == WLK_NO_MEMORY) return;
  if (status == WLK_PENDING) status = wlk_wait_for_the_lock(lock, WLK_FOREVER, NULL, &none);
  if (status == WLK_GRANTED) status = wlk_prepare_mark(lock, &none);
  if (status == WLK_MARKED || status == WLK_NO_MEMORY) (void)wlk_release_the_lock(lock, &none);
  uint64_t keep = job < JOBS ? WLK_FOREVER : 1;
  if (status == WLK_OK && wlk_release_and_mark(lock, keep, &none) == WLK_OK && job < JOBS)
    CHECK(atomic_fetch_add(&runs[job], 1) == 0);
}

static struct wlk_request *hold(struct thread *t, struct wlk_manager *manager, uint16_t name)
{
  struct wlk_request *lock;
  struct wlk_events none = {.capacity = 0};
  uint16_t units[] = {t->number, name};
  enum wlk_status status = WLK_NO_MEMORY;
  while (status == WLK_NO_MEMORY)
    status = wlk_request_a_lock(
        t->agent, manager, units, 2, WLK_EXCLUSIVE, WLK_WAIT, MOST, NULL, &lock, NULL, &none);
  CHECK(status == WLK_GRANTED);
  return lock;
}

/* Takes names of its own, one by one, and gives them back in the same order, or all at once: the
 * tables grow and shrink, and so does what a snapshot has measured before it copies. */
static void grow(struct thread *t)
{
  struct wlk_request *locks[OWN_NAMES];
  struct wlk_manager *own[OWN_BUCKETS];
  struct wlk_events none = {.capacity = 0};
  for (uint16_t i = 0; i < OWN_BUCKETS; i++) own[i] = open_bucket(t->number, i);
  for (uint16_t i = 0; i < OWN_NAMES; i++) locks[i] = hold(t, managers[0], i);
  for (uint16_t i = 0; i < OWN_NAMES / 2; i++) (void)hold(t, own[0], i);
  if (below(t, 2) == 0)
    for (int i = 0; i < OWN_NAMES; i++) CHECK(wlk_release_the_lock(locks[i], &none) == WLK_OK);
  terminate(t);
  start_agent(t);
  for (int i = 0; i < OWN_BUCKETS; i++) {
    CHECK(request_count(own[i]) == 0 && chain_count(own[i]) == LEAST_CHAINS);
    wlk_manager_close(own[i]);
  }
}

/* A snapshot is of one moment: of a thread's own names, those that are held have no gap. */
static void look(void)
{
  int count[THREADS + 1] = {0}, first[THREADS + 1], last[THREADS + 1] = {0};
  struct wlk_snapshot *s;
  if (wlk_snapshot_the_lock_state(managers[0], &s) == WLK_NO_MEMORY) return;
  for (int i = 0; i <= THREADS; i++) first[i] = OWN_NAMES;
  for (size_t i = 0; i < s->lock_count; i++) {
    const struct wlk_name *name = &s->names[s->locks[i].name];
    if (name->length != 2) continue;
    int thread = name->units[0], number = name->units[1];
    count[thread]++;
    if (number < first[thread]) first[thread] = number;
    if (number > last[thread]) last[thread] = number;
  }
  for (int i = 0; i <= THREADS; i++) CHECK(count[i] == 0 || count[i] == last[i] - first[i] + 1);
  wlk_snapshot_free(s);
}

/* Opens a bucket that other threads open and close, too, and has a lock there. */
static void open_and_close(struct thread *t)
{
  struct wlk_manager *manager = open_bucket(0, 'o');
  struct wlk_events none = {.capacity = 0};
  struct wlk_request *lock = hold(t, manager, 0);
  CHECK(open_bucket(0, 'o') == manager);
  CHECK(wlk_release_the_lock(lock, &none) == WLK_OK);
  wlk_manager_close(manager);
  wlk_manager_close(manager);
}

static void step(struct thread *t)
{
  if (is_woken(t)) wait_for_events(t);
  struct held *h = &t->held[below(t, MOST)];
  int dice = below(t, 200);
  if (dice % 20 == 19) (void)fail_allocation(1 + below(t, 3));
  if (dice == 0)
    terminate(t), start_agent(t);
  else if (dice < 2)
    grow(t);
  else if (dice < 8)
    look();
  else if (dice < 11)
    open_and_close(t);
  else if (dice < 15)
    run_once(t);
  else if (dice < 25)
    wait_for_one(t);
  else if (dice < 40 && h->inside)
    (void)wlk_publish(h->request, &t->number, (uint32_t)dice % 2);
  else if (h->live)
    give_back(t, h);
  else
    request(t, h);
}

static void *run(void *data)
{
  struct thread *t = data;
  for (long i = 0; i < steps; i++) step(t);
  terminate(t);
  return NULL;
}

static size_t mark_count(const struct wlk_manager *manager)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += manager->parts[i].marks.count;
  return count;
}

static uint64_t seed;

TEST(stress, "threads that make every call at random never overlap, and none is forgotten")
{
  static struct thread threads[THREADS];
  pthread_t ids[THREADS];
  for (uint16_t i = 0; i < MANAGERS; i++) managers[i] = open_bucket(0, i);
  for (int i = 0; i < THREADS; i++) {
    struct thread *t = &threads[i];
    t->number = (uint16_t)(i + 1);
    t->random = seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 1;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->signal, NULL);
    start_agent(t);
    CHECK(pthread_create(&ids[i], NULL, run, t) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(ids[i], NULL) == 0);
  CHECK(process.agent_count == 0);
  for (int i = 0; i < MANAGERS; i++) {
    CHECK(request_count(managers[i]) == 0 && name_count(managers[i]) == 0);
    CHECK(chain_count(managers[i]) == LEAST_CHAINS && mark_count(managers[i]) < MANY_MARKS);
    wlk_manager_close(managers[i]);
  }
  CHECK(process.managers.count == 0 && process.managers.capacity == WLK_TABLE_LEAST);
  CHECK(live_blocks() == 0);
  printf(
      "# %ld grants, %ld aborts, %ld steals, %ld waits\n", atomic_load(&grants),
      atomic_load(&aborts), atomic_load(&thefts), atomic_load(&waits));
}

int main(int argc, char **argv)
{
  if (argc > 1) steps = strtol(argv[1], NULL, 10);
  seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  (void)alarm(1800); /* a lost wake-up, or a wait for ever, ends here */
  printf("# seed %llu, %d threads, %ld steps each\n", (unsigned long long)seed, THREADS, steps);
  (void)fflush(stdout);
  return run_tests();
}
