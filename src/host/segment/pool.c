#include "pool.h"

#include <string.h>

uint32_t wlh_pool_take(struct wlh_arena *arena)
{
  struct wlh_header *header = wlh_header_of(arena);
  uint32_t cell = wlh_read(&header->free);
  if (cell == 0) {
    cell = wlh_read(&header->high);
    if (cell < arena->ncells) WLH_PUT(header->high, cell + 1);
  } else {
    WLH_PUT(header->free, wlh_cell_at(arena, cell)->free.next);
  }
  if (header->nfree == 0 || !wlh_expect(arena, cell, WLH_KIND_FREE)) {
    wlh_note_damage(arena);
    return 0;
  }
  WLH_PUT(header->nfree, header->nfree - 1);
  return cell;
}

void wlh_pool_add(struct wlh_arena *arena, uint32_t cell)
{
  struct wlh_header *header = wlh_header_of(arena);
  WLH_PUT(wlh_cell_at(arena, cell)->free.next, header->free);
  WLH_PUT(header->free, cell);
  WLH_PUT(header->nfree, header->nfree + 1);
}

void wlh_pool_free(struct wlh_arena *arena, uint32_t cell)
{
  wlh_commit_kind(arena, cell, WLH_KIND_FREE);
  wlh_pool_add(arena, cell);
}

static uint32_t part_of(uint32_t units)
{
  return units < WLH_TEXT_UNITS ? units : WLH_TEXT_UNITS;
}

/* The last part is written first, so that each part leads to a part that exists already. */
uint32_t wlh_text_write(struct wlh_arena *arena, const uint16_t *text, uint32_t units)
{
  uint32_t next = 0;
  for (uint32_t i = wlh_text_cell_count(units); i-- > 0;) {
    const uint16_t *part = text + (size_t)i * WLH_TEXT_UNITS;
    uint32_t cell = wlh_pool_take(arena);
    struct wlh_text_cell *to = &wlh_cell_at(arena, cell)->text;
    WLH_PUT(to->next, next);
    WLH_STEP(to->text);
    memcpy(to->text, part, part_of(units - i * WLH_TEXT_UNITS) * sizeof *part);
    wlh_commit_kind(arena, cell, WLH_KIND_TEXT);
    next = cell;
  }
  return next;
}

void wlh_text_free(struct wlh_arena *arena, uint32_t first, uint32_t units)
{
  for (uint32_t i = wlh_text_cell_count(units); i > 0; i--) {
    if (!wlh_expect(arena, first, WLH_KIND_TEXT)) return;
    uint32_t next = wlh_cell_at(arena, first)->text.next;
    wlh_pool_free(arena, first);
    first = next;
  }
}

bool wlh_text_equals(struct wlh_arena *arena, uint32_t first, const uint16_t *text, uint32_t units)
{
  while (units > 0) {
    uint32_t part = part_of(units);
    if (!wlh_expect(arena, first, WLH_KIND_TEXT)) return false;
    const struct wlh_text_cell *cell = &wlh_cell_at(arena, first)->text;
    if (memcmp(cell->text, text, part * sizeof *text) != 0) return false;
    first = cell->next;
    text += part;
    units -= part;
  }
  return true;
}

void wlh_text_copy(struct wlh_arena *arena, uint32_t first, uint16_t *to, uint32_t units)
{
  while (units > 0) {
    uint32_t part = part_of(units);
    if (!wlh_expect(arena, first, WLH_KIND_TEXT)) {
      memset(to, 0, units * sizeof *to);
      return;
    }
    const struct wlh_text_cell *cell = &wlh_cell_at(arena, first)->text;
    memcpy(to, cell->text, part * sizeof *to);
    first = cell->next;
    to += part;
    units -= part;
  }
}

void wlh_text_keep(struct wlh_arena *arena, uint32_t first, uint32_t units)
{
  for (uint32_t i = wlh_text_cell_count(units); i > 0; i--) {
    if (!wlh_expect(arena, first, WLH_KIND_TEXT)) return;
    wlh_commit_kind(arena, first, WLH_KIND_KEPT);
    first = wlh_cell_at(arena, first)->text.next;
  }
  if (first != 0) wlh_note_damage(arena);
}
