#include "pool.h"

#include "alloc.h"
#include "port.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { BATCH = WLK_CAPACITY(32, 2) };

/* The items of a batch follow it, with its alignment. */
struct batch {
  _Alignas(8) atomic_uint out; /* counts items that are taken or kept; several threads change it */
};

#if defined(__SANITIZE_ADDRESS__)
#define WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WATCHED 1
#endif
#endif

#if defined(WATCHED)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, size)   ((void)(memory), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(memory, size) ((void)(memory), (void)(size))
#endif

static void poison_item(void *item, uint32_t size)
{
#if defined(WLK_CHECKS)
  memset((char *)item + sizeof(struct wlk_free_item), 0x5a, size - sizeof(struct wlk_free_item));
#endif
  ASAN_POISON_MEMORY_REGION(item, size);
}

static void push_free(struct wlk_pool *pool, void *item, uint32_t place)
{
  struct wlk_free_item *it = item;
  it->next = pool->first;
  it->place = place;
  pool->first = it;
  pool->count++;
  poison_item(item, pool->size);
}

static struct wlk_free_item *pop_free(struct wlk_pool *pool)
{
  struct wlk_free_item *item = pool->first;
  ASAN_UNPOISON_MEMORY_REGION(item, pool->size);
  pool->first = item->next;
  pool->count--;
  return item;
}

static WLK_RARE bool add_batch(struct wlk_pool *pool)
{
  struct batch *batch = wlk_alloc(sizeof *batch + (size_t)BATCH * pool->size);
  if (!batch) return false;
  atomic_init(&batch->out, BATCH);
  char *items = (char *)(batch + 1);
  for (uint32_t i = BATCH; i-- > 0;) push_free(pool, items + (size_t)i * pool->size, i);
  return true;
}

/* Frees the batch when it has all its items. */
static WLK_RARE void return_to_batch(void *item, uint32_t place, uint32_t size)
{
  struct batch *batch = (struct batch *)(void *)((char *)item - (size_t)place * size) - 1;
  poison_item(item, size);
  /* acq_rel: the thread that frees the batch must see what other threads wrote to its items. */
  if (atomic_fetch_sub_explicit(&batch->out, 1, memory_order_acq_rel) > 1) return;
  ASAN_UNPOISON_MEMORY_REGION(batch + 1, (size_t)BATCH * size);
  wlk_free(batch);
}

void wlk_pool_init(struct wlk_pool *pool, uint32_t size, uint32_t most)
{
  *pool = (struct wlk_pool){.first = NULL, .count = 0, .most = most, .size = size};
}

void *wlk_pool_take(struct wlk_pool *pool, uint8_t *place)
{
  if (!pool->first && !add_batch(pool)) return NULL;
  struct wlk_free_item *item = pop_free(pool);
  *place = (uint8_t)item->place;
  return item;
}

void wlk_pool_give(struct wlk_pool *pool, void *item, uint8_t place)
{
  if (pool->count < pool->most)
    push_free(pool, item, place);
  else
    return_to_batch(item, place, pool->size);
}

void wlk_pool_clear(struct wlk_pool *pool)
{
  while (pool->first) {
    struct wlk_free_item *item = pop_free(pool);
    return_to_batch(item, item->place, pool->size);
  }
}
