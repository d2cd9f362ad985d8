/* list.h, hash.c and table.c. */
#include "../../src/core/alloc.h"
#include "../../src/core/hash.h"
#include "harness.h"

#include <string.h>

TEST(list_order, "a list keeps its order, and a removed link is in no list")
{
  struct wlk_link list, a, b, c;
  wlk_list_init(&list);
  wlk_list_init(&a);
  CHECK(wlk_list_is_empty(&list) && wlk_list_is_empty(&a));
  wlk_list_append(&list, &a);
  wlk_list_append(&list, &b);
  wlk_list_prepend(&list, &c);
  CHECK(list.next == &c && c.next == &a && a.next == &b && b.next == &list);
  CHECK(list.previous == &b && b.previous == &a && a.previous == &c && c.previous == &list);
  wlk_list_remove(&a);
  CHECK(c.next == &b && b.previous == &c && wlk_list_is_empty(&a));
  wlk_list_remove(&a);
  WLK_LIST_DRAIN (link, &list) wlk_list_remove(link);
  CHECK(wlk_list_is_empty(&list));
}

/* Made with Python 3.11, whose hash of bytes is SipHash-1-3 (PYTHONHASHSEED=0: the zero key), and, for the other key, the
 * bytes 0 to 15 as in the paper, with an implementation of the paper that agrees with Python's for the zero key. */
TEST(hash_vectors, "the hash is SipHash-1-3 of the name as UTF-16LE")
{
  static const uint64_t zero[2] = {0, 0};
  static const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
  static const struct {
    const char *name;
    uint64_t zero, key;
  } vectors[] = {
      {"", UINT64_C(0xd1fba762150c532c), UINT64_C(0xabac0158050fc4dc)},
      {"a", UINT64_C(0x9b310fba2c6d84d2), UINT64_C(0x2c9ff5d5524e4e9f)},
      {"ab", UINT64_C(0x2c6ea1c831fe18f3), UINT64_C(0xeb62619547d45e8c)},
      {"abc", UINT64_C(0xc24f63cbd86a33e3), UINT64_C(0x283fd7684ca85010)},
      {"abcd", UINT64_C(0xcac139f1a7b39f3a), UINT64_C(0x67875d8cc70b800b)},
      {"resource", UINT64_C(0x1681d96c934f3174), UINT64_C(0x7db7f460d84560ff)},
  };
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    uint16_t units[16];
    size_t length = strlen(vectors[i].name);
    for (size_t j = 0; j < length; j++) units[j] = (unsigned char)vectors[i].name[j];
    CHECK(wlk_hash(zero, units, length) == vectors[i].zero);
    CHECK(wlk_hash(key, units, length) == vectors[i].key);
  }
  uint16_t long_name[300];
  for (size_t i = 0; i < 300; i++) long_name[i] = 'a';
  CHECK(wlk_hash(zero, long_name, 300) == UINT64_C(0x9739791930ae8531));
  CHECK(wlk_hash(zero, NULL, 0) == UINT64_C(0xd1fba762150c532c));
}

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
  size_t capacity = wlk_table_wants(table);
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

int main(void)
{
  RUN(list_order);
  RUN(hash_vectors);
  RUN(table_grows);
  RUN(table_collisions);
  return finish_tests();
}
