/* The free cells of a segment, and texts made of cells. */
#ifndef WLH_POOL_H
#define WLH_POOL_H

#include "store.h"

/* Takes a free cell, which the caller must commit before the next call. The caller must have
 * checked `nfree`: if no cell is free, the function notes damage and returns 0. */
uint32_t wlh_pool_take(struct wlh_arena *arena);

/* Makes a cell FREE, which commits the end of what it held. All but the first eight bytes of that
 * stay readable until the next cell is taken. */
void wlh_pool_free(struct wlh_arena *arena, uint32_t cell);

/* Adds a FREE cell to the free list. */
void wlh_pool_add(struct wlh_arena *arena, uint32_t cell);

static inline uint32_t wlh_text_cell_count(uint32_t units)
{
  return (units + WLH_TEXT_UNITS - 1) / WLH_TEXT_UNITS;
}

/* Returns the first cell of the text, or 0 if `units` is 0. The caller must have checked that
 * enough cells are free. */
uint32_t wlh_text_write(struct wlh_arena *arena, const uint16_t *text, uint32_t units);

void wlh_text_free(struct wlh_arena *arena, uint32_t first, uint32_t units);

bool wlh_text_equals(struct wlh_arena *arena, uint32_t first, const uint16_t *text, uint32_t units);

/* Copies a text. From the first damaged part on, the copy is zeros. */
void wlh_text_copy(struct wlh_arena *arena, uint32_t first, uint16_t *to, uint32_t units);

/* For a rebuild: records that a text is in use, by changing its cells from TEXT to KEPT. If the
 * text is not whole, or is in use already, notes damage. */
void wlh_text_keep(struct wlh_arena *arena, uint32_t first, uint32_t units);

#endif
