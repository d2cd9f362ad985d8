/* Death at every instruction: a victim is led through an operation one instruction after the other
 * and killed between two of them, each time at a later one. Then a survivor looks: what waits is
 * granted, every name is to be had, the tables are whole, and as many cells are free as before.
 *
 *   steps_test [stride] [operation]
 *
 * The stride is how many instructions lie between two deaths; 1 for every instruction. Operations of
 * the calling thread are stepped on that thread, what its helper does on the helper. Operations that
 * are long have a multiple of the stride, see `factor`. Where tracing is not permitted it says that it
 * was skipped. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/host.h"
#include "../../src/host/member/records.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/arena.h"
#include "../../src/host/segment/rebuild.h"
#include "../../src/host/segment/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The long name has several TEXT cells behind its RESOURCE cell, of which the last is not full. */
enum { TAGS = 8, LONGEST_S = 20, LONG_NAME = 200 };

static char directory[64] = "/dev/shm/web-locks-steps-XXXXXX";
static const char *current = "";
static long point;

static void remove_directory(void)
{
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  if (system(command) != 0) exit(2);
}

static void fail(const char *what)
{
  printf("not ok - %s, killed at instruction %ld: %s\n", current, point, what);
  remove_directory();
  exit(1);
}

/* ---- one who makes requests: the survivor, and in its own process the victim ---- */

struct actor {
  struct wlh_bucket *bucket;
  struct wlh_agent *agent;
  struct wlh_request *requests[TAGS];
  uint32_t news[TAGS]; /* of each request since it was made */
  struct wlk_event items[16];
  struct wlk_events events;
};

static struct actor actor;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t woken_up = PTHREAD_COND_INITIALIZER;
static bool woken;

static void wake(void *data)
{
  (void)data;
  (void)pthread_mutex_lock(&mutex);
  woken = true;
  (void)pthread_cond_signal(&woken_up);
  (void)pthread_mutex_unlock(&mutex);
}

static void note_events(void)
{
  for (size_t i = 0; i < actor.events.count; i++) {
    actor.news[actor.items[i].tag % TAGS] |= actor.items[i].news;
  }
  actor.events.count = 0;
}

static void await_news(uint32_t tag, uint32_t wanted, const char *what)
{
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += LONGEST_S;
  while (!(actor.news[tag] & wanted)) {
    int error = 0;
    (void)pthread_mutex_lock(&mutex);
    while (!woken && error == 0) error = pthread_cond_timedwait(&woken_up, &mutex, &until);
    woken = false;
    (void)pthread_mutex_unlock(&mutex);
    if (error == ETIMEDOUT) fail(what);
    wlh_agent_take_events(actor.agent, true, &actor.events);
    note_events();
  }
}

/* Names are ready before the first step: what is stepped is the library. */
struct name {
  uint16_t units[LONG_NAME];
  uint32_t length;
};

static const struct name n = {{'n'}, 1};
static const struct name m = {{'m'}, 1};
static const struct name k = {{'k'}, 1};                 /* marked at all times */
static const struct name long_name = {{'x'}, LONG_NAME}; /* an x, and zeros behind it */

static enum wlh_status ask_more(
    uint32_t tag, const struct name *name, enum wlk_mode mode, enum wlk_option option,
    const struct wlk_extra *extra)
{
  actor.news[tag] = 0;
  enum wlh_status status = wlh_request_a_lock(
      actor.agent, name->units, name->length, mode, option, tag, extra, &actor.requests[tag],
      &actor.events);
  note_events();
  return status;
}

static enum wlh_status ask(
    uint32_t tag, const struct name *name, enum wlk_mode mode, enum wlk_option option)
{
  return ask_more(tag, name, mode, option, NULL);
}

static void get(uint32_t tag, const struct name *name, enum wlk_mode mode)
{
  enum wlh_status status = ask(tag, name, mode, WLK_WAIT);
  if (status == WLH_PENDING)
    await_news(tag, WLK_NEWS_GRANTED, "a name is not to be had");
  else if (status != WLH_GRANTED)
    fail("a request is refused");
}

