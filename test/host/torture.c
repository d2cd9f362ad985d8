/* Stress test: processes whose threads lock at random, and that are killed and stopped at random,
 * sometimes all at once.
 *
 *   torture [seconds] [processes] [threads] [seed]
 *
 * It judges by stamps and a clock in shared memory of its own: no two locks of a name conflict, no
 * request overtakes an earlier one of the same or a higher priority, every request is answered, and
 * the tables stay intact. A process that ends on its own must have as many descriptors and threads
 * as at its start. All processes end four times; then the tables must be empty. Names from STOLEN
 * on are stolen at times: for these it only judges answers and tables. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/host.h"
#include "../../src/host/member/records.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/verify.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PROCESSES = 32, THREADS = 8, SLOTS = PROCESSES * THREADS, NAMES = 6, STOLEN = 4 };
enum { STUCK_MS = 30000 };

/* A thread as other processes see it. The thread writes it, or the parent once the process
 * is dead. */
struct slot {
  _Atomic int pid;
  _Atomic uint32_t held[NAMES];   /* 0, or mode + 1 */
  _Atomic uint64_t asked[NAMES];  /* the `clock` at which it had asked; 0 if it does not wait */
  _Atomic int32_t priority;       /* of the request that waits */
  _Atomic uint64_t waiting_since; /* ms; 0 if it does not wait */
};

struct world {
  _Atomic uint64_t clock;
  _Atomic uint64_t grants, failures;
  _Atomic int stop;
  struct slot slots[SLOTS];
};

static struct world *world;
static char directory[] = "/dev/shm/web-locks-torture-XXXXXX";

struct actor {
  struct slot *slot;
  struct wlh_bucket *bucket;
  struct wlh_agent *agent;
  struct wlk_event items[16];
  struct wlk_events events;
  int woken; /* an eventfd */
  int heard; /* from wlh_agent_listen, or -1 */
  unsigned seed;
  int stay; /* after about so many requests, it closes the bucket and opens it again */
};

static uint64_t now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Whether a process is dying or dead, so that its stamps are no longer valid. */
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

static int count_in(const char *path)
{
  int count = 0;
  DIR *open = opendir(path);
  while (open && readdir(open)) count++;
  if (open) (void)closedir(open);
  return count;
}

/* Waits until this process has as many descriptors and threads: the helper ends a moment later. */
static bool has_again(int descriptors, int threads)
{
  for (uint64_t end = now_ms() + STUCK_MS; now_ms() < end; (void)usleep(1000))
    if (count_in("/proc/self/fd") == descriptors && count_in("/proc/self/task") == threads)
      return true;
  return false;
}

static void failed(const char *what, long detail)
{
  (void)fprintf(stderr, "%d: %s: %ld\n", (int)getpid(), what, detail);
  (void)atomic_fetch_add(&world->failures, 1);
}

/* ---- what is checked ---- */

/* AddressSanitizer calls this before its report, during which the process may be killed. */
void __asan_on_error(void);
void __asan_on_error(void)
{
  failed("an error of memory", getpid());
}

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
    failed("holds a name together with process", pid);
  }
}

/* A request that was made before ours, with the same or a higher priority, must be served first. */
static void check_order(struct actor *actor, int name, int32_t priority, uint64_t began)
{
  for (int i = 0; i < SLOTS; i++) {
    struct slot *other = &world->slots[i];
    uint64_t asked = atomic_load(&other->asked[name]);
    if (other == actor->slot || asked == 0 || asked > began) continue;
    if (atomic_load(&other->priority) < priority) continue;
    int pid = atomic_load(&other->pid);
    if (pid == 0 || is_dying(pid) || atomic_load(&other->asked[name]) != asked) continue;
    failed("overtook process", pid);
  }
}

static void check_woken(struct actor *actor)
{
  wlk_mutex_lock(&actor->bucket->qmu);
  bool forgotten = !wlk_list_is_empty(&actor->agent->events) && !actor->agent->woken;
  wlk_mutex_unlock(&actor->bucket->qmu);
  if (forgotten) failed("has events, and is not woken", 0);
}

static void check_tables(struct actor *actor)
{
  if (!wlh_try_enter(actor->bucket, NULL)) return;
  const char *broken = wlh_cells_check(&actor->bucket->arena);
  if (broken) failed(broken, 0);
  wlh_leave(actor->bucket);
}

/* ---- a thread ---- */

static void wake(void *data)
{
  uint64_t one = 1;
  if (write(((struct actor *)data)->woken, &one, sizeof one) < 0) abort();
}

