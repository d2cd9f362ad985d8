/* The segment as a whole: how it is formatted, how a critical section begins, and how the segment
 * grows and shrinks. */
#ifndef WLH_ARENA_H
#define WLH_ARENA_H

#include "cells.h"

/* Makes a segment out of zeros or garbage, except for the magic and `retired`, which are the
 * caller's. Generations continue and, if the segment was of this boot, so does the token.
 *   segment  wlh_segment_bytes(ncells) bytes
 *   ncells   a power of two, WLH_CELLS_LEAST to WLH_CELLS_MOST
 *   boot     hash of the boot id
 *   hash_key random */
void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2]);

/* Initialises an arena and reads nothing: until wlh_cells_begin, the segment counts as one of
 * WLH_CELLS_LEAST cells. `bytes` is the size of the file. */
void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data);

/* Whether the file has the magic and the unused cell 0, which never change while there are members.
 * The caller has mapped WLH_CELLS_LEAST cells. */
bool wlh_cells_is_formatted(const struct wlh_segment *segment);

/* Begins a critical section. All masks and bounds rely on the numbers of cells and members, so each
 * section checks that they are possible. It also checks that no count went back, that the hash key
 * is the same, and that the segment is formatted.
 *   now      milliseconds of a clock that all processes share
 *   returns  WLH_CELLS_OK
 *            WLH_CELLS_GREW  the segment has more cells than `bytes`. The caller sets `bytes` to
 *                            the size of the file and calls again. If the result is the same, the
 *                            file was truncated, or cannot be mapped
 *            WLH_CELLS_LOST  others have taken us for dead since we joined
 *            WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now);

/* Call these before and after reading cells from outside, in one thread of a member at a time. The
 * cells stay readable, because no room is given back, but others change them. A reader that uses
 * `ncells` of its last critical section first asks wlh_cells_has_member.
 *   returns  whether the caller must enter and leave, to give room back */
void wlh_cells_begin_look(struct wlh_segment *segment, uint32_t member);
bool wlh_cells_end_look(struct wlh_segment *segment, uint32_t member);

/* If there is room behind the cells and no member looks, returns true: the caller gives the room
 * back to the system before it leaves, and ends that by wlh_cells_end_give_back. If a member looks,
 * its wlh_cells_end_look returns true later. */
bool wlh_cells_begin_give_back(struct wlh_arena *arena);
void wlh_cells_end_give_back(struct wlh_arena *arena);

/* Whether the segment is as it was when we last entered, and has our member. This,
 * wlh_cells_has_agent and wlh_cells_has_request may be called outside, because only we change what
 * they look for. Their reads are not ordered, so a negative result must be checked again inside. */
bool wlh_cells_has_member(const struct wlh_arena *arena);

/* Marks the segment as damaged, for ever. */
void wlh_cells_poison(struct wlh_arena *arena);

/* Doubles the number of cells until there are `ncells`, for which the file and `bytes` have room.
 * Does nothing if there are as many already.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     as wlh_cells_rebuild */
enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells);

/* Returns the number of free cells. A request needs one, a new name one, and a text one for each
 * WLH_TEXT_UNITS code units (of a name, behind the first WLH_NAME_INLINE). */
uint32_t wlh_cells_free_count(const struct wlh_arena *arena);

#endif
