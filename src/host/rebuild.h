/* The tables after a death. */
#ifndef WLH_REBUILD_H
#define WLH_REBUILD_H

#include "cells.h"

/* Makes the tables anew from the truth in the cells, without what dead members had: after a mutex
 * was taken from the dead. Grants what became grantable.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     O(cells + requests * log(requests)) */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena);

/* Asks `alive` for all members; if one is dead, rebuilds. Returns whether one was. */
bool wlh_cells_bury(struct wlh_arena *arena);

#endif