static void stop_listening(struct actor *actor)
{
  if (actor->heard >= 0) (void)close(actor->heard);
  actor->heard = -1;
}

static void listen_at_times(struct actor *actor)
{
  int heard = rand_r(&actor->seed) % 4 ? wlh_agent_listen(actor->agent) : -1;
  if (heard < 0) return;
  stop_listening(actor);
  actor->heard = heard;
}

/* In this test, nothing damages or removes the files, so the bucket must not be lost. */
static void look_for_loss(struct actor *actor, uint32_t news)
{
  char why[1500];
  if (!(news & (WLH_NEWS_LOST | WLH_NEWS_FAILED))) return;
  wlh_bucket_get_failure(actor->bucket, why, sizeof why);
  failed(why, news);
}

static uint32_t news_of(const struct actor *actor)
{
  uint32_t news = 0;
  for (size_t i = 0; i < actor->events.count; i++) news |= actor->items[i].news;
  return news;
}

/* Waits for events and takes them. They are about the only request, or about a call just made. */
static uint32_t next_news(struct actor *actor, int milliseconds)
{
  uint64_t count;
  struct pollfd polls[] = {{actor->woken, POLLIN, 0}, {actor->heard, POLLIN, 0}};
  check_woken(actor);
  if (poll(polls, 2, milliseconds) <= 0) return 0;
  if (polls[1].revents && !wlh_agent_hear(actor->agent, rand_r(&actor->seed) % 16 != 0))
    stop_listening(actor);
  if (read(actor->woken, &count, sizeof count) < 0) return 0;
  wlh_agent_take_events(actor->agent, true, &actor->events);
  look_for_loss(actor, news_of(actor));
  return news_of(actor);
}

