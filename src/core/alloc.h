/* The allocator of the core, so that tests can make the n-th allocation fail and count the blocks
 * that are alive. Threads: any, without a mutex. */
#ifndef WLK_ALLOC_H
#define WLK_ALLOC_H

#include <stddef.h>

#if defined(WLK_TESTING) || defined(WLK_CHECKS)
/* Defined by alloc.c or, in tests, by test/core/harness.c. */
void *wlk_alloc(size_t size);
void wlk_free(void *memory);
#if !defined(WLK_TESTING)
/* Counts the blocks that are not freed yet. */
long wlk_live_blocks(void);
#endif
#else
#include <stdlib.h>

static inline void *wlk_alloc(size_t size)
{
  return malloc(size);
}

static inline void wlk_free(void *memory)
{
  free(memory);
}
#endif

#endif