/* Queues up for sure: not only behind a turn of somebody's. */
static void queue_up_with(
    uint32_t tag, const struct name *name, enum wlk_mode mode, int32_t priority)
{
  const struct wlk_extra extra = {.priority = priority};
  if (ask_more(tag, name, mode, WLK_WAIT, &extra) != WLH_PENDING)
    fail("a request did not have to wait");
  for (bool waits = false; !waits; (void)sched_yield()) {
    wlk_mutex_lock(&actor.bucket->qmu);
    waits = actor.requests[tag]->state == WLH_WAITING;
    wlk_mutex_unlock(&actor.bucket->qmu);
  }
}

static void queue_up(uint32_t tag, const struct name *name, enum wlk_mode mode)
{
  queue_up_with(tag, name, mode, 0);
}

static void give(uint32_t tag)
{
  actor.news[tag] &= ~(uint32_t)WLH_NEWS_RELEASED;
  enum wlh_status status = wlh_release_the_lock(actor.requests[tag], &actor.events);
  note_events();
  if (status == WLH_PENDING) {
    await_news(tag, WLH_NEWS_RELEASED | WLK_NEWS_STOLEN, "a lock is not released");
  }
}

static void give_and_mark(uint32_t tag)
{
  enum wlh_status status = wlh_release_and_mark(actor.requests[tag], UINT64_MAX, &actor.events);
  note_events();
  if (status == WLH_PENDING) await_news(tag, WLH_NEWS_RELEASED, "a lock is not released");
}

static void mark(void)
{
  get(5, &k, WLK_EXCLUSIVE);
  give_and_mark(5);
}

static void enter(void)
{
  uint16_t name = 'b';
  struct wlk_thread thread = {1, NULL, 0};
  actor.events.items = actor.items;
  actor.events.capacity = 16;
  if (wlh_bucket_open(directory, &name, 1, "1.2.3", &actor.bucket) != WLH_OK) fail("open");
  if (wlh_agent_create(actor.bucket, &thread, wake, NULL, &actor.agent) != WLH_OK) fail("agent");
}

static void be_ready(void)
{
  actor.news[7] = 0;
  if (wlh_bucket_open_file(actor.agent, 7) == WLH_PENDING) {
    await_news(7, WLH_NEWS_READY, "the bucket is not opened");
  }
}

static void leave(void)
{
  wlh_agent_terminate(actor.agent);
  wlh_bucket_close(actor.bucket);
}

/* Enters the tables without the help of the helper. */
static void go_in(void)
{
  while (!wlh_try_enter(actor.bucket, NULL)) (void)sched_yield();
}

/* How many cells a request may take: some are kept for thefts. */
static uint32_t free_cells(void)
{
  go_in();
  const struct wlh_arena *arena = &actor.bucket->arena;
  uint32_t count = wlh_cells_free_count(arena) - arena->ncells / 64;
  wlh_leave(actor.bucket);
  return count;
}

/* Buries the dead, and checks all. */
static uint32_t used_cells(void)
{
  go_in();
  struct wlh_arena *arena = &actor.bucket->arena;
  (void)wlh_cells_reap(arena);
  if (arena->poisoned) fail("the tables are damaged");
  const char *broken = wlh_cells_check(arena);
  if (broken) fail(broken);
  uint32_t count = arena->ncells - wlh_cells_free_count(arena);
  wlh_leave(actor.bucket);
  return count;
}

/* ---- operations ---- */

struct operation {
  const char *title;
  void (*before)(void); /* the survivor, before the victim comes; may be NULL */
  void (*setup)(void);  /* the victim */
  void (*queue)(void);  /* the survivor, when the victim is set up; may be NULL */
  void (*step)(void);   /* the victim, stepped */
  void (*after)(void);  /* the survivor, when the victim is dead */
  bool helper;          /* whether it is the helper that is stepped */
  int factor;           /* of the stride */
};

static void nothing(void) {}

