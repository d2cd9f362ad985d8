/* Pools: memory of items of one size, for those who make and end many.
 *
 * Items are allocated in batches. Of those that came back, `most` are kept for the next; of what is
 * beyond that, a batch is freed when all of its items came back. An item may come back to another
 * pool than it was taken from, as long as it has the same size.
 *
 * Under AddressSanitizer what is not taken may not be touched; with WLK_CHECKS it is overwritten.
 *
 * Threads: a pool is used by one thread at a time, different ones by different threads. */
#ifndef WLK_POOL_H
#define WLK_POOL_H

#include <stdint.h>

/* What stands in an item that is not taken. */
struct wlk_free_item {
  struct wlk_free_item *next;
  uint32_t place;
};

struct wlk_pool {
  struct wlk_free_item *first; /* kept; NULL for none */
  uint32_t count;              /* of those */
  uint32_t most;               /* (c) that are kept */
  uint32_t size;               /* (c) of an item: bytes, a multiple of 8, at least 16 */
};

void wlk_pool_init(struct wlk_pool *pool, uint32_t size, uint32_t most);

/* Takes an item.
 *   place    out: where it is in its batch, to be said when it comes back
 *   returns  unset memory, aligned to 8 bytes; NULL when there is none */
void *wlk_pool_take(struct wlk_pool *pool, uint8_t *place);

/* Takes an item back. */
void wlk_pool_give(struct wlk_pool *pool, void *item, uint8_t place);

/* Keeps nothing any more. What is still taken must come back to another pool. */
void wlk_pool_clear(struct wlk_pool *pool);

#endif
