/* Processes with threads that lock, are killed and stopped at random, all at once sometimes.
 *
 *   torture [seconds] [processes] [threads] [seed]
 *
 * Looked for, by means that are not the library's: two that hold a name against each other (stamps in
 * shared memory of the test), one that is served before another that asked before it and has as much
 * priority (a clock of the test), one that is never told (a watchdog), and tables that are damaged.
 * When a process ends by itself, it has no more descriptors, threads and heap objects than when it
 * began; when all have ended, which they do four times, nothing is left in the tables. Prints one line
 * of counts. Names from STOLEN on are stolen at times; there only wake-ups and tables are looked at. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/host.h"
#include "../../src/host/member/records.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/verify.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 32, THREADS = 8, SLOTS = PROCESSES * THREADS, NAMES = 6, STOLEN = 4 };
enum { STUCK_MS = 30000, DIRECTORY = 64 };

/* What is seen of a thread from outside. Written by it, and by the parent when its process is dead. */
struct slot {
  _Atomic int pid;
  _Atomic uint32_t held[NAMES];  /* 0, or mode + 1 */
  _Atomic uint64_t asked[NAMES]; /* when it had asked, by `clock`, while it waits; 0: it does not */
  _Atomic int32_t priority;      /* of what it waits for */
  _Atomic uint64_t waiting_since; /* ms; 0: it does not wait */
};

struct world {
  _Atomic uint64_t clock;
  _Atomic uint64_t grants, thefts, aborts, checks;
  _Atomic uint64_t violations, overtakings, damages, failures;
  _Atomic uint64_t longest; /* wait, ms */
  _Atomic int stop;
  char directory[DIRECTORY];
  struct slot slots[SLOTS];
};

static struct world *world;

struct actor {
  struct slot *slot;
  struct wlh_bucket *bucket;
  struct wlh_agent *agent;
  struct wlk_event items[16];
  struct wlk_events events;
  pthread_mutex_t mutex;
  pthread_cond_t woken_up;
  bool woken;
  unsigned seed;
};

static uint64_t now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Whether a process is dying or dead: what it stamped means nothing any more. */
static bool is_dying(int pid)
{
  char path[64], text[512];
  (void)snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *file = fopen(path, "re");
  if (!file) return true;
  size_t size = fread(text, 1, sizeof text - 1, file);
  (void)fclose(file);
  text[size] = '\0';
  char *end = strrchr(text, ')');
  char state;
  unsigned flags;
  if (!end || sscanf(end + 1, " %c %*d %*d %*d %*d %*d %u", &state, &flags) != 2) return true;
  return state == 'Z' || state == 'X' || (flags & 4) != 0; /* PF_EXITING */
}

/* ---- what is left ---- */

static _Atomic long objects; /* of the heap, by the linker's wrappers (processes.mk) */

#define WRAP_ALLOCATION(name, parameters, arguments)                                               \
  void *__real_##name parameters;                                                                  \
  void *__wrap_##name parameters;                                                                  \
  void *__wrap_##name parameters                                                                   \
  {                                                                                                \
    void *made = __real_##name arguments;                                                          \
    objects += made != NULL;                                                                       \
    return made;                                                                                   \
  }

WRAP_ALLOCATION(malloc, (size_t size), (size))
WRAP_ALLOCATION(calloc, (size_t count, size_t size), (count, size))

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
  void *made = __real_realloc(memory, size);
  objects += made && !memory;
  return made;
}

void __real_free(void *memory);
void __wrap_free(void *memory);
void __wrap_free(void *memory)
{
  objects -= memory != NULL;
  __real_free(memory);
}

static int count_in(const char *path)
{
  int count = 0;
  DIR *open = opendir(path);
  while (open && readdir(open)) count++;
  if (open) (void)closedir(open);
  return count;
}

struct belongings {
  int descriptors, threads;
  long objects;
};

static struct belongings count_belongings(void)
{
  return (struct belongings){count_in("/proc/self/fd"), count_in("/proc/self/task"), objects};
}

