/* What the core needs of the operating system: a mutex, a condition, clocks, a random seed, and a
 * way to find the copy of this library that the process loaded first. One implementation a
 * platform: port_posix.c, port_windows.c; only these three have an `#if` of the system's.
 *
 * The WLK_ annotations let clang prove the locking rules (`-Wthread-safety`); other compilers do
 * not see them. */
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

/* What most turns do not do, and is not to be compiled into those that do not. */
#if defined(__GNUC__)
#define WLK_RARE __attribute__((noinline, cold))
#else
#define WLK_RARE
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
/* Where the C library has it: a mutex that spins a little before it sleeps. What the core does
 * under its mutexes is shorter than going to sleep. */
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

/* The clock that only goes forward, is the same for all processes, and stands still while the
 * machine sleeps, as all waits do. What macOS calls CLOCK_MONOTONIC does neither: it is made of the
 * wall clock, and was seen to step back. */
#if defined(__APPLE__)
#define WLK_CLOCK CLOCK_UPTIME_RAW
#else
#define WLK_CLOCK CLOCK_MONOTONIC
#endif

#endif

/* Neither can fail on a mutex that was initialised and is used as the annotations say: not
 * recursive, unlocked by the thread that locked it. */
void wlk_mutex_lock(struct wlk_mutex *mutex) WLK_ACQUIRES(*mutex);
void wlk_mutex_unlock(struct wlk_mutex *mutex) WLK_RELEASES(*mutex);

/* Waits for a signal with `mutex` unlocked meanwhile; may return without one, so the caller looks
 * again. */
void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
    WLK_REQUIRES(*mutex);
void wlk_condition_broadcast(struct wlk_condition *condition);

/* Makes a condition that can be waited for with a time limit, in memory that stays where it is; and
 * unmakes it. False when out of memory. */
bool wlk_condition_init(struct wlk_condition *condition);
void wlk_condition_destroy(struct wlk_condition *condition);

/* As wlk_condition_wait, for at most `timeout` milliseconds, on a condition made by
 * wlk_condition_init. The wall clock may be set meanwhile. */
void wlk_condition_wait_for(
    struct wlk_condition *condition, struct wlk_mutex *mutex, uint64_t timeout)
    WLK_REQUIRES(*mutex);

/* Milliseconds of a clock that only goes forward; one that is exact to a few of them is cheap. */
uint64_t wlk_port_now(bool exact);

/* Milliseconds of a clock that goes on while the machine sleeps, and that nobody sets; negative
 * when the system has none. It never goes back, in any thread. */
double wlk_port_continuous_now(void);

/* Fills `size` bytes (at most 256) with bytes that nobody can foresee; false when the system has
 * none to give. */
bool wlk_port_random(void *bytes, size_t size);

/* Makes this process and what it starts from now on a family. On Windows what they start belongs to
 * it, too, and a change concerns all of it. On Linux only a child that the calling thread forks
 * after this call belongs to it. Elsewhere, and if the system refuses, nothing happens.
 *   ends_with_us  whether the family ends when this process (on Linux: the calling thread) does,
 *                 however that comes
 *   threads       one */
void wlk_port_keep_family(bool ends_with_us);

/* Ends all of the family but this process, and waits until they have ended; on Windows only. */
void wlk_port_end_family(void);

/* Gives free memory of the C library back to the system, where the library does not by itself. */
void wlk_port_trim(void);

/* Of all loaded modules (shared libraries, addons) that share something under a name, finds what
 * the first of them shares, the same for every caller as long as the process lives. Keeps the
 * caller's module from being unloaded.
 *   own     what the caller's module shares; in static memory of that module
 *   symbol  the name: the module exports a variable of this name, a `void *` that holds `own`
 *   returns what the first shares (it may be `own`); NULL when the system cannot tell
 *   threads any, at the same time: the order is the dynamic loader's or the kernel's */
void *wlk_port_first_shared(void *own, const char *symbol);

/* Writes the path of the module that contains `address` to `path` (UTF-8, NUL-terminated, cut to
 * `size` bytes); an empty string when the system cannot tell. */
void wlk_port_module_path(const void *address, char *path, size_t size);

#endif
