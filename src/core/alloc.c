#include "alloc.h"

#if defined(WLK_CHECKS) && !defined(WLK_TESTING)

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long live_blocks; /* atomic because the core allocates without a mutex */

void *wlk_alloc(size_t size)
{
  void *memory = malloc(size);
  if (memory) (void)atomic_fetch_add(&live_blocks, 1);
  return memory;
}

void wlk_free(void *memory)
{
  if (memory) (void)atomic_fetch_sub(&live_blocks, 1);
  free(memory);
}

long wlk_live_blocks(void)
{
  return atomic_load(&live_blocks);
}

#else
typedef int wlk_alloc_is_not_counted;
#endif
