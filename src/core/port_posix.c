/* With this macro, the headers declare dladdr and RTLD_DEFAULT, which POSIX lacks. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif

#include "port.h"

#include <dlfcn.h>
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

/* Milliseconds, short enough that sums of times do not overflow. */
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

/* macOS has no clock attribute for conditions, but it has relative waits. */
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
  if (timeout > LONGEST_WAIT) timeout = LONGEST_WAIT; /* callers wait in a loop */
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
  return -1; /* other systems have a different clock of this name */
#endif
}

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

/* Node loads addons with RTLD_LOCAL, so two copies do not see each other. Each copy first adds
 * itself to the global scope and then looks the symbol up there. The loader serialises both steps
 * and only appends to the scope (RTLD_NODELETE keeps its modules), so every copy finds the one that
 * was appended first, in any interleaving.
 *
 * On macOS the scope is in the order of loading and Node loads addons without RTLD_LOCAL, so every
 * copy finds the one that was loaded first. RTLD_NODELETE does nothing there; the open handle keeps
 * the module.
 *
 * Even within a copy, the exported variable's name leads to the variable of the first copy, so the
 * caller passes `own` as an address. */
void *wlk_port_find_first_shared(void *own, const char *symbol)
{
  Dl_info module;
  if (dladdr(own, &module) == 0) return NULL;
  /* The handle stays open: it keeps the module loaded. */
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