/* Whether this process has come back to what it had. The helper goes on for a moment. */
static bool has_left_nothing(const struct belongings *before)
{
  struct belongings now = {0, 0, 0};
  for (uint64_t end = now_ms() + STUCK_MS; now_ms() < end; (void)usleep(1000)) {
    now = count_belongings();
    if (now.descriptors == before->descriptors && now.threads == before->threads &&
        now.objects == before->objects)
      return true;
  }
  (void)fprintf(
      stderr, "left: %d descriptors, %d threads, %ld objects\n",
      now.descriptors - before->descriptors, now.threads - before->threads,
      now.objects - before->objects);
  return false;
}

/* ---- what is checked ---- */

static void check_alone(struct actor *actor, int name, uint32_t mode)
{
  for (int i = 0; i < SLOTS; i++) {
    struct slot *other = &world->slots[i];
    uint32_t held = atomic_load(&other->held[name]);
    if (other == actor->slot || held == 0 || (held == WLK_SHARED + 1 && mode == WLK_SHARED)) {
      continue;
    }
    int pid = atomic_load(&other->pid);
    if (pid == 0 || is_dying(pid) || atomic_load(&other->held[name]) == 0) continue;
    (void)fprintf(stderr, "name %d: %d holds it, and so does %d\n", name, (int)getpid(), pid);
    (void)atomic_fetch_add(&world->violations, 1);
  }
}

/* Who had asked before we began to ask, for no less priority, is served before us. */
static void check_order(struct actor *actor, int name, int32_t priority, uint64_t began)
{
  for (int i = 0; i < SLOTS; i++) {
    struct slot *other = &world->slots[i];
    uint64_t asked = atomic_load(&other->asked[name]);
    if (other == actor->slot || asked == 0 || asked > began) continue;
    if (atomic_load(&other->priority) < priority) continue;
    int pid = atomic_load(&other->pid);
    if (pid == 0 || is_dying(pid) || atomic_load(&other->asked[name]) != asked) continue;
    (void)fprintf(stderr, "name %d: %d overtook %d\n", name, (int)getpid(), pid);
    (void)atomic_fetch_add(&world->overtakings, 1);
  }
}

static void check_tables(struct actor *actor)
{
  if (!wlh_try_enter(actor->bucket, NULL)) return;
  const char *broken = wlh_cells_check(&actor->bucket->arena);
  if (broken) {
    (void)fprintf(stderr, "tables: %s\n", broken);
    (void)atomic_fetch_add(&world->damages, 1);
  }
  (void)atomic_fetch_add(&world->checks, 1);
  wlh_leave(actor->bucket);
}

/* ---- a thread ---- */

static void wake(void *data)
{
  struct actor *actor = data;
  (void)pthread_mutex_lock(&actor->mutex);
  actor->woken = true;
  (void)pthread_cond_signal(&actor->woken_up);
  (void)pthread_mutex_unlock(&actor->mutex);
}

/* Nobody touches the files here. */
static void look_for_loss(struct actor *actor, uint32_t news)
{
  char why[1500];
  if (!(news & (WLH_NEWS_LOST | WLH_NEWS_FAILED))) return;
  wlh_bucket_get_failure(actor->bucket, why, sizeof why);
  (void)fprintf(stderr, "%d: lost: %s\n", (int)getpid(), why);
  (void)atomic_fetch_add(&world->failures, 1);
}

/* Takes events into `news`, waiting for them if `milliseconds` says so. All are about the one
 * request that there is, but for those of a call that has just been made. */
static uint32_t next_news(struct actor *actor, unsigned milliseconds)
{
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += (long)(milliseconds % 1000) * 1000000;
  if (until.tv_nsec >= 1000000000) {
    until.tv_sec++;
    until.tv_nsec -= 1000000000;
  }
  (void)pthread_mutex_lock(&actor->mutex);
  while (!actor->woken && pthread_cond_timedwait(&actor->woken_up, &actor->mutex, &until) == 0) {
  }
  bool woken = actor->woken;
  actor->woken = false;
  (void)pthread_mutex_unlock(&actor->mutex);
  uint32_t news = 0;
  if (!woken) return 0;
  wlh_agent_take_events(actor->agent, true, &actor->events);
  for (size_t i = 0; i < actor->events.count; i++) news |= actor->items[i].news;
  look_for_loss(actor, news);
  return news;
}

static uint32_t news_of_call(const struct actor *actor)
{
  uint32_t news = 0;
  for (size_t i = 0; i < actor->events.count; i++) news |= actor->items[i].news;
  return news;
}

