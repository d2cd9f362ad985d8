/* Marks: names whose work is done (`once`). The holder of an exclusive lock marks the name in the
 * step that releases it. A mark is a field of the name's RESOURCE cell, so marking needs no room,
 * and it is committed by one store before the release is: a process that is killed in between has
 * done the work, and its lock ends like that of any dead holder.
 *
 * A marked name keeps its cells when the last request ends. There is no timer: a name whose mark is
 * over goes with its next request, or at a rebuild, which also precedes growth. Marks outlive all
 * members. The process that recreates a file keeps the marks, unless the file is damaged. A clock
 * of another boot means nothing, so of another boot only the marks without an end are kept. */
#ifndef WLH_MARKS_H
#define WLH_MARKS_H

#include "store.h"

bool wlh_name_is_marked(struct wlh_arena *arena, uint32_t resource);

/* Marks a name for `keep` milliseconds, or, with UINT64_MAX, for ever. */
void wlh_name_mark(struct wlh_arena *arena, uint32_t resource, uint64_t keep);

/* Returns the value of `marked` for this name and a mark that never ends. */
uint64_t wlh_name_mark_for_ever(struct wlh_arena *arena, uint32_t resource);

#endif