static void give_back(struct actor *actor, struct wlh_request *request, bool stolen_at_times)
{
  enum wlh_status status = wlh_release_the_lock(request, &actor->events);
  uint32_t news = news_of(actor);
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

/* Requests a name again that this thread holds, and blocks. */
static void wait_for_itself(struct actor *actor, const uint16_t text[2])
{
  struct wlh_request *again;
  enum wlh_status status = wlh_request_a_lock(
      actor->agent, text, 2, WLK_EXCLUSIVE, WLK_WAIT, 2, NULL, &again, &actor->events);
  if (status == WLH_PENDING) status = wlh_wait_for_the_lock(again, STUCK_MS, &actor->events);
  if (status != WLH_DEADLOCK) failed("waits for itself", status);
}

static void hold(
    struct actor *actor, struct wlh_request *request, int name, const uint16_t text[2],
    uint32_t mode)
{
  struct slot *slot = actor->slot;
  (void)atomic_fetch_add(&world->grants, 1);
  if (name < STOLEN) {
    atomic_store(&slot->held[name], mode + 1);
    check_alone(actor, name, mode);
  }
  if (rand_r(&actor->seed) % 4 == 0) (void)usleep((unsigned)rand_r(&actor->seed) % 300);
  if (rand_r(&actor->seed) % 64 == 0) check_tables(actor);
  if (name < STOLEN && rand_r(&actor->seed) % 64 == 0) wait_for_itself(actor, text);
  atomic_store(&slot->held[name], 0);
  uint32_t news = name < STOLEN ? 0 : next_news(actor, 0);
  if (news & WLK_NEWS_STOLEN) return;
  if (rand_r(&actor->seed) % 16 == 0)
    wlh_end_the_request(request);
  else
    give_back(actor, request, name >= STOLEN);
}

/* Blocks until a pending request is answered, or ends it at a time limit. */
static bool block(struct actor *actor, struct wlh_request *request, int name)
{
  atomic_store(&actor->slot->waiting_since, now_ms());
  uint64_t time = rand_r(&actor->seed) % 2 ? STUCK_MS : 1;
  enum wlh_status status = wlh_wait_for_the_lock(request, time, &actor->events);
  atomic_store(&actor->slot->waiting_since, 0);
  atomic_store(&actor->slot->asked[name], 0);
  if (status == WLH_PENDING) wlh_end_the_request(request);
  if (status != WLH_PENDING && status != WLH_GRANTED && status != WLH_STOLEN &&
      status != WLH_NOT_AVAILABLE && status != WLH_OK)
    failed("a request that blocks", status);
  return status == WLH_GRANTED;
}

/* Makes another request and ends it. A long name often finds no room. Returns the news. */
static uint32_t ask_meanwhile(struct actor *actor)
{
  static const uint16_t text[WLH_NAME_MOST];
  uint32_t length = rand_r(&actor->seed) % 4 ? 1 : WLH_NAME_MOST;
  struct wlh_request *other;
  enum wlh_status status = wlh_request_a_lock(
      actor->agent, text, length, WLK_EXCLUSIVE, WLK_WAIT, 3, NULL, &other, &actor->events);
  uint32_t news = news_of(actor);
  if (status == WLH_GRANTED || status == WLH_PENDING)
    wlh_end_the_request(other);
  else
    failed("another request", status);
  return news;
}

/* Waits until a pending request is answered. Returns whether it was granted. */
static bool await(struct actor *actor, struct wlh_request *request, int name, uint32_t news)
{
  struct slot *slot = actor->slot;
  bool impatient = rand_r(&actor->seed) % 8 == 0;
  atomic_store(&slot->waiting_since, now_ms());
  while (news == 0) {
    if (rand_r(&actor->seed) % 8 == 0) news = ask_meanwhile(actor);
    if (news != 0) break;
    news = next_news(actor, impatient ? rand_r(&actor->seed) % 3 : 1000);
    if (news != 0 || !impatient) continue;
    /* Others may overtake a request that is being aborted. */
    atomic_store(&slot->asked[name], 0);
    enum wlh_status status = wlh_abort_the_request(request, &actor->events);
    atomic_store(&slot->waiting_since, 0);
    if (status == WLH_GRANTED) wlh_end_the_request(request);
    return false;
  }
  atomic_store(&slot->waiting_since, 0);
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
  uint32_t news = news_of(actor);
  if (status == WLH_PENDING) {
    /* A deferred request is queued some time later. */
    wlk_mutex_lock(&actor->bucket->qmu);
    bool waits = request->state == WLH_WAITING;
    wlk_mutex_unlock(&actor->bucket->qmu);
    atomic_store(&slot->priority, extra.priority);
    listen_at_times(actor);
    /* A request that passes learns late that others were served. */
    if (waits && name < STOLEN && option != WLK_PASS)
      atomic_store(&slot->asked[name], atomic_fetch_add(&world->clock, 1));
    bool blocks = news == 0 && rand_r(&actor->seed) % 4 == 0;
    bool granted = blocks ? block(actor, request, name) : await(actor, request, name, news);
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
  hold(actor, request, name, text, mode);
}

static void enter(struct actor *actor)
{
  const uint16_t name = 'b';
  struct wlk_thread thread = {(uint32_t)(actor->slot - world->slots) + 1, NULL, 0};
  while (wlh_bucket_open(directory, &name, 1, "1.2.3", &actor->bucket) != WLH_OK) {
  }
  while (wlh_agent_create(actor->bucket, &thread, wake, actor, &actor->agent) != WLH_OK) {
  }
}

static void leave(struct actor *actor)
{
  stop_listening(actor);
  wlh_agent_terminate(actor->agent);
  wlh_bucket_close(actor->bucket);
}

static void *run(void *data)
{
  struct actor *actor = data;
  enter(actor);
  while (!atomic_load(&world->stop) && rand_r(&actor->seed) % 3000 != 0) {
    one_request(actor);
    if (rand_r(&actor->seed) % actor->stay != 0) continue;
    leave(actor);
    enter(actor);
  }
  leave(actor);
  (void)close(actor->woken);
  return NULL;
}

static void init_actor(struct actor *actor, struct slot *slot, unsigned seed)
{
  actor->slot = slot;
  actor->events = (struct wlk_events){.items = actor->items, .capacity = 16};
  actor->seed = seed;
  actor->woken = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  actor->heard = -1;
}

static void *do_nothing(void *data)
{
  return data;
}

static int work(int process, int threads, unsigned seed)
{
  static struct actor actors[THREADS];
  pthread_t natives[THREADS];
  /* With the first thread, ThreadSanitizer starts one of its own. */
  if (pthread_create(natives, NULL, do_nothing, NULL) != 0 || pthread_join(*natives, NULL) != 0)
    return 1;
  int descriptors = count_in("/proc/self/fd"), tasks = count_in("/proc/self/task");
  for (int i = 0; i < threads; i++) {
    struct slot *slot = &world->slots[process * THREADS + i];
    init_actor(&actors[i], slot, seed * 31 + (unsigned)i);
    actors[i].stay = seed / THREADS % 4 == 0 ? 1 : 300;
    atomic_store(&slot->pid, (int)getpid());
  }
  for (int i = 0; i < threads; i++)
    if (pthread_create(&natives[i], NULL, run, &actors[i]) != 0) return 1;
  for (int i = 0; i < threads; i++) (void)pthread_join(natives[i], NULL);
  return has_again(descriptors, tasks) ? 0 : 1;
}

/* Opens the bucket once all processes have ended. Fails unless only its own agent is in
 * the tables. */
static int look(void)
{
  static struct actor actor;
  struct slot slot;
  struct wlh_snapshot *snapshot;
  uint32_t left = 0;
  init_actor(&actor, &slot, 1);
  enter(&actor);
  (void)wlh_start_snapshot(actor.agent, NULL, UINT32_MAX, true, 1); /* reaps the dead */
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
  leave(&actor);
  return left > 0 || broken;
}

/* ---- the parent ---- */

static pid_t pids[PROCESSES];

/* Notes that a process ended on its own. */
static void note_end(int status)
{
  if (WIFEXITED(status) && WEXITSTATUS(status) != 0) failed("a process left something", status);
}

/* Clears the stamps of a dead process, and starts another one. */
static void start(int process, int threads, unsigned seed)
{
  memset(&world->slots[process * THREADS], 0, THREADS * sizeof *world->slots);
  pids[process] = fork();
  if (pids[process] == 0) exit(work(process, 1 + (int)(seed % (unsigned)threads), seed));
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
    failed("waits for ever: process", atomic_load(&world->slots[i].pid));
    return true;
  }
  return false;
}

static unsigned kills;

static void kill_one(int process, int threads, unsigned *seed)
{
  (void)kill(pids[process], SIGKILL);
  reap(process);
  kills++;
  start(process, threads, (unsigned)rand_r(seed));
}

static void harass(int processes, int threads, unsigned *seed)
{
  int status, process = rand_r(seed) % processes;
  int what = rand_r(seed) % 100;
  (void)usleep((unsigned)rand_r(seed) % 8000);
  if (waitpid(pids[process], &status, WNOHANG) == pids[process]) {
    note_end(status);
    start(process, threads, (unsigned)rand_r(seed));
  } else if (what < 40) {
    kill_one(process, threads, seed);
  } else if (what < 42) {
    for (int i = 0; i < processes; i++) (void)kill(pids[i], SIGKILL);
    for (int i = 0; i < processes; i++) kill_one(i, threads, seed);
  } else if (what < 70) {
    (void)kill(pids[process], SIGSTOP);
    (void)usleep((unsigned)rand_r(seed) % 20000);
    if (rand_r(seed) % 3 == 0) (void)kill(pids[process], SIGKILL);
    (void)kill(pids[process], SIGCONT);
  }
}

/* Lets all processes end on their own. Returns whether one did not. */
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
  if (pid == 0) exit(look());
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  note_end(status);
}

