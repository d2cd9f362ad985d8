/* Death at every instruction: a victim is led through an operation one instruction after the other and
 * killed between two of them, each time at a later one. Then a survivor looks: a waiting request is
 * granted, every name can be had, the tables are whole, and as many cells are free as before. torn_test
 * has more operations, without what the process does outside of the tables.
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
#include "../../src/host/member/records.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/arena.h"
#include "../../src/host/segment/rebuild.h"
#include "../../src/host/segment/verify.h"
#include "../core/harness.h"
#include "cast.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TAGS = 8 };

static char point_text[100];

static void fail(const char *what)
{
  printf("not ok - %s: %s\n", point_text, what);
  end_play();
  exit(1);
}

/* ---- this process: the survivor, the victim, or one that dies before it ---- */

static struct wlh_request *requests[TAGS];
static uint32_t news[TAGS]; /* of each request since it was made */
static struct wlk_event items[16];
static struct wlk_events events = {.items = items, .capacity = 16};

static void note_events(void)
{
  for (size_t i = 0; i < events.count; i++) news[items[i].tag] |= items[i].news;
  events.count = 0;
}

static void await_news(uint32_t tag, uint32_t wanted)
{
  while (!(news[tag] & wanted)) {
    struct wlk_event event = next_event(agent);
    news[event.tag] |= event.news;
  }
}

static enum wlh_status ask_for_lock(
    uint32_t tag, uint16_t name, enum wlk_mode mode, enum wlk_option option)
{
  news[tag] = 0;
  enum wlh_status status =
      wlh_request_a_lock(agent, &name, 1, mode, option, tag, NULL, &requests[tag], &events);
  note_events();
  return status;
}

static void get(uint32_t tag, uint16_t name, enum wlk_mode mode)
{
  if (ask_for_lock(tag, name, mode, WLK_WAIT) == WLH_PENDING) await_news(tag, WLK_NEWS_GRANTED);
}

/* Queues up for sure: not only behind a critical section of another process. */
static void queue_up(uint32_t tag, uint16_t name, enum wlk_mode mode)
{
  if (ask_for_lock(tag, name, mode, WLK_WAIT) != WLH_PENDING)
    fail("a request did not have to wait");
  for (bool waits = false; !waits; (void)sched_yield()) {
    wlk_mutex_lock(&bucket->qmu);
    waits = requests[tag]->state == WLH_WAITING;
    wlk_mutex_unlock(&bucket->qmu);
  }
}

static void give(uint32_t tag)
{
  enum wlh_status status = wlh_release_the_lock(requests[tag], &events);
  note_events();
  if (status == WLH_PENDING) await_news(tag, WLH_NEWS_RELEASED | WLK_NEWS_STOLEN);
}

static void enter_scope(void)
{
  begin_member("b");
  news[7] = 0;
  if (wlh_bucket_open_file(agent, 7) == WLH_PENDING) await_news(7, WLH_NEWS_READY);
}

/* Enters the tables without the help of the helper. */
static void go_in(void)
{
  while (!wlh_try_enter(bucket, NULL)) (void)sched_yield();
}

/* Buries the dead, and checks all. */
static uint32_t used_cells(void)
{
  go_in();
  struct wlh_arena *arena = &bucket->arena;
  (void)wlh_cells_reap(arena);
  const char *broken = wlh_cells_check(arena);
  if (broken) fail(broken);
  uint32_t count = arena->ncells - wlh_cells_free_count(arena);
  wlh_leave(bucket);
  return count;
}

/* ---- operations ---- */

struct operation {
  const char *title;
  void (*before)(void); /* the survivor, before the victim comes */
  void (*setup)(void);  /* the victim; NULL: it has not even opened the bucket */
  void (*queue)(void);  /* the survivor, when the victim is set up */
  void (*step)(void);   /* the victim, stepped */
  void (*after)(void);  /* the survivor, when the victim is dead */
  bool helper;          /* whether it is the helper that is stepped */
  int factor;           /* of the stride */
};

static void nothing(void) {}

static void hold(void)
{
  get(0, 'n', WLK_EXCLUSIVE);
}

static void hold_shared(void)
{
  get(0, 'n', WLK_SHARED);
}

static void give_held(void)
{
  give(0);
}

static void queue_one(void)
{
  queue_up(2, 'n', WLK_EXCLUSIVE);
}

static void queue_shared(void)
{
  queue_up(2, 'n', WLK_SHARED);
}

static void granted_one(void)
{
  await_news(2, WLK_NEWS_GRANTED);
  give(2);
}

/* The victim waits between two shared ones of the survivor's. */
static void victim_waits(void)
{
  queue_up(0, 'n', WLK_EXCLUSIVE);
}

static void granted_shared(void)
{
  granted_one();
  give(0);
}

/* The survivor is told, and does not ask, unless the thief died inside. */
static void perhaps_stolen(void)
{
  const struct wlh_segment *segment = bucket->arena.segment;
  if (atomic_load(&segment->header.word) != 0) {
    get(5, 'm', WLK_EXCLUSIVE);
    give(5);
  }
  if (segment->cells[requests[0]->cell].kind == WLH_KIND_HELD)
    give(0);
  else
    await_news(0, WLK_NEWS_STOLEN);
}

static void step_request(void)
{
  (void)ask_for_lock(1, 'n', WLK_EXCLUSIVE, WLK_WAIT);
}

static void step_if_available(void)
{
  (void)ask_for_lock(1, 'n', WLK_EXCLUSIVE, WLK_IF_AVAILABLE);
}

