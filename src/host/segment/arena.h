/* The segment as a whole: how it is formatted, how a critical section begins, and how the segment
 * grows and shrinks. */
#ifndef WLH_ARENA_H
#define WLH_ARENA_H

#include "cells.h"

/* Formats a segment, whatever bytes it contains, except for the magic and `retired`, which the
 * caller must write. The generations of members continue and, if the segment is of this boot, so
 * does the token.
 *   segment  wlh_segment_bytes(ncells) bytes
 *   ncells   a power of two, WLH_CELLS_LEAST to WLH_CELLS_MOST
 *   boot     hash of the boot id
 *   hash_key random */
void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2]);

/* Initialises an arena without reading the segment: until wlh_cells_begin, the segment is assumed
 * to have WLH_CELLS_LEAST cells. `bytes` is the size of the file. */
void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data);

/* Whether the file has the magic and the unused cell 0, which never change while there are members.
 * The caller must have mapped WLH_CELLS_LEAST cells. */
bool wlh_cells_is_formatted(const struct wlh_segment *segment);

/* Begins a critical section. All masks and bounds rely on the numbers of cells and members, so each
 * section checks that both are in range. It also checks that no counter has decreased, that the
 * hash key is unchanged, and that the segment is formatted.
 *   now      milliseconds of a clock that all processes share
 *   returns  WLH_CELLS_OK
 *            WLH_CELLS_GREW  the segment is larger than `bytes`. The caller must set `bytes` to the
 *                            size of the file and call again. If the second call also returns GREW,
 *                            the file was truncated, or cannot be mapped
 *            WLH_CELLS_LOST  another process has taken us for dead since we joined
 *            WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now);

/* These functions must be called before and after cells are read from outside, by one thread of a
 * member at a time. In between, the cells stay readable, because no space is given back, but other
 * processes change them. A reader that uses `ncells` of its last critical section must first call
 * wlh_cells_has_member.
 *   returns  end_look: whether the caller must enter and leave, to give space back */
void wlh_cells_begin_look(struct wlh_segment *segment, uint32_t member);
bool wlh_cells_end_look(struct wlh_segment *segment, uint32_t member);

/* If there is unused space after the cells and no member reads them from outside, returns true:
 * before it leaves, the caller must give the space back to the system and then call
 * wlh_cells_end_give_back. If a member still reads the cells, the wlh_cells_end_look of that member
 * will return true. */
bool wlh_cells_begin_give_back(struct wlh_arena *arena);
void wlh_cells_end_give_back(struct wlh_arena *arena);

/* Whether the segment is formatted, not damaged and as large as when we last entered, and has our
 * member. This function, wlh_cells_has_agent and wlh_cells_has_request may be called outside. They
 * can then see half of a change, so a negative result must be checked again inside. */
bool wlh_cells_has_member(const struct wlh_arena *arena);

/* Declares the segment damaged, until it is formatted again. */
void wlh_cells_poison(struct wlh_arena *arena);

/* Doubles the number of cells until there are `ncells`. The file and `bytes` must be large enough.
 * Does nothing if there are that many cells already.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     that of wlh_cells_rebuild */
enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells);

/* If the segment has ever had marks, frees the unused names whose marks are over. It must be called
 * before the segment grows. Returns whether that freed enough: a quarter of all cells stays free
 * after `needed` cells are taken. Then the segment need not grow. */
bool wlh_cells_make_room(struct wlh_arena *arena, uint32_t needed);

/* Whether a segment that no process has open has marks, and can be used again with them.
 *   bytes    size of the file, which is mapped */
bool wlh_cells_can_reuse(const struct wlh_segment *segment, uint64_t bytes);

/* Uses a segment again: frees all requests, agents and members, but keeps the marks that are not
 * over. If the segment is of another boot, keeps only the marks that never end, and of these only
 * those that the disk has completely, with their names. No process may have the segment open. If
 * this process dies during the call, the next process must make the same call.
 *   same     whether the segment is of this boot
 *   returns  whether the segment is usable; if not, it must be formatted */
bool wlh_cells_reuse(struct wlh_segment *segment, uint64_t bytes, uint64_t boot, bool same);

/* Returns the number of free cells. A request needs one cell, a new name one, and a text one for
 * each WLH_TEXT_UNITS code units (of a name, after the first WLH_NAME_INLINE code units). */
uint32_t wlh_cells_free_count(const struct wlh_arena *arena);

#endif
