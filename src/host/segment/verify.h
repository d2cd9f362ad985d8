#ifndef WLH_VERIFY_H
#define WLH_VERIFY_H

#include "cells.h"

/* For tests: checks all invariants that hold between two critical sections, and changes nothing.
 * Returns NULL, or a sentence that says which invariant is broken. */
const char *wlh_cells_check(struct wlh_arena *arena);

#endif
