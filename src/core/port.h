/* The port of the core to the operating system, implemented by port_posix.c and port_windows.c. The
 * WLK_ annotations let clang prove the locking rules (`-Wthread-safety`). */
#ifndef WLK_PORT_H
#define WLK_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__clang__)
#define WLK_ANNOTATION(x) __attribute__((x))
#else
#define WLK_ANNOTATION(x)
#endif
#define WLK_CAPABILITY      WLK_ANNOTATION(capability("mutex"))
#define WLK_ACQUIRES(mutex) WLK_ANNOTATION(acquire_capability(mutex))
#define WLK_RELEASES(mutex) WLK_ANNOTATION(release_capability(mutex))
#define WLK_REQUIRES(mutex) WLK_ANNOTATION(requires_capability(mutex))
#define WLK_EXCLUDES(mutex) WLK_ANNOTATION(locks_excluded(mutex))
#define WLK_ASSERTS(mutex)  WLK_ANNOTATION(assert_capability(mutex))
#define WLK_UNCHECKED       WLK_ANNOTATION(no_thread_safety_analysis)

/* Keeps a function that is rarely called from being inlined. */
#if defined(__GNUC__)
#define WLK_RARE __attribute__((noinline, cold))
#else
#define WLK_RARE
#endif

/* In a test build (WLK_SMALL), batches and caches have the least possible capacity, so that tests
 * reach the code for full ones. */
#if defined(WLK_SMALL)
#define WLK_CAPACITY(ordinary, least) (least)
#else
#define WLK_CAPACITY(ordinary, least) (ordinary)
#endif

#if defined(_WIN32)

#ifndef WIN32_LEAN_AND_MEAN
#define WIN32_LEAN_AND_MEAN
#endif
#include <windows.h>

#define WLK_EXPORTED __declspec(dllexport)

struct WLK_CAPABILITY wlk_mutex {
  SRWLOCK native;
};
struct wlk_condition {
  CONDITION_VARIABLE native;
};
#define WLK_MUTEX_INIT                                                                             \
  {                                                                                                \
    SRWLOCK_INIT                                                                                   \
  }
#define WLK_CONDITION_INIT                                                                         \
  {                                                                                                \
    CONDITION_VARIABLE_INIT                                                                        \
  }

#else

#include <pthread.h>

#define WLK_EXPORTED __attribute__((visibility("default")))

struct WLK_CAPABILITY wlk_mutex {
  pthread_mutex_t native;
};
struct wlk_condition {
  pthread_cond_t native;
};
/* An adaptive mutex, if the C library has one, spins a little before it sleeps. The core holds its
 * mutexes for less time than going to sleep takes. */
#if !defined(PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP)
#define PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP PTHREAD_MUTEX_INITIALIZER
#endif
#define WLK_MUTEX_INIT                                                                             \
  {                                                                                                \
    PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP                                                          \
  }
#define WLK_CONDITION_INIT                                                                         \
  {                                                                                                \
    PTHREAD_COND_INITIALIZER                                                                       \
  }

/* This clock only goes forward, is the same for all processes, and stands still while the machine
 * sleeps, as all waits do. CLOCK_MONOTONIC of macOS guarantees none of this: it is derived from the
 * wall clock, and has been seen to step back. */
#if defined(__APPLE__)
#define WLK_CLOCK CLOCK_UPTIME_RAW
#else
#define WLK_CLOCK CLOCK_MONOTONIC
#endif

#endif

/* Neither function can fail on an initialised mutex that is used as the annotations say. */
void wlk_mutex_lock(struct wlk_mutex *mutex) WLK_ACQUIRES(*mutex);
void wlk_mutex_unlock(struct wlk_mutex *mutex) WLK_RELEASES(*mutex);

/* The wait may return without a signal. */
void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
    WLK_REQUIRES(*mutex);
void wlk_condition_broadcast(struct wlk_condition *condition);

/* The condition must not move in memory. Returns false if out of memory. */
bool wlk_condition_init(struct wlk_condition *condition);
void wlk_condition_destroy(struct wlk_condition *condition);

/* Waits for at most `timeout` milliseconds, on a condition from wlk_condition_init. Changes of the
 * wall clock have no effect. */
void wlk_condition_wait_for(
    struct wlk_condition *condition, struct wlk_mutex *mutex, uint64_t timeout)
    WLK_REQUIRES(*mutex);

/* Returns milliseconds of a clock that only goes forward. If `exact` is false, the call is cheaper
 * and the time is a few milliseconds off. */
uint64_t wlk_port_now(bool exact);

/* See wlk_continuous_now. The result never decreases, even between threads. */
double wlk_port_continuous_now(void);

/* Fills `size` bytes (at most 256). Returns false if the system provides no random values. */
bool wlk_port_random(void *bytes, size_t size);

/* See wlk_process_trim. */
void wlk_port_trim(void);

/* Finds what the first loaded module (shared library, addon) shares under `symbol`: the same for
 * every caller while the process lives. The caller's module stays loaded from then on.
 *   own      what the caller's module shares, in static memory of that module
 *   symbol   the name of a `void *` variable that every such module exports, which holds its `own`
 *   returns  the `own` of the first module; NULL if that module is unknown
 *   threads  any, at the same time: the dynamic loader or the kernel decides which is first */
void *wlk_port_find_first_shared(void *own, const char *symbol);

/* Writes the path of the module that contains `address`, or an empty string if the path is unknown;
 * see wlk_process_path. */
void wlk_port_module_path(const void *address, char *path, size_t size);

#endif
