/* Threads as agents: random requests, aborts, steals, releases and terminations, with exclusion and order
 * checked at every grant. Usage: stress_test [steps a thread] [seed]. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, NAMES = 6, MANAGERS = 2, MOST = 8, CHECKED = 4, PATIENCE_SECONDS = 20 };

static struct wlk_process process = WLK_PROCESS_INIT;
static struct wlk_manager *managers[MANAGERS];
static long steps = 20000;
static uint64_t seed;

/* Who is inside, by manager and name. Names from CHECKED on are for stealing: there, overlaps are what one asks for. */
static atomic_int exclusive[MANAGERS][NAMES], shared[MANAGERS][NAMES];
static atomic_long grants, aborts, thefts, waits, agents_made, violations;

struct held {
  struct wlk_request *request;
  int manager, name;
  enum wlk_mode mode;
  bool inside, live;
};

/* A thread with its agent. Only its own thread touches it, but for the signal. */
struct thread {
  struct wlk_agent *agent;
  uint64_t random;
  struct held held[MOST]; /* by tag */
  pthread_mutex_t mutex;
  pthread_cond_t signal;
  bool woken; /* guarded by `mutex` */
};

static uint64_t next_random(struct thread *t)
{
  t->random ^= t->random << 13;
  t->random ^= t->random >> 7;
  t->random ^= t->random << 17;
  return t->random;
}

static int below(struct thread *t, int limit)
{
  return (int)(next_random(t) % (uint64_t)limit);
}

static void wake(void *data)
{
  struct thread *t = data;
  pthread_mutex_lock(&t->mutex);
  t->woken = true;
  pthread_cond_signal(&t->signal);
  pthread_mutex_unlock(&t->mutex);
}

static void enter(struct held *h)
{
  atomic_fetch_add(&grants, 1);
  h->inside = true;
  if (h->name >= CHECKED) return;
  bool alone = h->mode == WLK_EXCLUSIVE;
  int before =
      atomic_fetch_add(alone ? &exclusive[h->manager][h->name] : &shared[h->manager][h->name], 1);
  int others = alone ? before + atomic_load(&shared[h->manager][h->name])
                     : atomic_load(&exclusive[h->manager][h->name]);
  if (others > 0) atomic_fetch_add(&violations, 1);
}

static void leave(struct held *h)
{
  if (h->inside && h->name < CHECKED)
    atomic_fetch_sub(
        h->mode == WLK_EXCLUSIVE ? &exclusive[h->manager][h->name] : &shared[h->manager][h->name],
        1);
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
  uint16_t name = (uint16_t)below(t, NAMES);
  int dice = below(t, 10);
  bool steal = name >= CHECKED && dice == 0;
  h->manager = below(t, MANAGERS);
  h->name = name;
  h->mode = !steal && below(t, 3) == 0 ? WLK_SHARED : WLK_EXCLUSIVE;
  enum wlk_option option = steal ? WLK_STEAL : dice == 1 ? WLK_IF_AVAILABLE : WLK_WAIT;
  struct wlk_extra extra = {.priority = below(t, 5) - 2};
  enum wlk_status status = wlk_request_a_lock(
      t->agent, managers[h->manager], &name, 1, h->mode, option, (uint32_t)(h - t->held),
      dice < 5 ? NULL : &extra, &h->request, NULL, &events);
  h->live = status == WLK_GRANTED || status == WLK_PENDING;
  if (steal) atomic_fetch_add(&thefts, 1);
  if (status == WLK_GRANTED) enter(h);
  handle(t, &events);
}

static void give_back(struct thread *t, struct held *h)
{
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
  if (!h->inside) {
    enum wlk_status status = wlk_abort_the_request(h->request, &events);
    if (status == WLK_OK) {
      atomic_fetch_add(&aborts, 1);
      leave(h);
      handle(t, &events);
      return;
    }
  }
  struct held copy = *h;
  leave(h);
  enum wlk_status status = wlk_release_the_lock(copy.request, &events);
  if (status == WLK_NOT_HELD) atomic_fetch_add(&violations, 1);
  handle(t, &events);
}