static void failed(const char *what, uint32_t news)
{
  (void)fprintf(stderr, "%d: %s, news %u\n", (int)getpid(), what, news);
  (void)atomic_fetch_add(&world->failures, 1);
}

static void give_back(struct actor *actor, struct wlh_request *request, bool stolen_at_times)
{
  enum wlh_status status = wlh_release_the_lock(request, &actor->events);
  uint32_t news = news_of_call(actor);
  if (status != WLH_PENDING) {
    if (status != WLH_OK && !(stolen_at_times && status == WLH_STOLEN)) {
      failed("release", status);
    }
    return;
  }
  atomic_store(&actor->slot->waiting_since, now_ms());
  while (!(news & (WLH_NEWS_RELEASED | WLK_NEWS_STOLEN | WLH_NEWS_LOST))) {
    news = next_news(actor, 1000);
  }
  atomic_store(&actor->slot->waiting_since, 0);
}

static void hold(struct actor *actor, struct wlh_request *request, int name, uint32_t mode)
{
  struct slot *slot = actor->slot;
  (void)atomic_fetch_add(&world->grants, 1);
  if (name < STOLEN) {
    atomic_store(&slot->held[name], mode + 1);
    check_alone(actor, name, mode);
  }
  if (rand_r(&actor->seed) % 4 == 0) (void)usleep((unsigned)rand_r(&actor->seed) % 300);
  if (rand_r(&actor->seed) % 64 == 0) check_tables(actor);
  atomic_store(&slot->held[name], 0);
  uint32_t news = name < STOLEN ? 0 : next_news(actor, 0);
  if (news & WLK_NEWS_STOLEN) {
    (void)atomic_fetch_add(&world->thefts, 1);
    return;
  }
  if (rand_r(&actor->seed) % 16 == 0)
    wlh_end_the_request(request);
  else
    give_back(actor, request, name >= STOLEN);
}

/* Waits for the answer to a request that is pending. Returns whether it is granted. */
static bool await(struct actor *actor, struct wlh_request *request, int name, uint32_t news)
{
  struct slot *slot = actor->slot;
  bool impatient = rand_r(&actor->seed) % 8 == 0;
  uint64_t began = now_ms();
  atomic_store(&slot->waiting_since, began);
  while (news == 0) {
    news = next_news(actor, impatient ? (unsigned)rand_r(&actor->seed) % 3 : 1000);
    if (news != 0 || !impatient) continue;
    /* Who gives up is not served any more. */
    atomic_store(&slot->asked[name], 0);
    (void)atomic_fetch_add(&world->aborts, 1);
    enum wlh_status status = wlh_abort_the_request(request, &actor->events);
    atomic_store(&slot->waiting_since, 0);
    if (status == WLH_GRANTED) wlh_end_the_request(request);
    return false;
  }
  uint64_t took = now_ms() - began;
  atomic_store(&slot->waiting_since, 0);
  uint64_t longest = atomic_load(&world->longest);
  while (took > longest && !atomic_compare_exchange_weak(&world->longest, &longest, took)) {
  }
  if (news & (WLK_NEWS_STOLEN | WLK_NEWS_PASSED)) return false;
  if (news & WLH_NEWS_NOT_AVAILABLE) return false;
  if (!(news & WLK_NEWS_GRANTED)) failed("an answer", news);
  return (news & WLK_NEWS_GRANTED) != 0;
}

