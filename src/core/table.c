#include "table.h"

#include <string.h>

static struct wlk_entry **chain_of(const struct wlk_table *table, uint64_t hash)
{
  return &table->chains[hash & (table->capacity - 1)];
}

void wlk_table_init(struct wlk_table *table)
{
  memset(table, 0, sizeof *table);
  table->chains = table->least;
  table->capacity = WLK_TABLE_LEAST;
}

bool wlk_entry_has_name(const struct wlk_entry *entry, const uint16_t *name, uint32_t length)
{
  return entry->length == length &&
         (length == 0 || memcmp(entry->name, name, length * sizeof *name) == 0);
}

static bool is_same(const struct wlk_entry *a, const struct wlk_entry *b)
{
  return a->hash == b->hash && wlk_entry_has_name(a, b->name, b->length);
}

struct wlk_entry *wlk_table_find(const struct wlk_table *table, const struct wlk_entry *key)
{
  struct wlk_entry *entry = *chain_of(table, key->hash);
  while (entry && !is_same(entry, key)) entry = entry->next;
  return entry;
}

static void push(struct wlk_table *table, struct wlk_entry *entry)
{
  struct wlk_entry **chain = chain_of(table, entry->hash);
  entry->next = *chain;
  *chain = entry;
}

void wlk_table_insert(struct wlk_table *table, struct wlk_entry *entry)
{
  push(table, entry);
  table->count++;
}

void wlk_table_remove(struct wlk_table *table, struct wlk_entry *entry)
{
  struct wlk_entry **place = chain_of(table, entry->hash);
  while (*place != entry) place = &(*place)->next;
  *place = entry->next;
  table->count--;
}

static struct wlk_entry *first_from(const struct wlk_table *table, size_t chain)
{
  while (chain < table->capacity && !table->chains[chain]) chain++;
  return chain < table->capacity ? table->chains[chain] : NULL;
}

struct wlk_entry *wlk_table_first(const struct wlk_table *table)
{
  return first_from(table, 0);
}

struct wlk_entry *wlk_table_after(const struct wlk_table *table, const struct wlk_entry *entry)
{
  if (entry->next) return entry->next;
  return first_from(table, (size_t)(entry->hash & (table->capacity - 1)) + 1);
}

/* A resize leaves the table a quarter to half full, so its amortised cost is constant for each
 * insertion or removal. */
size_t wlk_table_wanted_capacity(const struct wlk_table *table)
{
  if (table->count <= table->capacity && table->count >= table->capacity / 8) return 0;
  size_t capacity = WLK_TABLE_LEAST;
  while (capacity < 2 * table->count) capacity *= 2;
  return capacity == table->capacity ? 0 : capacity;
}

struct wlk_entry **wlk_table_rehash(
    struct wlk_table *table, struct wlk_entry **chains, size_t capacity)
{
  struct wlk_entry **old = table->chains;
  struct wlk_entry *all = NULL;
  for (size_t i = 0; i < table->capacity; i++) {
    while (old[i]) {
      struct wlk_entry *entry = old[i];
      old[i] = entry->next;
      entry->next = all;
      all = entry;
    }
  }
  table->chains = capacity == WLK_TABLE_LEAST ? table->least : chains;
  table->capacity = capacity;
  memset(table->chains, 0, capacity * sizeof(struct wlk_entry *));
  while (all) {
    struct wlk_entry *entry = all;
    all = entry->next;
    push(table, entry);
  }
  return old == table->least ? NULL : old;
}
