/* A hash table from names (UTF-16 code units, compared one by one) to intrusive entries. To resize
 * without allocating under the mutex, call `wlk_table_wanted_capacity`, allocate, call
 * `wlk_table_rehash`, and free the result. Threads: the caller must have the mutex that guards the
 * table. */
#ifndef WLK_TABLE_H
#define WLK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WLK_TABLE_LEAST = 8 };

/* Lock key: (m) the mutex that guards the table  (c) constant while the entry is in a table */
struct wlk_entry {
  struct wlk_entry *next; /* (m) in its chain */
  uint64_t hash;          /* (c) */
  const uint16_t *name;   /* (c) in the struct that contains the entry */
  uint32_t length;        /* (c) of `name`, in code units */
};

struct wlk_table {
  struct wlk_entry **chains;                /* (m) `least`, or an allocated array */
  size_t capacity;                          /* (m) number of chains, a power of two */
  size_t count;                             /* (m) number of entries */
  struct wlk_entry *least[WLK_TABLE_LEAST]; /* (m) so a small table needs no allocation */
};

/* The table points into itself, so it must not move in memory. */
void wlk_table_init(struct wlk_table *table);

/* `name` may be NULL if `length` is 0. */
bool wlk_entry_has_name(const struct wlk_entry *entry, const uint16_t *name, uint32_t length);

/* Compares hashes and names. Returns NULL if there is no such entry. */
struct wlk_entry *wlk_table_find(const struct wlk_table *table, const struct wlk_entry *key);

/* The name must not be in the table yet. */
void wlk_table_insert(struct wlk_table *table, struct wlk_entry *entry);

void wlk_table_remove(struct wlk_table *table, struct wlk_entry *entry);

/* These functions return entries in no particular order, and NULL at the end. */
struct wlk_entry *wlk_table_first(const struct wlk_table *table);
struct wlk_entry *wlk_table_after(const struct wlk_table *table, const struct wlk_entry *entry);

/* Returns the number of chains that the table should have, or 0 if it has that number. */
size_t wlk_table_wanted_capacity(const struct wlk_table *table);

/* Moves all entries to other chains, in O(entries + capacity).
 *   chains   memory for `capacity` pointers, which the table then owns; unused for WLK_TABLE_LEAST
 *   capacity a power of two, at least WLK_TABLE_LEAST
 *   returns  the previous array, which the caller must free, or NULL */
struct wlk_entry **wlk_table_rehash(
    struct wlk_table *table, struct wlk_entry **chains, size_t capacity);

#endif
