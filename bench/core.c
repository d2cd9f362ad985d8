/* Measures the core without JavaScript, built as in the addon (one translation unit).
 *
 *   core sequential|readers|handoff COUNT    requests on one thread, in nanoseconds of its
 *                                            processor time each, with the release
 *   core queue:N|names:N COUNT               the same in bursts of N, on one name or N names
 *   core threads THREADS MILLISECONDS WORK   threads that each use a name in their own shard, and
 *                                            do WORK rounds of arithmetic before each call; 100
 *                                            take about as long as JavaScript
 *   core crowd THREADS MILLISECONDS WORK     the same, with all names in one shard
 *   core turns THREADS MILLISECONDS WORK     as threads, counting how often a mutex was taken, how
 *                                            often it was contended, and how long it was held
 *
 * To count instructions, run valgrind --tool=callgrind with two counts, and take the difference. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../src/core/all.c"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static struct wlk_process process = WLK_PROCESS_INIT;
static struct wlk_manager *manager;

static double seconds(clockid_t clock)
{
  struct timespec now;
  (void)clock_gettime(clock, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void fail(const char *what)
{
  (void)fprintf(stderr, "core: %s\n", what);
  exit(1);
}

static void wake(void *data)
{
  ++*(unsigned *)data;
}

static struct wlk_agent *new_agent(uint32_t thread, unsigned *wakes)
{
  struct wlk_thread it = {thread, NULL, 0};
  struct wlk_agent *agent = NULL;
  if (wlk_agent_create(&process, "bench-", &it, wake, wakes, &agent) != WLK_OK) fail("no agent");
  return agent;
}

/* Sets a name like those of users: 12 code units that end in a number. */
static void set_name(uint16_t name[12], size_t number)
{
  for (int i = 0; i < 12; i++) name[i] = (uint16_t) "resource-000"[i];
  for (int i = 11; number > 0; i--, number /= 10) name[i] = (uint16_t)('0' + number % 10);
}

static struct wlk_request *ask_for(
    struct wlk_agent *agent, const uint16_t *name, enum wlk_mode mode, uint32_t tag,
    enum wlk_status expected)
{
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  struct wlk_request *request = NULL;
  enum wlk_status status = wlk_request_a_lock(
      agent, manager, name, 12, mode, WLK_WAIT, tag, NULL, &request, NULL, &events);
  if (status != expected) fail("a request was answered otherwise");
  return request;
}

static void let_go(struct wlk_request *lock)
{
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  if (wlk_release_the_lock(lock, &events) != WLK_OK) fail("a lock was not held");
}

/* ---- on one thread ---- */

static void sequential(struct wlk_agent *agent, size_t count, enum wlk_mode mode)
{
  uint16_t name[12];
  set_name(name, 1);
  for (size_t i = 0; i < count; i++) let_go(ask_for(agent, name, mode, 1, WLK_GRANTED));
}

/* Makes bursts of `burst` requests, until there were `count`. */
static void bursts(struct wlk_agent *agent, size_t count, size_t burst, bool names)
{
  struct wlk_request **requests = malloc(burst * sizeof *requests);
  if (!requests) fail("no memory");
  for (size_t done = 0; done < count; done += burst) {
    for (size_t i = 0; i < burst; i++) {
      uint16_t name[12];
      set_name(name, names ? i : 1);
      requests[i] = ask_for(
          agent, name, WLK_EXCLUSIVE, (uint32_t)i, names || i == 0 ? WLK_GRANTED : WLK_PENDING);
    }
    for (size_t i = 0; i < burst; i++) let_go(requests[i]);
  }
  free(requests);
}

/* Two agents on one thread wait for each other's lock. */
static void hand_off(struct wlk_agent *one, size_t count)
{
  unsigned wakes = 0;
  struct wlk_agent *agents[2] = {one, new_agent(2, &wakes)};
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  uint16_t name[12];
  set_name(name, 1);
  struct wlk_request *lock = ask_for(agents[0], name, WLK_EXCLUSIVE, 1, WLK_GRANTED);
  for (size_t i = 0; i < count; i++) {
    struct wlk_agent *next = agents[(i + 1) % 2];
    struct wlk_request *request = ask_for(next, name, WLK_EXCLUSIVE, 1, WLK_PENDING);
    let_go(lock);
    wlk_agent_take_events(next, true, &events);
    lock = request;
  }
  let_go(lock);
  wlk_agent_terminate(agents[1]);
}

static void on_one_thread(const char *work, size_t count)
{
  unsigned wakes = 0;
  struct wlk_agent *agent = new_agent(1, &wakes);
  double start = seconds(CLOCK_THREAD_CPUTIME_ID);
  size_t burst = strchr(work, ':') ? strtoul(strchr(work, ':') + 1, NULL, 10) : 0;
  if (burst > 0)
    bursts(agent, count, burst, work[0] == 'n');
  else if (strcmp(work, "sequential") == 0)
    sequential(agent, count, WLK_EXCLUSIVE);
  else if (strcmp(work, "readers") == 0)
    sequential(agent, count, WLK_SHARED);
  else if (strcmp(work, "handoff") == 0)
    hand_off(agent, count);
  else
    fail("no such work");
  double time = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
  printf("%-12s %9.1f ns\n", work, time * 1e9 / (double)count);
  wlk_agent_terminate(agent);
}

/* ---- counting ---- */

struct counts {
  unsigned long taken, contended;
  double held; /* seconds */
};

