/* See port.h. dladdr and RTLD_DEFAULT are in every libc we build for, but not in POSIX. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif

#include "port.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#if defined(__APPLE__)
#include <mach/mach_time.h>
#endif
#if defined(__linux__)
#include <sys/prctl.h>
#endif

/* Milliseconds. So that no sum of times overflows. */
#define LONGEST_WAIT (UINT64_C(1000) * 60 * 60 * 24)

void wlk_mutex_lock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  (void)pthread_mutex_lock(&mutex->native);
}

void wlk_mutex_unlock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  (void)pthread_mutex_unlock(&mutex->native);
}

void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
{
  (void)pthread_cond_wait(&condition->native, &mutex->native);
}

void wlk_condition_broadcast(struct wlk_condition *condition)
{
  (void)pthread_cond_broadcast(&condition->native);
}

/* macOS has no clock attribute for conditions but a wait relative to now. */
bool wlk_condition_init(struct wlk_condition *condition)
{
#if defined(__APPLE__)
  return pthread_cond_init(&condition->native, NULL) == 0;
#else
  pthread_condattr_t attributes;
  if (pthread_condattr_init(&attributes) != 0) return false;
  bool done = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&condition->native, &attributes) == 0;
  (void)pthread_condattr_destroy(&attributes);
  return done;
#endif
}

void wlk_condition_destroy(struct wlk_condition *condition)
{
  (void)pthread_cond_destroy(&condition->native);
}

void wlk_condition_wait_for(
    struct wlk_condition *condition, struct wlk_mutex *mutex, uint64_t timeout)
{
  if (timeout > LONGEST_WAIT) timeout = LONGEST_WAIT; /* the caller looks again */
  struct timespec time = {(time_t)(timeout / 1000), (long)(timeout % 1000) * 1000000};
#if defined(__APPLE__)
  (void)pthread_cond_timedwait_relative_np(&condition->native, &mutex->native, &time);
#else
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  time.tv_sec += now.tv_sec;
  time.tv_nsec += now.tv_nsec;
  if (time.tv_nsec >= 1000000000) {
    time.tv_sec++;
    time.tv_nsec -= 1000000000;
  }
  (void)pthread_cond_timedwait(&condition->native, &mutex->native, &time);
#endif
}

#if !defined(CLOCK_MONOTONIC_COARSE)
#define CLOCK_MONOTONIC_COARSE WLK_CLOCK
#endif

uint64_t wlk_port_now(bool exact)
{
  struct timespec now;
  (void)clock_gettime(exact ? WLK_CLOCK : CLOCK_MONOTONIC_COARSE, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

double wlk_port_continuous_now(void)
{
#if defined(__APPLE__)
  mach_timebase_info_data_t unit;
  if (mach_timebase_info(&unit) != KERN_SUCCESS) return -1;
  return (double)mach_continuous_time() * unit.numer / unit.denom / 1e6;
#elif defined(CLOCK_BOOTTIME) && defined(__linux__)
  struct timespec now;
  if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) return -1;
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
#else
  return -1; /* where others have a clock of this name it can be another one */
#endif
}

#if defined(__linux__)
static _Atomic pid_t head; /* the process that the family ends with; 0: there is none */

/* In a child, before it executes another program. The kernel keeps the wish over that, but not over
 * a program that gains rights (set-user-ID, capabilities), and a child of the child has none. */
static void join_family(void)
{
  pid_t parent = head;
  if (parent == 0) return;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) (void)raise(SIGKILL); /* it ended before the kernel knew the wish */
}

void wlk_port_keep_family(bool ends_with_us)
{
  static bool is_registered;
  if (!is_registered) is_registered = pthread_atfork(NULL, NULL, join_family) == 0;
  head = ends_with_us ? getpid() : 0;
}
#else
void wlk_port_keep_family(bool ends_with_us)
{
  (void)ends_with_us;
}
#endif

void wlk_port_end_family(void) {}

bool wlk_port_random(void *bytes, size_t size)
{
  return getentropy(bytes, size) == 0;
}

void wlk_port_trim(void)
{
#if defined(__GLIBC__)
  (void)malloc_trim(0);
#endif
}

/* Node loads addons with RTLD_LOCAL, so two copies do not see each other. Each copy first puts
 * itself into the global scope and then asks that scope for the symbol. The scope is only ever
 * appended to (RTLD_NODELETE keeps what is in it) and the loader serialises both steps, so
 * whichever copy was appended first is what every copy finds, whatever the interleaving.
 *
 * On macOS the scope has the order of loading, and what is loaded without RTLD_LOCAL, as Node loads
 * it there, is in it from then on: every copy finds the one that was loaded first. The handle that
 * stays open keeps it; RTLD_NODELETE does nothing there.
 *
 * It also means that a copy's reference to the exported variable leads to the first copy's: `own`
 * must come from elsewhere. */
void *wlk_port_first_shared(void *own, const char *symbol)
{
  Dl_info module;
  if (dladdr(own, &module) == 0) return NULL;
  /* The handle is not closed: it is the reference that keeps the module. */
  if (!dlopen(module.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE)) return NULL;
  void **first = dlsym(RTLD_DEFAULT, symbol);
  return first ? *first : NULL;
}

void wlk_port_module_path(const void *address, char *path, size_t size)
{
  Dl_info module;
  bool known = dladdr(address, &module) != 0 && module.dli_fname;
  (void)snprintf(path, size, "%s", known ? module.dli_fname : "");
}
