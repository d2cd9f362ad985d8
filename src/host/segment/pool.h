/* The free cells of a segment, and texts made of cells. */
#ifndef WLH_POOL_H
#define WLH_POOL_H

#include "store.h"

/* Takes a free cell, which stays FREE until its commit. The caller has checked `nfree`, and commits
 * it before the next call.
 *   returns  the cell; 0, after damage, if there is none */
uint32_t wlh_pool_take(struct wlh_arena *arena);

/* Makes a cell FREE, which commits its end. All fields but the one behind `kind` stay readable
 * until the next cell is taken. */
void wlh_pool_free(struct wlh_arena *arena, uint32_t cell);

/* Puts a FREE cell into the free list. */
void wlh_pool_add(struct wlh_arena *arena, uint32_t cell);

/* Returns how many cells a text of `units` code units has. */
static inline uint32_t wlh_text_cell_count(uint32_t units)
{
  return (units + WLH_TEXT_UNITS - 1) / WLH_TEXT_UNITS;
}

/* Writes a text. There are wlh_text_cell_count(units) free cells.
 *   returns  its first cell; 0 if `units` is 0 */
uint32_t wlh_text_write(struct wlh_arena *arena, const uint16_t *text, uint32_t units);

void wlh_text_free(struct wlh_arena *arena, uint32_t first, uint32_t units);

/* Whether a text is the `units` code units at `text`. */
bool wlh_text_equals(struct wlh_arena *arena, uint32_t first, const uint16_t *text, uint32_t units);

/* Copies a text to `to`; damaged parts become zeros. */
void wlh_text_copy(struct wlh_arena *arena, uint32_t first, uint16_t *to, uint32_t units);

/* Marks a text as in use for a rebuild: TEXT becomes KEPT. A text that is not whole, or already in
 * use, is damage. */
void wlh_text_keep(struct wlh_arena *arena, uint32_t first, uint32_t units);

#endif
