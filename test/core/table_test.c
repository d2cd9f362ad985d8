/* table.c. */
#include "../../src/core/alloc.h"
#include "../../src/core/hash.h"
#include "harness.h"

enum { MANY = 1000 };

struct item {
  struct wlk_entry entry;
  uint16_t name[2];
};

static void fill(struct item *items, uint64_t hash_mask)
{
  static const uint64_t key[2] = {1, 2};
  for (uint16_t i = 0; i < MANY; i++) {
    items[i].name[0] = i;
    items[i].name[1] = 0xd800;
    items[i].entry.name = items[i].name;
    items[i].entry.length = 2;
    items[i].entry.hash = wlk_hash(key, items[i].name, 2) & hash_mask;
  }
}

static void resize(struct wlk_table *table)
{
  size_t capacity = wlk_table_wanted_capacity(table);
  if (capacity == 0) return;
  void *chains = capacity > WLK_TABLE_LEAST ? wlk_alloc(capacity * sizeof(void *)) : NULL;
  wlk_free(wlk_table_rehash(table, chains, capacity));
}

static void exercise(uint64_t hash_mask)
{
  static struct item items[MANY];
  struct wlk_table table;
  wlk_table_init(&table);
  CHECK(wlk_table_first(&table) == NULL);
  fill(items, hash_mask);
  for (size_t i = 0; i < MANY; i++) {
    CHECK(wlk_table_find(&table, &items[i].entry) == NULL);
    wlk_table_insert(&table, &items[i].entry);
    resize(&table);
    CHECK(wlk_table_find(&table, &items[i].entry) == &items[i].entry);
  }
  CHECK(table.count == MANY && table.capacity >= MANY);
  size_t visited = 0;
  for (struct wlk_entry *e = wlk_table_first(&table); e; e = wlk_table_after(&table, e)) visited++;
  CHECK(visited == MANY);
  for (size_t i = 0; i < MANY; i++) {
    wlk_table_remove(&table, &items[i].entry);
    resize(&table);
    CHECK(wlk_table_find(&table, &items[i].entry) == NULL);
    if (i + 1 < MANY) CHECK(wlk_table_find(&table, &items[i + 1].entry) == &items[i + 1].entry);
  }
  CHECK(table.count == 0 && table.chains == table.least && live_blocks() == 0);
}

TEST(
    table_grows,
    "a table finds what is in it while it grows and shrinks, and gives its memory back")
{
  exercise(~UINT64_C(0));
}

TEST(table_collisions, "names with the same hash are told apart")
{
  exercise(0);
}
