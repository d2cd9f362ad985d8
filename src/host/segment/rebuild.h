/* The work after a death: rebuilding the tables from the committed fields of the cells. */
#ifndef WLH_REBUILD_H
#define WLH_REBUILD_H

#include "cells.h"

/* Rebuilds the tables from the truth in the cells (segment.h), without the requests and agents of
 * dead members, and grants the requests that became grantable. If few cells are in use, it shrinks
 * the segment, so that the next rebuild costs less.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     O(cells + requests * log(requests)) */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena);

/* Rebuilds as wlh_cells_rebuild does, but never shrinks the segment, for callers that need more
 * cells. */
enum wlh_cells_status wlh_cells_rebuild_without_shrinking(struct wlh_arena *arena);

/* Whether a rebuild would probably shrink the segment. It may be called outside. */
bool wlh_cells_would_shrink(const struct wlh_arena *arena);

/* Calls `arena->alive` for the members. At the first dead member, rebuilds the tables and returns
 * true. */
bool wlh_cells_reap(struct wlh_arena *arena);

#endif
