/* The free cells of a segment, and texts made of cells. */
#ifndef WLH_POOL_H
#define WLH_POOL_H

#include "store.h"

/* Takes a free cell; it stays FREE until its commit, before which no other is taken. There is one:
 * the caller looked at `nfree`.
 *   returns  the cell; 0, and there is damage, if there is none */
uint32_t wlh_pool_take(struct wlh_arena *arena);

/* Makes a cell FREE: the commit of its end. Its fields stay readable until the next is taken, but
 * for the one behind `kind`. */
void wlh_pool_give(struct wlh_arena *arena, uint32_t cell);

/* Puts a cell that is FREE already into the free list. */
void wlh_pool_list(struct wlh_arena *arena, uint32_t cell);

/* How many cells a text of `units` code units has. */
static inline uint32_t wlh_text_cells(uint32_t units)
{
  return (units + WLH_TEXT_UNITS - 1) / WLH_TEXT_UNITS;
}

/* Writes a text. There are wlh_text_cells(units) free cells.
 *   returns  its first cell; 0 if `units` is 0 */
uint32_t wlh_text_put(struct wlh_arena *arena, const uint16_t *text, uint32_t units);

/* Frees a text of `units` code units. */
void wlh_text_give(struct wlh_arena *arena, uint32_t first, uint32_t units);

/* Whether a text is `units` code units at `text`. */
bool wlh_text_is(struct wlh_arena *arena, uint32_t first, const uint16_t *text, uint32_t units);

/* Copies a text to `to`; what is damaged becomes zeros. */
void wlh_text_copy(struct wlh_arena *arena, uint32_t first, uint16_t *to, uint32_t units);

/* Notes for a rebuild that a text is in use: TEXT becomes KEPT. A text that is not whole, or in use
 * already, is damage. */
void wlh_text_keep(struct wlh_arena *arena, uint32_t first, uint32_t units);

#endif
