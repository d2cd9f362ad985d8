/* Death at every instruction. The test single-steps a victim through a call and kills it between
 * two instructions, each time a later one; or it stops the victim at a system call, lets others
 * act, and continues it. Afterwards every waiter must be granted, every name free, the tables
 * intact, and as many cells in use as before. The test torn_test covers more operations, but not
 * what the process does outside the tables.
 *
 *   steps_test [stride] [operation]
 *
 * The stride is the number of instructions between two deaths; 1 tests each. Calls are stepped on
 * the thread that makes them, and the helper's work on the helper. Where tracing is not permitted,
 * the test is skipped. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/segment/segment.h"
#include "../core/harness.h"
#include "cast.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The victim is b. Once it is dead, or stopped outside the mutex, the others act. */
struct operation {
  const char *title, *before, *line, *others;
  const char *later; /* what happens once b continues; NULL: it is killed */
  char tracing;      /* 'h' steps its helper, until it wakes the caller; 'c' steps the caller */
  int factor;        /* of the stride; 0: each step is to the begin or end of a system call */
};

#define HANDED_OVER "a hears 2 granted; a releases 2"

static const struct operation operations[] = {
    {"a request that waits", "b enters; a gets 1 n", "ask 2 n x w", "a releases 1", NULL, 'c', 1},
    {"a release that hands over", "b enters; b gets 1 n; a queues 2 n", "release 1", HANDED_OVER,
     NULL, 'c', 1},
    {"an abort", "b enters; a gets 1 n s w; b queues 1 n; a queues 2 n s w", "abort 1",
     HANDED_OVER "; a releases 1", NULL, 'c', 1},
    {"a theft", "b enters; a: settle = settled; a gets 1 n", "ask 2 n x s", "perhaps a was robbed",
     NULL, 'c', 1},
    {"a theft, at its system calls", "b enters; a: settle = settled; a gets 1 n", "ask 2 n x s",
     "perhaps a was robbed", NULL, 'c', 0},
    {"a termination", "b enters; b gets 1 n; a queues 2 n", "terminate", HANDED_OVER, NULL, 'c', 1},
    {"a repair after a death", "bc enters; c gets 1 n; c gets 2 m s w", "ask 2 n x i", "", NULL,
     'c', 10},
    /* No other process repairs. */
    {"a repair after a death inside",
     "bc enters; c gets 1 n; c gets 2 m s w; a stops; c stops-inside", "ask 2 n x w", "a goes-on",
     NULL, 'h', 100},
    {"opening", "b starts; b opens; a gets 1 n", "ready 4000", "a releases 1", NULL, 'h', 100},
    {"closing", "b enters; b gets 1 n; a queues 2 n", "close", HANDED_OVER, NULL, 'h', 200},
    {"growth", "b enters; b: fill = filled; a queues 2 n", "ask 2 m x w", HANDED_OVER, NULL, 'h',
     200},
    {"a helper's work, while a lock is released",
     "b enters; b: settle = settled; a gets 1 n; b queues 2 n", "query 9", "a releases 1",
     "b hears 2 granted; b releases 2", 'h', 0},
    {"a helper's work, while a thief comes and dies",
     "b enters; b: settle = settled; a gets 1 n; b queues 2 n", "query 9",
     "c enters; c gets 3 n x s; c dies", "b hears 2 granted; b releases 2", 'h', 0},
    {"a release that hands over, while others enter", "b enters; b gets 1 n; a queues 2 n",
     "release 1", "a gets 5 m; a releases 5", HANDED_OVER, 'c', 0},
};

static char point_text[100];

static void fail(const char *what)
{
  printf("not ok - %s: %s\n", point_text, what);
  end_play();
  exit(1);
}

/* ---- what is left ---- */

static unsigned used_cells(void)
{
  char text[100], broken[100] = "";
  unsigned count = 0;
  tell(&a, "cells");
  hear_rest(&a, "cells ", text, sizeof text);
  if (sscanf(text, "%u %90[^\n]", &count, broken) != 1) fail(broken);
  return count;
}

/* Whether a's request 1 holds its lock, according to its cell. */
static bool is_held(void)
{
  char number[16];
  uint32_t kind = 0;
  tell(&a, "cell 1");
  hear_rest(&a, "cell ", number, sizeof number);
  int file = open(bucket_path("bucket"), O_RDONLY | O_CLOEXEC);
  off_t at = WLH_BYTES_BEFORE_CELLS + (off_t)atoi(number) * WLH_CELL_BYTES;
  bool is_read = pread(file, &kind, sizeof kind, at) == sizeof kind;
  (void)close(file);
  return is_read && kind == WLH_KIND_HELD;
}

/* The process that lost its lock must be notified without asking. If the thief died inside, another
 * process, which enters, repairs the tables and sends the wake-up. */
static void check_victim(const char *step)
{
  if (strcmp(step, "perhaps a was robbed") != 0) fail(step);
  if (is_inside(&b)) play("c enters"), c.pid = 0;
  play(is_held() ? "a releases 1" : "a hears 1 stolen");
}

/* ---- stepping ---- */

static bool permitted = true;

static bool trace(int request, pid_t thread, intptr_t data)
{
  if (ptrace(request, thread, NULL, data) == 0) return true;
  if (errno != ESRCH) permitted = false;
  return false;
}

static int step_request; /* PTRACE_SINGLESTEP, or PTRACE_SYSCALL: to a call's begin or end */

static bool is_answered, waits; /* the caller has its answer; the helper waits for more work */

#ifdef SYS_poll /* the plain variant of the port waits with it */
#define IS_POLL(number) ((number) == SYS_ppoll || (number) == SYS_poll)
#else
#define IS_POLL(number) ((number) == SYS_ppoll)
#endif

