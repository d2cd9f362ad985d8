/* The segment as a whole: how it is made, seen and enlarged. */
#ifndef WLH_ARENA_H
#define WLH_ARENA_H

#include "cells.h"

/* Makes a segment out of zeros or garbage: all but the magic and `retired`, which are the caller's.
 * Generations and, if the segment had been of this boot, the token go on from what they were.
 *   segment  wlh_segment_bytes(ncells) bytes
 *   ncells   a power of two, WLH_CELLS_LEAST to WLH_CELLS_MOST
 *   boot     hash of the boot id
 *   hash_key random */
void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2]);

/* Sets an arena up: `alive` answers for members, `bytes` is how many the file has. Looks at nothing
 * yet: until a turn begins it takes the segment for one of WLH_CELLS_LEAST cells. */
void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data);

/* Whether there is what never changes while the segment has members: the magic, and the cell that
 * is not used. The bytes of WLH_CELLS_LEAST cells can be read. */
bool wlh_cells_is_formatted(const struct wlh_segment *segment);

/* Begins a turn: takes over what others may have changed. In each turn it looks whether the numbers
 * of cells and members can be: all that is masked or bounded by them relies on this; whether counts
 * have gone back, or the key of the names is another one; and whether the segment is formatted.
 *   now      milliseconds of the clock that all processes have in common
 *   returns  WLH_CELLS_OK
 *            WLH_CELLS_GREW  the segment has more cells than `bytes`: the caller asks for the size
 *            of the file, sets `bytes` and calls again; if it is so again, the file was truncated,
 *            or what is behind `bytes` cannot be mapped
 *            WLH_CELLS_LOST  we joined, and others have taken us for dead since
 *            WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now);

/* Who reads cells without being inside does so between these two: no room is given back then, so
 * what is read is there, although its meaning may change. Who reads with `ncells` of its last turn
 * begins with wlh_cells_has_member. One thread of a member at a time.
 *   returns  whether room is to be given back now: the caller has a turn begin and end */
void wlh_cells_begin_look(struct wlh_segment *segment, uint32_t member);
bool wlh_cells_end_look(struct wlh_segment *segment, uint32_t member);

/* Whether the room behind the cells is to be given back to the system, which the caller does before
 * the mutex is left, and then says so. False while a member looks: its end of that tells it. */
bool wlh_cells_can_give_back(struct wlh_arena *arena);
void wlh_cells_gave_back(struct wlh_arena *arena);

/* Whether the segment is formatted and not poisoned, has as many cells as in our last turn, and our
 * own member is in.
 * Here and in the other two that look for what is our own (wlh_cells_has_agent, _has_request) the
 * caller need not be inside: they change nothing, and nobody else changes what makes it ours. But
 * nothing orders what they read, so what is not there is a doubt, to be looked at again inside. */
bool wlh_cells_has_member(const struct wlh_arena *arena);

/* Notes damage that the caller has found, for all and for ever. */
void wlh_cells_poison(struct wlh_arena *arena);

/* Doubles the number of cells, until there are `ncells`; the file and `bytes` must have room for
 * them. Does nothing if there are as many already.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     as wlh_cells_rebuild */
enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells);

/* Cells that are free. Requests need one, a name that is new one, text one for each WLH_TEXT_UNITS
 * code units (of a name, behind the first WLH_NAME_INLINE). */
uint32_t wlh_cells_free(const struct wlh_arena *arena);

#endif