/* Ends the agent with all it has. What it is inside of, it leaves first: its locks go on. */
static void terminate(struct thread *t)
{
  for (int i = 0; i < MOST; i++) leave(&t->held[i]);
  wlk_agent_terminate(t->agent);
}

static void reincarnate(struct thread *t)
{
  terminate(t);
  t->woken = false; /* nobody wakes it any more, or yet */
  if (wlk_agent_create(&process, "thread-", &no_thread, wake, t, &t->agent) != WLK_OK) abort();
  atomic_fetch_add(&agents_made, 1);
}

/* Waits until the agent is woken, and takes its events. A wake-up that does not come fails the test. */
static void wait_for_news(struct thread *t)
{
  struct timespec deadline;
  (void)clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += PATIENCE_SECONDS;
  pthread_mutex_lock(&t->mutex);
  while (!t->woken)
    if (pthread_cond_timedwait(&t->signal, &t->mutex, &deadline) != 0) {
      printf("# a wake-up was lost\n");
      exit(1);
    }
  t->woken = false;
  pthread_mutex_unlock(&t->mutex);
  struct wlk_event items[MOST];
  struct wlk_events events = {.items = items, .capacity = MOST};
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

/* Gives up everything but one pending request, and waits for that: it must be granted, since all others do likewise. */
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
  if (!waiting) return;
  atomic_fetch_add(&waits, 1);
  while (waiting->live && !waiting->inside) wait_for_news(t);
  if (waiting->live) give_back(t, waiting);
}

static void step(struct thread *t)
{
  if (is_woken(t)) wait_for_news(t);
  struct held *h = &t->held[below(t, MOST)];
  int dice = below(t, 200);
  if (dice == 0)
    reincarnate(t);
  else if (dice < 10)
    wait_for_one(t);
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

TEST(
    stress, "threads that request, abort, steal, release and end at random never overlap, and none "
            "is forgotten")
{
  static struct thread threads[THREADS];
  pthread_t ids[THREADS];
  for (int i = 0; i < MANAGERS; i++) {
    uint16_t bucket = (uint16_t)i;
    CHECK(wlk_manager_open(&process, &bucket, 1, &managers[i]) == WLK_OK);
  }
  for (int i = 0; i < THREADS; i++) {
    struct thread *t = &threads[i];
    t->random = seed + (uint64_t)i * UINT64_C(0x9e3779b97f4a7c15) + 1;
    pthread_mutex_init(&t->mutex, NULL);
    pthread_cond_init(&t->signal, NULL);
    CHECK(wlk_agent_create(&process, "thread-", &no_thread, wake, t, &t->agent) == WLK_OK);
    CHECK(pthread_create(&ids[i], NULL, run, t) == 0);
  }
  for (int i = 0; i < THREADS; i++) CHECK(pthread_join(ids[i], NULL) == 0);
  CHECK(atomic_load(&violations) == 0);
  CHECK(process.agent_count == 0);
  for (int i = 0; i < MANAGERS; i++) {
    CHECK(request_count(managers[i]) == 0 && name_count(managers[i]) == 0);
    wlk_manager_close(managers[i]);
  }
  CHECK(live_blocks() == 0);
  printf(
      "# %ld grants, %ld aborts, %ld steals, %ld waits, %ld agents ended early\n",
      atomic_load(&grants), atomic_load(&aborts), atomic_load(&thefts), atomic_load(&waits),
      atomic_load(&agents_made));
}

int main(int argc, char **argv)
{
  if (argc > 1) steps = strtol(argv[1], NULL, 10);
  seed = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
  printf("# seed %llu, %d threads, %ld steps each\n", (unsigned long long)seed, THREADS, steps);
  return run_tests();
}
