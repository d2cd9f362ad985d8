/* The check of this process's cells against its own memory. Without it, if another program
 * overwrote the file, other processes could be granted a lock that this process holds. */
#ifndef WLH_SELF_CHECK_H
#define WLH_SELF_CHECK_H

#include "records.h"

/* Checks that our member, agents and requests are still there. If not, the file is damaged, and
 * lost for all processes. Enters only to confirm a suspicion. Only the helper calls it, with mu and
 * outside. Cost: at most 64 agents and 4096 requests in a call, some 0.2 ms; in the largest table
 * 2 ms more to find them. */
void wlh_check_own_cells(struct wlh_bucket *bucket);

#endif
