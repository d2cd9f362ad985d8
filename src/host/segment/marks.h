/* A mark says that the work of a name is done (`once`). The holder of an exclusive lock marks the
 * name in the critical section that releases the lock. A mark is a field of the name's RESOURCE
 * cell, so it needs no free cell. One store commits the mark before the release: if the process is
 * killed in between, the work is done, and the lock ends like that of any dead holder.
 *
 * A marked name keeps its cells when the last request ends. There is no timer: a name whose mark is
 * over is removed at the end of its next request, or by a rebuild. Marks outlive all members: the
 * process that recreates a file keeps them, unless the file is damaged. Times of another boot's
 * clock mean nothing, so after a reboot only the marks that never end are kept. */
#ifndef WLH_MARKS_H
#define WLH_MARKS_H

#include "store.h"

bool wlh_name_is_marked(struct wlh_arena *arena, uint32_t resource);

/* Marks a name for `keep_ms` milliseconds, or for ever if it is at least WLH_COUNT_MOST. */
void wlh_name_mark(struct wlh_arena *arena, uint32_t resource, uint64_t keep_ms);

/* Returns the value of `marked` for a mark of this name that never ends. */
uint64_t wlh_name_endless_mark(struct wlh_arena *arena, uint32_t resource);

#endif