/* Returns whether a request was never answered. */
static bool play_round(int processes, int threads, uint64_t until, unsigned *seed)
{
  bool stuck = false;
  atomic_store(&world->stop, 0);
  for (int i = 0; i < processes; i++) start(i, threads, (unsigned)rand_r(seed));
  while (now_ms() < until && !stuck) {
    harass(processes, threads, seed);
    stuck = is_stuck();
  }
  stuck = end_all(processes) || stuck;
  look_at_the_rest();
  return stuck;
}

int main(int argc, char **argv)
{
  enum { ROUNDS = 4 };
  int seconds = argc > 1 ? atoi(argv[1]) : 10;
  int processes = argc > 2 ? atoi(argv[2]) : 4;
  int threads = argc > 3 ? atoi(argv[3]) : 2;
  unsigned seed = argc > 4 ? (unsigned)strtoul(argv[4], NULL, 10) : (unsigned)now_ms();
  if (processes < 1 || processes > PROCESSES || threads < 1 || threads > THREADS) return 2;
  if (!mkdtemp(directory)) return 2;
  world = mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (world == MAP_FAILED) return 2;
  bool stuck = false;
  for (int round = 0; round < ROUNDS && !stuck; round++)
    stuck = play_round(processes, threads, now_ms() + (uint64_t)seconds * 1000 / ROUNDS, &seed);
  bool good = !stuck && world->failures == 0 && world->grants > 0;
  (void)printf(
      "%s - torture: %llu grants, %u kills, %llu failures\n", good ? "ok" : "not ok",
      (unsigned long long)world->grants, kills, (unsigned long long)world->failures);
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command) == 0 && good ? 0 : 1;
}
