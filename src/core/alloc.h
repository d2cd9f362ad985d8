/* The allocator of the core. Every allocation goes through here, so that tests can make the n-th
 * one fail and count the blocks that are alive. Threads: any, without a mutex. */
#ifndef WLK_ALLOC_H
#define WLK_ALLOC_H

#include <stddef.h>

#if defined(WLK_TESTING) || defined(WLK_CHECKS)
/* alloc.c defines these functions and counts the blocks; in tests, test/core/harness.c does. */
void *wlk_alloc(size_t size);
void wlk_free(void *memory);
#if !defined(WLK_TESTING)
/* Returns how many blocks the checked copies of the core have not freed. */
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