static void one_request(struct actor *actor)
{
  struct slot *slot = actor->slot;
  struct wlh_request *request;
  int name = rand_r(&actor->seed) % NAMES;
  uint16_t text[] = {'n', (uint16_t)('0' + name)};
  uint32_t mode = rand_r(&actor->seed) % 3 == 0 ? WLK_SHARED : WLK_EXCLUSIVE;
  enum wlk_option option = WLK_WAIT;
  if (rand_r(&actor->seed) % 10 == 0) option = WLK_IF_AVAILABLE;
  if (rand_r(&actor->seed) % 10 == 0) option = WLK_PASS;
  if (name >= STOLEN && rand_r(&actor->seed) % 5 == 0) {
    option = WLK_STEAL;
    mode = WLK_EXCLUSIVE;
  }
  struct wlk_extra extra = {.priority = 0};
  if (option != WLK_STEAL && rand_r(&actor->seed) % 4 == 0)
    extra.priority = rand_r(&actor->seed) % 3 - 1;
  uint64_t began = atomic_fetch_add(&world->clock, 1);
  enum wlh_status status =
      wlh_request_a_lock(actor->agent, text, 2, mode, option, 1, &extra, &request, &actor->events);
  uint32_t news = news_of_call(actor);
  if (status == WLH_PENDING) {
    /* What was put off is in the queue some time later. */
    wlk_mutex_lock(&actor->bucket->qmu);
    bool waits = request->state == WLH_WAITING;
    wlk_mutex_unlock(&actor->bucket->qmu);
    atomic_store(&slot->priority, extra.priority);
    /* Who passes hears of it when others are served already. */
    if (waits && name < STOLEN && option != WLK_PASS)
      atomic_store(&slot->asked[name], atomic_fetch_add(&world->clock, 1));
    bool granted = await(actor, request, name, news);
    atomic_store(&slot->asked[name], 0);
    if (!granted) return;
  } else if (status != WLH_GRANTED) {
    bool passed = status == WLH_OK && option == WLK_PASS;
    if (status != WLH_NOT_AVAILABLE && !passed) failed("a request", status);
    return;
  }
  if (name < STOLEN && mode == WLK_EXCLUSIVE && option == WLK_WAIT) {
    check_order(actor, name, extra.priority, began);
  }
  hold(actor, request, name, mode);
}

static void make_agent(struct actor *actor)
{
  struct wlk_thread thread = {(uint32_t)(actor->slot - world->slots) + 1, NULL, 0};
  actor->woken = false;
  while (wlh_agent_create(actor->bucket, &thread, wake, actor, &actor->agent) != WLH_OK) {
  }
}

static void *run(void *data)
{
  struct actor *actor = data;
  make_agent(actor);
  while (!atomic_load(&world->stop)) {
    one_request(actor);
    if (rand_r(&actor->seed) % 500 == 0) {
      wlh_agent_terminate(actor->agent);
      make_agent(actor);
    }
    if (rand_r(&actor->seed) % 3000 == 0) break;
  }
  wlh_agent_terminate(actor->agent);
  return NULL;
}

static int work(int process, int threads, unsigned seed)
{
  static struct actor actors[THREADS];
  pthread_t natives[THREADS];
  struct belongings before = count_belongings();
  for (int i = 0; i < threads; i++) {
    struct actor *actor = &actors[i];
    uint16_t name = 'b';
    actor->slot = &world->slots[process * THREADS + i];
    actor->events.items = actor->items;
    actor->events.capacity = 16;
    actor->seed = seed * 31 + (unsigned)i;
    (void)pthread_mutex_init(&actor->mutex, NULL);
    (void)pthread_cond_init(&actor->woken_up, NULL);
    atomic_store(&actor->slot->pid, (int)getpid());
    if (wlh_bucket_open(world->directory, &name, 1, "1.2.3", &actor->bucket) != WLH_OK) return 1;
  }
  for (int i = 0; i < threads; i++) {
    if (pthread_create(&natives[i], NULL, run, &actors[i]) != 0) return 1;
  }
  for (int i = 0; i < threads; i++) (void)pthread_join(natives[i], NULL);
  for (int i = 0; i < threads; i++) wlh_bucket_close(actors[i].bucket);
  return has_left_nothing(&before) ? 0 : 1;
}

