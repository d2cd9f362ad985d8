/* Every invariant of a segment, for tests. */
#ifndef WLH_VERIFY_H
#define WLH_VERIFY_H

#include "cells.h"

/* Looks whether all is as it must be between two turns, by every invariant. Changes nothing.
 *   returns  NULL if all is well, else a sentence that says which invariant is broken
 *   cost     O(cells + requests * members) at most */
const char *wlh_cells_check(struct wlh_arena *arena);

#endif
