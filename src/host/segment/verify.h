/* The check of every invariant of a segment, for tests. */
#ifndef WLH_VERIFY_H
#define WLH_VERIFY_H

#include "cells.h"

/* Checks all invariants that hold between two critical sections, and changes nothing.
 *   returns  NULL, or a sentence that says which invariant is broken
 *   cost     O(cells + requests * members) at most */
const char *wlh_cells_check(struct wlh_arena *arena);

#endif
