/* Pools: memory for items of one size, allocated in batches. A pool keeps up to `most` returned
 * items. Further items go back to their batch, which is freed when it has all its items. An item
 * may return to another pool of the same size. Threads: one at a time for each pool. */
#ifndef WLK_POOL_H
#define WLK_POOL_H

#include <stdint.h>

struct wlk_free_item {
  struct wlk_free_item *next;
  uint32_t place;
};

struct wlk_pool {
  struct wlk_free_item *first; /* the kept items, or NULL */
  uint32_t count;              /* number of kept items */
  uint32_t most;               /* constant: how many items are kept at most */
  uint32_t size;               /* constant: bytes of an item, a multiple of 8, at least 16 */
};

void wlk_pool_init(struct wlk_pool *pool, uint32_t size, uint32_t most);

/* Returns memory with any content, aligned to 8 bytes, or NULL if out of memory. `*place` becomes
 * the item's index in its batch, for wlk_pool_give. */
void *wlk_pool_take(struct wlk_pool *pool, uint8_t *place);

void wlk_pool_give(struct wlk_pool *pool, void *item, uint8_t place);

/* Frees all kept items. Items that are taken may still return. */
void wlk_pool_clear(struct wlk_pool *pool);

#endif