/* Opens the bucket when all have ended. Whether nothing but its own agent is in the tables. */
static int look(void)
{
  static struct actor actor;
  struct slot slot;
  struct wlh_snapshot *snapshot;
  uint16_t name = 'b';
  uint32_t left = 0;
  actor.slot = &slot;
  actor.events = (struct wlk_events){.items = actor.items, .capacity = 16};
  (void)pthread_mutex_init(&actor.mutex, NULL);
  (void)pthread_cond_init(&actor.woken_up, NULL);
  if (wlh_bucket_open(world->directory, &name, 1, "1.2.3", &actor.bucket) != WLH_OK) return 1;
  make_agent(&actor);
  (void)wlh_start_snapshot(actor.agent, NULL, UINT32_MAX, true, 1); /* which buries the dead */
  while (!(next_news(&actor, 1000) & WLH_NEWS_SNAPSHOT)) {
  }
  if (wlh_fetch_snapshot(actor.agent, 1, &snapshot) != WLH_OK) return 1;
  left += (uint32_t)snapshot->base.lock_count;
  wlh_snapshot_free(snapshot);
  while (!wlh_try_enter(actor.bucket, NULL)) {
  }
  const struct wlh_segment *segment = actor.bucket->arena.segment;
  for (uint32_t i = 1; i < segment->header.ncells; i++)
    left += segment->cells[i].kind != WLH_KIND_FREE &&
            segment->cells[i].agent.member != actor.bucket->arena.member;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++)
    left += segment->members[i].state == WLH_MEMBER_IN && i != actor.bucket->arena.member;
  const char *broken = wlh_cells_check(&actor.bucket->arena);
  wlh_leave(actor.bucket);
  if (left > 0 || broken)
    (void)fprintf(stderr, "%u are left in the tables; %s\n", left, broken ? broken : "");
  wlh_agent_terminate(actor.agent);
  wlh_bucket_close(actor.bucket);
  return left > 0 || broken;
}

/* ---- the parent ---- */

static pid_t pids[PROCESSES];
static char *self;

/* A process that ended by itself. */
static void note_end(int status)
{
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 0) return;
  (void)atomic_fetch_add(&world->failures, 1);
}

static void start(int process, int threads, unsigned seed)
{
  char arguments[3][16];
  for (int i = 0; i < THREADS; i++) {
    struct slot *slot = &world->slots[process * THREADS + i];
    atomic_store(&slot->pid, 0);
    for (int j = 0; j < NAMES; j++) {
      atomic_store(&slot->held[j], 0);
      atomic_store(&slot->asked[j], 0);
    }
    atomic_store(&slot->waiting_since, 0);
  }
  (void)snprintf(arguments[0], 16, "%d", process);
  (void)snprintf(arguments[1], 16, "%d", threads);
  (void)snprintf(arguments[2], 16, "%u", seed);
  pid_t pid = fork();
  if (pid == 0) {
    (void)execl(
        self, self, "work", world->directory, arguments[0], arguments[1], arguments[2],
        (char *)NULL);
    _exit(127);
  }
  pids[process] = pid;
}

static void reap(int process)
{
  while (waitpid(pids[process], NULL, 0) < 0 && errno == EINTR) {
  }
}

static bool is_stuck(void)
{
  uint64_t now = now_ms();
  for (int i = 0; i < SLOTS; i++) {
    uint64_t since = atomic_load(&world->slots[i].waiting_since);
    if (since == 0 || now < since || now - since < STUCK_MS) continue;
    (void)fprintf(
        stderr, "slot %d, process %d waits since %u ms\n", i, atomic_load(&world->slots[i].pid),
        (unsigned)(now - since));
    return true;
  }
  return false;
}

static bool map_world(const char *directory)
{
  char path[DIRECTORY + 16];
  (void)snprintf(path, sizeof path, "%s/world", directory);
  FILE *file = fopen(path, "a+e");
  if (!file || ftruncate(fileno(file), sizeof *world) != 0) return false;
  world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
  (void)fclose(file);
  return world != MAP_FAILED;
}

static void kill_one(int process, int threads, unsigned *seed)
{
  (void)kill(pids[process], SIGKILL);
  if (rand_r(seed) % 2)
    reap(process);
  else
    (void)waitpid(pids[process], NULL, WNOHANG | WNOWAIT);
  reap(process);
  start(process, threads, (unsigned)rand_r(seed));
}

/* What the parent did. */
static uint64_t kills, stops, ends;

static void harass(int processes, int threads, unsigned *seed)
{
  int status, process = rand_r(seed) % processes;
  int what = rand_r(seed) % 100;
  (void)usleep((unsigned)rand_r(seed) % 8000);
  if (waitpid(pids[process], &status, WNOHANG) == pids[process]) {
    ends++;
    note_end(status);
    start(process, threads, (unsigned)rand_r(seed));
  } else if (what < 40) {
    kill_one(process, threads, seed);
    kills++;
  } else if (what < 42) {
    for (int i = 0; i < processes; i++) (void)kill(pids[i], SIGKILL);
    for (int i = 0; i < processes; i++) kill_one(i, threads, seed);
    kills += (uint64_t)processes;
  } else if (what < 70) {
    (void)kill(pids[process], SIGSTOP);
    (void)usleep((unsigned)rand_r(seed) % 20000);
    if (rand_r(seed) % 3 == 0) (void)kill(pids[process], SIGKILL);
    (void)kill(pids[process], SIGCONT);
    stops++;
  }
}

