/* What this process has in the tables, compared with what it knows from its own memory: somebody
 * may have written over the file, and others then find there what they need to be granted a lock
 * that is held. */
#ifndef WLH_OWN_H
#define WLH_OWN_H

#include "records.h"

/* Looks whether our member, agents and requests are still there; else the file is damaged and, from
 * then on, lost to all. Without the mutex; only a doubt is looked into inside.
 *   cost     at most 64 agents and 4096 requests, then the next ones at the next look: some 0.2 ms
 *            for so many, in a table that was as large as can be 2 ms more to find them
 *   threads  the helper, with mu, outside */
void wlh_own_look(struct wlh_bucket *bucket);

#endif