static void step_steal(void)
{
  (void)ask_for_lock(1, 'n', WLK_EXCLUSIVE, WLK_STEAL);
}

static void step_abort(void)
{
  (void)wlh_abort_the_request(requests[0], &events);
}

static void step_terminate(void)
{
  wlh_agent_terminate(agent);
}

/* Another process holds the name and a shared lock, and dies: with `inside` where no other can enter
 * before it has made the tables anew. */
static int play_prey(bool inside)
{
  enter_scope();
  get(0, 'n', WLK_EXCLUSIVE);
  get(1, 'm', WLK_SHARED);
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

static void step_get_after_death(void)
{
  let_die("inside");
  hold();
}

/* A member that stays would keep the file as large as it has become. */
static void begin_small(void)
{
  end_member();
  end_play();
  begin_play();
  enter_scope();
  hold();
  give(0);
}

/* Has locks use up the cells but one, which the survivor's request takes: as few as there can be, by
 * the labels they have. Some cells are kept for thefts. */
static void fill_up(void)
{
  static const uint16_t zeros[WLH_LABEL_MOST];
  for (;;) {
    go_in();
    const struct wlh_arena *arena = &bucket->arena;
    uint32_t left = wlh_cells_free_count(arena) - arena->ncells / 64;
    wlh_leave(bucket);
    if (left <= 1) return;
    /* A name and an agent may come first. */
    bool is_plenty = left > WLH_LABEL_MOST / WLH_TEXT_UNITS + 5;
    uint32_t units = is_plenty ? WLH_LABEL_MOST : (left - 2) * WLH_TEXT_UNITS;
    struct wlk_extra extra = {.label = zeros, .label_length = units};
    enum wlh_status status =
        wlh_request_a_lock(agent, u"n", 1, WLK_SHARED, WLK_WAIT, 0, &extra, &requests[0], &events);
    if (status != WLH_GRANTED) fail("it does not fit");
  }
}

static void step_get_other(void)
{
  get(1, 'm', WLK_EXCLUSIVE);
}

static const struct operation operations[] = {
    {"a request that waits", hold, nothing, nothing, step_request, give_held, false, 1},
    {"a release that hands over", nothing, hold, queue_one, give_held, granted_one, false, 1},
    {"an abort", hold_shared, victim_waits, queue_shared, step_abort, granted_shared, false, 1},
    {"a theft", hold, nothing, nothing, step_steal, perhaps_stolen, false, 1},
    {"a termination", nothing, hold, queue_one, step_terminate, granted_one, false, 1},
    {"a repair after a death", nothing, see_death, nothing, step_if_available, nothing, false, 10},
    {"a repair after a death inside", nothing, nothing, nothing, step_get_after_death, nothing,
     true, 100},
    {"opening", hold, NULL, nothing, enter_scope, give_held, true, 100},
    {"closing", nothing, hold, queue_one, end_member, granted_one, true, 200},
    {"growth", begin_small, fill_up, queue_one, step_get_other, granted_one, true, 200},
};

/* ---- the victim ---- */

static void write_byte(char byte)
{
  if (write(1, &byte, 1) != 1) _exit(3);
}

static void read_byte(void)
{
  char byte;
  if (read(0, &byte, 1) != 1) _exit(3);
}

static int play_victim(const struct operation *operation)
{
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (operation->setup) {
    enter_scope();
    operation->setup();
  }
  write_byte('r');
  read_byte();
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

static void start_victim(struct victim *victim, int operation)
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
  char byte;
  if (read(victim->out, &byte, 1) != 1) fail("the victim does not come");
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
  (void)snprintf(
      point_text, sizeof point_text, "%s, killed at instruction %ld", operation->title, steps);
  current_step = point_text;
  uint32_t cells = used_cells();
  operation->before();
  start_victim(&victim, number);
  operation->queue();
  bool reached = operation->helper ? step_helper(&victim, steps, permitted)
                                   : step_caller(&victim, steps, permitted);
  bury(&victim);
  if (!*permitted) return false;
  operation->after();
  hold();
  give(0);
  if (used_cells() != cells) fail("cells are left over");
  return reached;
}

static bool run(int number, long stride)
{
  bool permitted = true;
  long deaths = 0, point = 1;
  stride *= operations[number].factor;
  for (; die_at(number, point, &permitted); point += stride) deaths++;
  if (!permitted) return false;
  if (deaths == 0) fail("it had no instruction");
  printf("ok - killed at %ld of %ld instructions of %s\n", deaths, point, operations[number].title);
  (void)fflush(stdout);
  return true;
}

int main(int argc, char **argv)
{
  if (argc == 4) {
    (void)snprintf(directory, sizeof directory, "%s", argv[2]);
    if (strcmp(argv[1], "victim") == 0) return play_victim(&operations[atoi(argv[3])]);
    return play_prey(strcmp(argv[3], "inside") == 0);
  }
  long stride = argc > 1 ? atol(argv[1]) : 211;
  int only = argc > 2 ? atoi(argv[2]) : -1;
  begin_play();
  enter_scope();
  hold(); /* makes the agent's cell */
  give(0);
  bool permitted = true;
  for (int i = 0; i < (int)(sizeof operations / sizeof *operations) && permitted; i++)
    if (only < 0 || only == i) permitted = run(i, stride);
  if (!permitted) printf("ok - skipped: not permitted to trace a process\n");
  /* A member that is left would bind its sockets again while they are removed. */
  end_member();
  end_play();
  return 0;
}