static void hold(void)
{
  get(0, &n, WLK_EXCLUSIVE);
}
static void hold_shared(void)
{
  get(0, &n, WLK_SHARED);
}
static void step_request(void)
{
  (void)ask(1, &n, WLK_EXCLUSIVE, WLK_WAIT);
}
static void step_long(void)
{
  (void)ask(1, &long_name, WLK_EXCLUSIVE, WLK_WAIT);
}
static void step_if_available(void)
{
  (void)ask(1, &n, WLK_EXCLUSIVE, WLK_IF_AVAILABLE);
}
static void step_steal(void)
{
  (void)ask(1, &n, WLK_EXCLUSIVE, WLK_STEAL);
}
static void step_release(void)
{
  give(0);
}
static void step_mark(void)
{
  give_and_mark(0);
}
static void step_end(void)
{
  wlh_end_the_request(actor.requests[0]);
}
static void step_terminate(void)
{
  wlh_agent_terminate(actor.agent);
}
static void give_held(void)
{
  give(0);
}

static void hold_marked(void)
{
  get(0, &k, WLK_EXCLUSIVE);
  if (!wlh_is_marked(actor.requests[0])) fail("the mark is gone");
}

static void queue_for_marked(void)
{
  queue_up(2, &k, WLK_EXCLUSIVE);
}

static void granted_marked(void)
{
  await_news(2, WLK_NEWS_GRANTED, "the request that waits is not granted");
  if (!wlh_is_marked(actor.requests[2])) fail("the mark is gone");
  give(2);
}

static void queue_one(void)
{
  queue_up(2, &n, WLK_EXCLUSIVE);
}

static void granted_one(void)
{
  await_news(2, WLK_NEWS_GRANTED, "the request that waits is not granted");
  give(2);
}

static void queue_three(void)
{
  for (uint32_t i = 2; i < 5; i++) queue_up(i, &n, WLK_SHARED);
}

static void granted_three(void)
{
  for (uint32_t i = 2; i < 5; i++) {
    await_news(i, WLK_NEWS_GRANTED, "a shared request that waits is not granted");
  }
  for (uint32_t i = 2; i < 5; i++) give(i);
}

/* The victim waits between two shared ones of the survivor's. */
static void victim_waits(void)
{
  queue_up(0, &n, WLK_EXCLUSIVE);
}
static void queue_shared(void)
{
  queue_up(2, &n, WLK_SHARED);
}

static void step_abort(void)
{
  (void)wlh_abort_the_request(actor.requests[0], &actor.events);
}

static void granted_shared(void)
{
  await_news(2, WLK_NEWS_GRANTED, "the request behind the aborted one is not granted");
  give(2);
  give(0);
}

/* The survivor holds it, and waits with two priorities; the victim comes in between. */
static void hold_and_queue(void)
{
  hold();
  queue_up_with(2, &n, WLK_EXCLUSIVE, 2);
  queue_up_with(3, &n, WLK_EXCLUSIVE, -2);
  queue_up_with(4, &n, WLK_EXCLUSIVE, 2);
}

static void step_request_between(void)
{
  const struct wlk_extra extra = {.priority = 1};
  (void)ask_more(1, &n, WLK_EXCLUSIVE, WLK_WAIT, &extra);
}

static void victim_waits_ahead(void)
{
  queue_up_with(0, &n, WLK_EXCLUSIVE, 5);
}

static void granted_by_priority(void)
{
  static const uint32_t order[] = {0, 2, 4, 3};
  for (int i = 1; i < 4; i++) {
    for (int j = i; j < 4; j++)
      if (actor.news[order[j]] != 0) fail("a request is granted too early");
    give(order[i - 1]);
    await_news(order[i], WLK_NEWS_GRANTED, "a request is not granted by its priority");
  }
  give(order[3]);
}

static void perhaps_stolen(void)
{
  /* Either it was stolen, and we are told, or it is still ours. */
  wlh_agent_take_events(actor.agent, false, &actor.events);
  note_events();
  if (!(actor.news[0] & WLK_NEWS_STOLEN)) give(0);
}

static void step_open(void)
{
  enter();
  be_ready();
}

