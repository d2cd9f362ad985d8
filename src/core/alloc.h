/* Every allocation of the core goes through here, so that tests can make the n-th one fail and
 * count what is alive.
 *
 * Threads: both functions may be called on any thread at the same time, with or without a mutex;
 * the core calls them without. */
#ifndef WLK_ALLOC_H
#define WLK_ALLOC_H

#include <stddef.h>

#if defined(WLK_TESTING) || defined(WLK_CHECKS)
/* Provided by the tests (test/core/harness.c), or by alloc.c, which counts. */
void *wlk_alloc(size_t size);
void wlk_free(void *memory);
#if !defined(WLK_TESTING)
/* Allocations of the core, by all copies of it that were built so, that are not freed. */
long wlk_live_blocks(void);
#endif
#else
#include <stdlib.h>

/* Returns `size` bytes of unset memory, or NULL when there is none. */
static inline void *wlk_alloc(size_t size)
{
  return malloc(size);
}

/* Takes back what wlk_alloc returned; NULL is allowed. */
static inline void wlk_free(void *memory)
{
  free(memory);
}
#endif

#endif