static bool is_at_wait(pid_t thread)
{
  struct __ptrace_syscall_info info;
  return ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0 &&
         info.op == PTRACE_SYSCALL_INFO_ENTRY && IS_POLL(info.entry.nr);
}

/* Waits until the thread has made its step. Returns false if it ended, or if the operation is over:
 * its caller has the answer, and a helper that still runs waits for more. */
static bool await_step(pid_t thread, pid_t caller)
{
  for (;;) {
    int status;
    pid_t who = waitpid(-1, &status, __WALL);
    if (who < 0 || (who == thread && !WIFSTOPPED(status))) return false;
    if (who == thread && (WSTOPSIG(status) & 0x7f) == SIGTRAP) {
      waits = step_request == PTRACE_SYSCALL && is_at_wait(thread);
      return !(is_answered && waits);
    }
    if (who == caller && WIFSTOPPED(status) && WSTOPSIG(status) == SIGURG) {
      if (who == thread || waits || step_request == PTRACE_SINGLESTEP) return false;
      is_answered = true;
    }
    (void)trace(who == thread ? step_request : PTRACE_CONT, who, 0);
  }
}

static bool step(pid_t thread, long steps)
{
  for (long i = 0; i < steps; i++)
    if (!trace(step_request, thread, 0) || !await_step(thread, b.pid)) return false;
  return true;
}

/* The victim's other thread, or 0. */
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

static void await_stop(pid_t thread, int *status)
{
  if (waitpid(thread, status, WUNTRACED | __WALL) != thread || !WIFSTOPPED(*status))
    fail("the victim did not stop");
}

/* Attaches to the helper, which may be started first; returns 0 if tracing is not permitted. */
static pid_t seize_helper(const char *line)
{
  int status;
  pid_t helper = other_thread(b.pid);
  if (!trace(PTRACE_SEIZE, b.pid, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL)) return 0;
  if (helper != 0) {
    if (!trace(PTRACE_SEIZE, helper, PTRACE_O_TRACESYSGOOD) || !trace(PTRACE_INTERRUPT, helper, 0))
      fail("seize");
    await_stop(helper, &status);
  }
  tell(&b, "%s", line);
  for (bool started = false; helper == 0 || !started;) {
    await_stop(b.pid, &status);
    if (status >> 8 == (SIGTRAP | PTRACE_EVENT_CLONE << 8)) {
      unsigned long message;
      (void)ptrace(PTRACE_GETEVENTMSG, b.pid, NULL, &message);
      helper = (pid_t)message;
      await_stop(helper, &status);
    }
    started = started || WSTOPSIG(status) == SIGSTOP;
    (void)trace(PTRACE_CONT, b.pid, 0);
  }
  return helper;
}

/* Returns the thread to step, or 0 if tracing is not permitted. */
static pid_t begin_call(const struct operation *operation)
{
  int status;
  tell(&b, "trace %c", operation->tracing);
  if (operation->tracing == 'h') return seize_helper(operation->line);
  tell(&b, "%s", operation->line);
  await_stop(b.pid, &status);
  return b.pid;
}

/* Lets both threads of the victim run: one of them is stopped. */
static void detach(pid_t thread)
{
  int status;
  if (ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0) return;
  if (ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) != 0) return;
  await_stop(thread, &status);
  (void)ptrace(PTRACE_DETACH, thread, NULL, NULL);
}

/* Kills the victim. Its traced threads must be reaped before the process. */
static void bury(void)
{
  int status = 0;
  (void)kill(b.pid, SIGKILL);
  for (pid_t who = 0; who != b.pid || WIFSTOPPED(status);) {
    who = waitpid(-1, &status, __WALL);
    if (who < 0) break;
  }
}

/* Returns whether the operation has so many instructions. */
static bool stop_at(const struct operation *operation, long steps)
{
  (void)snprintf(
      point_text, sizeof point_text, "%s, stopped at point %ld", operation->title, steps);
  current_step = point_text;
  begin_play();
  play("a enters; a gets 0 n; a releases 0");
  unsigned cells = used_cells();
  play(operation->before);
  step_request = operation->factor == 0 ? PTRACE_SYSCALL : PTRACE_SINGLESTEP;
  is_answered = waits = false;
  pid_t thread = begin_call(operation);
  if (c.pid && !operation->later) kill_it(&c);
  c.pid = 0;
  bool reached = thread != 0 && step(thread, steps);
  bool has_acted = operation->later && reached && !is_inside(&b);
  if (!operation->later) bury();
  if (has_acted) play(operation->others);
  if (operation->later) detach(thread), detach(b.pid), go_on(&b);
  if (permitted && !has_acted) play(operation->others);
  if (permitted && operation->later) play(operation->later);
  if (operation->later) kill_it(&b);
  if (permitted) play("a gets 0 n; a releases 0");
  if (permitted && used_cells() != cells) fail("cells are left over");
  end_play();
  return reached;
}

static void run(const struct operation *operation, long stride)
{
  long stops = 0, point = 1;
  stride = operation->factor == 0 ? 1 : stride * operation->factor;
  for (; permitted && stop_at(operation, point); point += stride) stops++;
  if (permitted && stops == 0) fail("it had no instruction");
  printf("ok - stopped at %ld points of %s\n", stops, operation->title);
  (void)fflush(stdout);
}

int main(int argc, char **argv)
{
  long stride = argc > 1 ? atol(argv[1]) : 211;
  more_steps = check_victim;
  for (int i = 0; i < (int)(sizeof operations / sizeof *operations) && permitted; i++)
    if (argc < 3 || atoi(argv[2]) == i) run(&operations[i], stride);
  if (!permitted) printf("ok - skipped: not permitted to trace a process\n");
  return 0;
}