/* ---- the tables made anew, and enlarged ---- */

/* Another process, which holds the name, a shared lock and a long name, and dies: with `inside` where
 * no other can enter before it has made the tables anew. */
static int play_prey(bool inside)
{
  enter();
  be_ready();
  get(0, &n, WLK_EXCLUSIVE);
  get(1, &m, WLK_SHARED);
  get(2, &long_name, WLK_EXCLUSIVE);
  if (inside) go_in();
  return raise(SIGKILL);
}

static void let_die(const char *how)
{
  int status;
  pid_t pid = fork();
  if (pid == 0) {
    (void)execl("/proc/self/exe", "steps_test", "prey", directory, how, (char *)NULL);
    _exit(127);
  }
  if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status)) fail("a holder did not die");
}

static void see_death(void)
{
  let_die("outside");
}

static void see_death_inside(void)
{
  let_die("inside");
}

static void step_get(void)
{
  get(1, &n, WLK_EXCLUSIVE);
}

/* A member that stays would keep the file as large as it has become. */
static void begin_small(void)
{
  leave();
  remove_directory();
  if (mkdir(directory, 0700) != 0) fail("mkdir");
  enter();
  be_ready();
  get(5, &n, WLK_EXCLUSIVE);
  give(5);
  mark();
}

/* Has locks use up the cells but one, which the survivor's request takes: as few as there can be, by
 * the labels they have. */
static void fill_up(void)
{
  static const uint16_t zeros[WLH_LABEL_MOST];
  for (uint32_t free = free_cells(); free > 1; free = free_cells()) {
    uint32_t units = (free - 2) * WLH_TEXT_UNITS;
    bool plenty =
        free > WLH_LABEL_MOST / WLH_TEXT_UNITS + 5; /* a name and an agent may come first */
    struct wlk_extra extra = {.label = zeros, .label_length = plenty ? WLH_LABEL_MOST : units};
    if (ask_more(0, &n, WLK_SHARED, WLK_WAIT, &extra) != WLH_GRANTED) fail("it does not fit");
  }
}

static void publish(uint32_t units)
{
  static const uint16_t text[200] = {'"'};
  enum wlh_status status = wlh_publish(actor.requests[0], text, units, &actor.events);
  note_events();
  if (status != WLH_OK && status != WLH_PENDING) fail("it was not published");
}

static void hold_and_publish(void)
{
  hold();
  publish(150);
}

static void step_publish(void)
{
  publish(100);
}

static void step_get_other(void)
{
  get(1, &m, WLK_EXCLUSIVE);
}

static const struct operation operations[] = {
    {"a request for a new name", NULL, nothing, NULL, step_request, nothing, false, 1},
    {"a request for a long name", NULL, nothing, NULL, step_long, nothing, false, 1},
    {"a request that has to wait", hold, nothing, NULL, step_request, give_held, false, 1},
    {"a release that hands the lock over", NULL, hold, queue_one, step_release, granted_one, false,
     1},
    {"a release to three", NULL, hold, queue_three, step_release, granted_three, false, 1},
    {"a release that marks", NULL, hold_marked, queue_for_marked, step_mark, granted_marked, false,
     1},
    {"publishing", NULL, hold, queue_one, step_publish, granted_one, false, 1},
    {"publishing something else", NULL, hold_and_publish, queue_one, step_publish, granted_one,
     false, 1},
    {"the end of a lock", NULL, hold, queue_one, step_end, granted_one, false, 1},
    {"an abort", hold_shared, victim_waits, queue_shared, step_abort, granted_shared, false, 1},
    {"a request that gets ahead", hold_and_queue, nothing, NULL, step_request_between,
     granted_by_priority, false, 1},
    {"an abort of who is ahead", hold_and_queue, victim_waits_ahead, NULL, step_abort,
     granted_by_priority, false, 1},
    {"a theft", hold, nothing, NULL, step_steal, perhaps_stolen, false, 1},
    {"a request that is not available", hold, nothing, NULL, step_if_available, give_held, false,
     1},
    {"a termination", NULL, hold, queue_one, step_terminate, granted_one, false, 1},
    {"opening", hold, NULL, NULL, step_open, give_held, true, 20},
    {"closing", NULL, hold, queue_one, leave, granted_one, true, 20},
    {"a repair by who finds a dead holder", NULL, see_death, NULL, step_if_available, nothing,
     false, 3},
    {"a repair of torn tables", NULL, see_death_inside, NULL, step_get, nothing, true, 20},
    {"growth", begin_small, fill_up, queue_one, step_get_other, granted_one, true, 40}};