/* Longer than any critical section here: the thread was not running. */
#define INTERRUPTED 2e-6

static bool counting;
static _Thread_local struct counts counts;
static _Thread_local double locked_at;

/* The core calls these because of --wrap of the linker. */
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
  if (!counting) return __real_pthread_mutex_lock(mutex);
  counts.taken++;
  if (pthread_mutex_trylock(mutex) != 0) {
    counts.contended++;
    (void)__real_pthread_mutex_lock(mutex);
  }
  locked_at = seconds(CLOCK_MONOTONIC);
  return 0;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
  double held = counting ? seconds(CLOCK_MONOTONIC) - locked_at : 0;
  if (held < INTERRUPTED) counts.held += held;
  return __real_pthread_mutex_unlock(mutex);
}

/* ---- on several threads ---- */

/* Each worker has cache lines of its own. */
struct worker {
  _Alignas(128) pthread_t thread;
  uint32_t number;
  unsigned long work;
  size_t pairs;
  double cpu;  /* seconds */
  long sleeps; /* times it gave up its processor */
  struct counts counts;
};

static atomic_int ready;
static atomic_bool stop;

static uint64_t think(uint64_t x, unsigned long rounds)
{
  for (unsigned long i = 0; i < rounds; i++) x = x * UINT64_C(6364136223846793005) + 1;
  return x;
}

static bool in_one_shard;

/* Chooses a name for this worker, in the shard with its number or in the first one. */
static void choose_name(const struct worker *worker, uint16_t name[12])
{
  uint8_t shard = in_one_shard ? 0 : (uint8_t)(worker->number % WLK_SHARDS);
  size_t number = worker->number;
  do set_name(name, number += 100);
  while (wlk_shard_of(wlk_hash(process.hash_key, name, 12)) != shard);
}

static void *run_worker(void *data)
{
  struct worker *worker = data;
  unsigned wakes = 0;
  struct wlk_agent *agent = new_agent(worker->number, &wakes);
  uint16_t name[12];
  choose_name(worker, name);
  volatile uint64_t x = worker->number;
  atomic_fetch_sub(&ready, 1);
  while (atomic_load(&ready) > 0) continue;
  double start = seconds(CLOCK_THREAD_CPUTIME_ID);
  counts = (struct counts){0, 0, 0};
  size_t pairs = 0;
  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    x = think(x, worker->work);
    struct wlk_request *lock = ask_for(agent, name, WLK_EXCLUSIVE, 1, WLK_GRANTED);
    x = think(x, worker->work);
    let_go(lock);
    pairs++;
  }
  worker->pairs = pairs;
  worker->counts = counts;
  worker->cpu = seconds(CLOCK_THREAD_CPUTIME_ID) - start;
  struct rusage usage;
  if (getrusage(RUSAGE_THREAD, &usage) == 0) worker->sleeps = usage.ru_nvcsw;
  wlk_agent_terminate(agent);
  return NULL;
}

static void on_threads(int count, long milliseconds, unsigned long work)
{
  struct worker *workers = aligned_alloc(128, (size_t)count * sizeof *workers);
  if (!workers) fail("no memory");
  atomic_store(&stop, false);
  atomic_store(&ready, count);
  for (int i = 0; i < count; i++) {
    workers[i] = (struct worker){.number = (uint32_t)i + 1, .work = work};
    if (pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]) != 0) fail("no thread");
  }
  while (atomic_load(&ready) > 0) continue;
  double start = seconds(CLOCK_MONOTONIC);
  struct timespec time = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  (void)nanosleep(&time, NULL);
  atomic_store(&stop, true);
  double pairs = 0, cpu = 0, sleeps = 0, taken = 0, contended = 0, held = 0;
  for (int i = 0; i < count; i++) {
    (void)pthread_join(workers[i].thread, NULL);
    pairs += (double)workers[i].pairs;
    cpu += workers[i].cpu;
    sleeps += (double)workers[i].sleeps;
    taken += (double)workers[i].counts.taken;
    contended += (double)workers[i].counts.contended;
    held += workers[i].counts.held;
  }
  double wall = seconds(CLOCK_MONOTONIC) - start;
  printf(
      "%2d threads, work %3lu: %6.2f requests/us, %6.1f ns of processor time each, asleep %.2f "
      "times in "
      "1000\n",
      count, work, pairs / wall / 1e6, cpu * 1e9 / pairs, sleeps * 1e3 / pairs);
  if (counting)
    printf(
        "each takes %.2f mutexes, %.3f of them after another thread, for %.1f ns together\n",
        taken / pairs, contended / pairs, held * 1e9 / pairs);
  free(workers);
}

int main(int count, char **arguments)
{
  static const uint16_t bucket[] = {'b'};
  if (wlk_manager_open(&process, bucket, 1, &manager) != WLK_OK) fail("no manager");
  if (count == 3) {
    on_one_thread(arguments[1], strtoul(arguments[2], NULL, 10));
  } else if (count == 5) {
    counting = strcmp(arguments[1], "turns") == 0;
    in_one_shard = strcmp(arguments[1], "crowd") == 0;
    long milliseconds = strtol(arguments[3], NULL, 10);
    on_threads(atoi(arguments[2]), milliseconds, strtoul(arguments[4], NULL, 10));
    counting = false;
  } else {
    fail("see the head of core.c");
  }
  wlk_manager_close(manager);
  return 0;
}
