/* Tests the clock that includes the time in which the machine sleeps, and that cannot be set. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "harness.h"

#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if !defined(CLONE_NEWTIME)
#define CLONE_NEWTIME 0x80
#endif

TEST(goes_on, "it goes on, and not back, in parts of a millisecond")
{
  double begin = wlk_continuous_now(), last = begin;
  CHECK(begin >= 0);
  bool is_fine = false;
  for (uint64_t end = wlk_port_now(true) + 20; wlk_port_now(true) < end;) {
    double now = wlk_continuous_now();
    CHECK(now >= last);
    if (now > last && now - last < 1) is_fine = true;
    last = now;
  }
  CHECK(is_fine);
  CHECK(wlk_continuous_now() - begin >= 19);
}

/* Forks a process in a time namespace whose boot-time clock is ahead by `seconds`, as after a
 * sleep; the monotonic clock is not. Returns how far our clock is ahead of the monotonic one there,
 * in milliseconds, or a negative number if the kernel does not permit that. */
static double lead_after_sleep(const char *seconds)
{
  int ends[2];
  double lead = -1;
  if (pipe(ends) != 0) return -1;
  (void)fflush(stdout); /* or each process writes it again at its end */
  pid_t outer = fork();
  if (outer == 0) {
    char line[64];
    int length = snprintf(line, sizeof line, "boottime %s 0\n", seconds);
    bool is_made = unshare(CLONE_NEWTIME) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWTIME) == 0;
    int offsets = is_made ? open("/proc/self/timens_offsets", O_WRONLY) : -1;
    if (offsets < 0 || write(offsets, line, (size_t)length) != length) _exit(1);
    pid_t inner = fork();
    if (inner == 0) {
      struct timespec awake;
      (void)clock_gettime(CLOCK_MONOTONIC, &awake);
      lead = wlk_continuous_now() - ((double)awake.tv_sec * 1e3 + (double)awake.tv_nsec / 1e6);
      _exit(write(ends[1], &lead, sizeof lead) == sizeof lead ? 0 : 1);
    }
    int status = 1;
    _exit(inner > 0 && waitpid(inner, &status, 0) == inner && status == 0 ? 0 : 1);
  }
  (void)close(ends[1]);
  if (read(ends[0], &lead, sizeof lead) != sizeof lead) lead = -1;
  (void)close(ends[0]);
  if (outer > 0) (void)waitpid(outer, NULL, 0);
  return lead;
}

TEST(counts_sleep, "it counts what the monotonic clock does not count")
{
  double slept = lead_after_sleep("0");
  if (slept < 0) {
    printf("    (the kernel has no time namespaces for us)\n");
    return;
  }
  double later = lead_after_sleep("100000") - slept;
  CHECK(later > 99999e3 && later < 100001e3);
}