/* ---- the victim ---- */

static void say(char c)
{
  if (write(1, &c, 1) != 1) _exit(3);
}

static void hear(void)
{
  char c;
  if (read(0, &c, 1) != 1) _exit(3);
}

static int play_victim(const struct operation *operation)
{
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (operation->setup) {
    enter();
    be_ready();
    operation->setup();
  }
  say('r');
  hear();
  if (!operation->helper) (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  (void)raise(SIGSTOP);
  operation->step();
  (void)raise(SIGSTOP);
  (void)pause();
  return 0;
}

/* ---- the parent, who is the survivor ---- */

struct victim {
  pid_t pid;
  int in;
  int out;
};

static void start(struct victim *victim, int operation)
{
  int in[2], out[2];
  char number[16];
  (void)snprintf(number, sizeof number, "%d", operation);
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) fail("pipe");
  victim->pid = fork();
  if (victim->pid == 0) {
    (void)dup2(in[0], 0);
    (void)dup2(out[1], 1);
    (void)execl("/proc/self/exe", "steps_test", "victim", directory, number, (char *)NULL);
    _exit(127);
  }
  (void)close(in[0]);
  (void)close(out[1]);
  victim->in = in[1];
  victim->out = out[0];
  char c;
  if (read(victim->out, &c, 1) != 1) fail("the victim does not come");
}

static void bury(struct victim *victim)
{
  int status = 0;
  (void)kill(victim->pid, SIGKILL);
  /* Its threads that are traced must be reaped before it is. */
  for (pid_t who = 0; who != victim->pid || WIFSTOPPED(status);) {
    who = waitpid(-1, &status, __WALL);
    if (who < 0) break;
  }
  (void)close(victim->in);
  (void)close(victim->out);
}

/* Waits until the thread has made its step. False if it ended, or if the caller (another thread, or
 * the same) stopped itself: the operation is over. */
static bool has_stepped(pid_t thread, pid_t caller)
{
  int status;
  for (;;) {
    pid_t who = waitpid(-1, &status, __WALL);
    if (who < 0 || (who == thread && !WIFSTOPPED(status))) return false;
    if (who == thread && WSTOPSIG(status) == SIGTRAP) return true;
    if (who == caller && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP) return false;
    if (who == caller && WIFSTOPPED(status))
      (void)ptrace(PTRACE_CONT, caller, NULL, NULL);
    else if (who == thread)
      (void)ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL);
  }
}

/* Steps `steps` instructions. Returns whether it got so far: else the operation is over. */
static bool step(pid_t thread, pid_t caller, long steps, bool *permitted)
{
  for (long i = 0; i < steps; i++) {
    if (ptrace(PTRACE_SINGLESTEP, thread, NULL, NULL) != 0) {
      *permitted = errno == ESRCH;
      return false;
    }
    if (!has_stepped(thread, caller)) return false;
  }
  return true;
}

static bool step_caller(struct victim *victim, long steps, bool *permitted)
{
  int status;
  if (write(victim->in, "g", 1) != 1) fail("pipe");
  if (waitpid(victim->pid, &status, WUNTRACED | __WALL) != victim->pid || !WIFSTOPPED(status)) {
    fail("the victim did not stop");
  }
  return step(victim->pid, victim->pid, steps, permitted);
}

