/* pool.c. */
#include "../../src/core/pool.h"
#include "harness.h"

#include <string.h>

enum { MANY = 1000, SIZE = 40 };

static unsigned char *items[MANY];
static uint8_t places[MANY];

static void take_all(struct wlk_pool *pool)
{
  for (int i = 0; i < MANY; i++) {
    items[i] = wlk_pool_take(pool, &places[i]);
    CHECK(items[i] != NULL && (uintptr_t)items[i] % 8 == 0);
    memset(items[i], i % 256, SIZE);
  }
}

static void give_all(struct wlk_pool *pool)
{
  for (int i = 0; i < MANY; i++) wlk_pool_give(pool, items[i], places[i]);
}

static void clear(struct wlk_pool *pool)
{
  wlk_pool_clear(pool);
  CHECK(live_blocks() == 0);
}

TEST(few_blocks, "many items are few allocations, and none if as many came back before")
{
  struct wlk_pool pool;
  wlk_pool_init(&pool, SIZE, MANY);
  take_all(&pool);
  long blocks = live_blocks();
  CHECK(blocks < MANY / 16);
  for (int i = 0; i < MANY; i++)
    for (int j = 0; j < SIZE; j++) CHECK(items[i][j] == i % 256);
  give_all(&pool);
  (void)fail_allocation(1);
  take_all(&pool);
  CHECK(!fail_allocation(0) && live_blocks() == blocks);
  give_all(&pool);
  clear(&pool);
}

TEST(one_left, "an item that stays keeps no more than its batch from being given back")
{
  struct wlk_pool pool;
  wlk_pool_init(&pool, SIZE, 0);
  take_all(&pool);
  for (int i = 0; i < MANY; i++)
    if (i != MANY / 2) wlk_pool_give(&pool, items[i], places[i]);
  CHECK(live_blocks() <= 2);
  wlk_pool_give(&pool, items[MANY / 2], places[MANY / 2]);
  clear(&pool);
}

TEST(other_pool, "items come back to another pool than they are from, which outlives theirs")
{
  struct wlk_pool one, other;
  wlk_pool_init(&one, SIZE, 10);
  wlk_pool_init(&other, SIZE, 10);
  take_all(&one);
  wlk_pool_clear(&one);
  give_all(&other);
  CHECK(live_blocks() <= 2);
  clear(&other);
}

TEST(no_memory, "a pool without memory says so, and works on when there is some")
{
  struct wlk_pool pool;
  wlk_pool_init(&pool, SIZE, 10);
  (void)fail_allocation(1);
  CHECK(wlk_pool_take(&pool, &places[0]) == NULL && fail_allocation(0));
  take_all(&pool);
  give_all(&pool);
  clear(&pool);
}
