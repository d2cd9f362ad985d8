/* The work after a death: rebuilding the tables from the committed fields of the cells. */
#ifndef WLH_REBUILD_H
#define WLH_REBUILD_H

#include "cells.h"

/* Rebuilds the tables without the requests and agents of dead members, and grants the requests that
 * became grantable. If few cells are in use, shrinks the segment, so the next rebuild costs less.
 * Cost: O(cells + requests * log(requests)). */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena);

/* A caller that needs more cells must use this function. */
enum wlh_cells_status wlh_cells_rebuild_without_shrinking(struct wlh_arena *arena);

/* Whether a rebuild would probably shrink the segment. The function may be called outside. */
bool wlh_cells_would_shrink(const struct wlh_arena *arena);

/* If a member is dead, rebuilds the tables and returns true. */
bool wlh_cells_reap(struct wlh_arena *arena);

#endif
