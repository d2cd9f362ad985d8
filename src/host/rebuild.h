/* The tables after a death. */
#ifndef WLH_REBUILD_H
#define WLH_REBUILD_H

#include "cells.h"

/* Makes the tables anew from the truth in the cells, without what dead members had: after a mutex
 * was taken from the dead. Grants what became grantable. Leaves fewer cells if few of them are in
 * use, so that the next rebuild costs less.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     O(cells + requests * log(requests)) */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena);

/* The same, and leaves all cells: for who has just added some. */
enum wlh_cells_status wlh_cells_rebuild_whole(struct wlh_arena *arena);

/* Whether a rebuild would leave far fewer cells, as far as one look tells. May be asked outside. */
bool wlh_cells_is_roomy(const struct wlh_arena *arena);

/* Asks `alive` for all members; if one is dead, rebuilds. Returns whether one was. */
bool wlh_cells_bury(struct wlh_arena *arena);

#endif