/* The other thread of the victim; 0 if it has none. */
static pid_t other_thread(pid_t pid)
{
  char path[64];
  pid_t found = 0;
  (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  struct dirent *entry;
  while (tasks && (entry = readdir(tasks))) {
    int thread = atoi(entry->d_name);
    if (thread > 0 && thread != pid) found = thread;
  }
  if (tasks) (void)closedir(tasks);
  return found;
}

/* Steps the helper: one that is there, or one that comes. */
static bool step_helper(struct victim *victim, long steps, bool *permitted)
{
  int status;
  pid_t pid = victim->pid;
  pid_t helper = other_thread(pid);
  if (ptrace(PTRACE_SEIZE, pid, NULL, PTRACE_O_TRACECLONE) != 0) {
    *permitted = false;
    return false;
  }
  if (helper != 0) {
    if (ptrace(PTRACE_SEIZE, helper, NULL, NULL) != 0) fail("seize");
    if (ptrace(PTRACE_INTERRUPT, helper, NULL, NULL) != 0) fail("interrupt");
    if (waitpid(helper, &status, __WALL) != helper) fail("the helper did not stop");
  }
  if (write(victim->in, "g", 1) != 1) fail("pipe");
  for (bool started = false;;) { /* until the caller has stopped itself, is let go on, and clones */
    if (waitpid(pid, &status, __WALL) != pid || !WIFSTOPPED(status)) fail("no stop");
    bool cloned = status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8);
    if (cloned) {
      unsigned long message;
      (void)ptrace(PTRACE_GETEVENTMSG, pid, NULL, &message);
      helper = (pid_t)message;
      if (waitpid(helper, &status, __WALL) != helper) fail("the helper did not stop");
    }
    started = started || WSTOPSIG(status) == SIGSTOP;
    (void)ptrace(PTRACE_CONT, pid, NULL, NULL);
    if (helper != 0 && started) break;
  }
  return step(helper, pid, steps, permitted);
}

static bool die_at(int number, long steps, bool *permitted)
{
  const struct operation *operation = &operations[number];
  struct victim victim;
  uint32_t cells = used_cells();
  if (operation->before) operation->before();
  start(&victim, number);
  if (operation->queue) operation->queue();
  bool reached = operation->helper ? step_helper(&victim, steps, permitted)
                                   : step_caller(&victim, steps, permitted);
  bury(&victim);
  if (!*permitted) return false;
  operation->after();
  get(5, &n, WLK_EXCLUSIVE);
  give(5);
  get(5, &long_name, WLK_EXCLUSIVE);
  give(5);
  if (used_cells() != cells) fail("cells are left over");
  return reached;
}

static bool run(int number, long stride)
{
  bool permitted = true;
  long deaths = 0;
  current = operations[number].title;
  stride *= operations[number].factor;
  for (point = 1; die_at(number, point, &permitted); point += stride) deaths++;
  if (!permitted) return false;
  printf("ok - killed at %ld of %ld instructions of %s\n", deaths, point, current);
  (void)fflush(stdout);
  return true;
}

int main(int argc, char **argv)
{
  if (argc == 4 && strcmp(argv[1], "victim") == 0) {
    (void)snprintf(directory, sizeof directory, "%s", argv[2]);
    return play_victim(&operations[atoi(argv[3])]);
  }
  if (argc == 4 && strcmp(argv[1], "prey") == 0) {
    (void)snprintf(directory, sizeof directory, "%s", argv[2]);
    return play_prey(strcmp(argv[3], "inside") == 0);
  }
  long stride = argc > 1 ? atol(argv[1]) : 97;
  int only = argc > 2 ? atoi(argv[2]) : -1;
  if (stride < 1 || !mkdtemp(directory)) return 2;
  enter();
  be_ready();
  get(5, &n, WLK_EXCLUSIVE); /* makes the agent's cell */
  give(5);
  mark();
  bool permitted = true;
  for (int i = 0; i < (int)(sizeof operations / sizeof *operations) && permitted; i++) {
    if (only < 0 || only == i) permitted = run(i, stride);
  }
  if (!permitted) printf("ok - skipped: not permitted to trace a process\n");
  /* A member that is left would bind its sockets again while they are removed. */
  leave();
  remove_directory();
  return 0;
}