/* Has all end by themselves. Returns whether one did not. */
static bool end_all(int processes)
{
  int left = processes;
  atomic_store(&world->stop, 1);
  for (uint64_t end = now_ms() + STUCK_MS; now_ms() < end && left > 0; (void)usleep(1000))
    for (int i = 0; i < processes; i++) {
      int status;
      if (pids[i] <= 0 || waitpid(pids[i], &status, WNOHANG) != pids[i]) continue;
      note_end(status);
      pids[i] = 0;
      left--;
    }
  for (int i = 0; i < processes; i++) {
    if (pids[i] <= 0) continue;
    (void)kill(pids[i], SIGKILL);
    reap(i);
  }
  return left > 0;
}

static void look_at_the_rest(void)
{
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) {
    (void)execl(self, self, "look", world->directory, (char *)NULL);
    _exit(127);
  }
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  note_end(status);
}

/* Returns whether somebody waits for ever. */
static bool play_round(int processes, int threads, uint64_t until, unsigned *seed)
{
  bool stuck = false;
  atomic_store(&world->stop, 0);
  for (int i = 0; i < processes; i++) start(i, threads, (unsigned)rand_r(seed));
  while (now_ms() < until && !stuck) {
    harass(processes, threads, seed);
    stuck = is_stuck();
  }
  if (stuck && getenv("TORTURE_WAIT")) (void)pause();
  stuck = end_all(processes) || stuck;
  look_at_the_rest();
  return stuck;
}

int main(int argc, char **argv)
{
  enum { ROUNDS = 4 };
  self = argv[0];
  if (argc > 2 && strcmp(argv[1], "look") == 0) return map_world(argv[2]) ? look() : 1;
  if (argc > 5 && strcmp(argv[1], "work") == 0) {
    if (!map_world(argv[2])) return 1;
    return work(atoi(argv[3]), atoi(argv[4]), (unsigned)strtoul(argv[5], NULL, 10));
  }
  int seconds = argc > 1 ? atoi(argv[1]) : 10;
  int processes = argc > 2 ? atoi(argv[2]) : 4;
  int threads = argc > 3 ? atoi(argv[3]) : 2;
  unsigned seed = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : (unsigned)now_ms();
  char directory[DIRECTORY] = "/dev/shm/web-locks-torture-XXXXXX";
  if (processes < 1 || processes > PROCESSES || threads < 1 || threads > THREADS) return 2;
  if (!mkdtemp(directory) || !map_world(directory)) return 2;
  (void)snprintf(world->directory, DIRECTORY, "%s", directory);
  bool stuck = false;
  for (int round = 0; round < ROUNDS && !stuck; round++)
    stuck = play_round(processes, threads, now_ms() + (uint64_t)seconds * 1000 / ROUNDS, &seed);
  bool good = !stuck && world->violations == 0 && world->overtakings == 0 && world->damages == 0 &&
              world->failures == 0 && world->grants > 0;
  (void)printf(
      "%s - torture: %llu grants, %llu kills, %llu stops, %llu ends, %llu aborts, %llu thefts, "
      "%llu checks of the tables, longest wait %llu ms; %llu violations, %llu overtakings, "
      "%llu damages, %llu failures, stuck: %s\n",
      good ? "ok" : "not ok", (unsigned long long)world->grants, (unsigned long long)kills,
      (unsigned long long)stops, (unsigned long long)ends, (unsigned long long)world->aborts,
      (unsigned long long)world->thefts, (unsigned long long)world->checks,
      (unsigned long long)world->longest, (unsigned long long)world->violations,
      (unsigned long long)world->overtakings, (unsigned long long)world->damages,
      (unsigned long long)world->failures, stuck ? "yes" : "no");
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command) == 0 && good ? 0 : 1;
}
