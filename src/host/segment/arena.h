/* Formats a segment, begins its critical sections, and lets it grow and shrink. */
#ifndef WLH_ARENA_H
#define WLH_ARENA_H

#include "cells.h"

/* Formats a segment, whatever bytes it contains, except for the magic and `retired`, which the
 * caller must write. The generations of members continue and, if the segment is of this boot, so
 * does the token. `hash_key` must be random.
 *   segment  wlh_segment_bytes(ncells) bytes
 *   ncells   a power of two, WLH_CELLS_LEAST to WLH_CELLS_MOST */
void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2]);

/* Does not read the segment: until wlh_cells_begin, it is assumed to have WLH_CELLS_LEAST cells. */
void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data);

/* Whether the file has the magic and a FREE cell 0, which do not change while there are members. */
bool wlh_cells_is_formatted(const struct wlh_segment *segment);

/* Begins a critical section. Checks the header, because all masks and bounds rely on its numbers of
 * cells and members.
 *   returns  WLH_CELLS_OK
 *            WLH_CELLS_GREW  the segment is larger than `bytes`. The caller must set `bytes` to the
 *                            size of the file and call again. If the second call also returns GREW,
 *                            the file was truncated, or cannot be mapped
 *            WLH_CELLS_LOST  another process has taken us for dead since we joined
 *            WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now);

/* These functions must be called before and after cells are read from outside. Within a member, two
 * pairs of calls must not overlap. In between, no space is given back, so the cells stay readable.
 * A reader that uses `ncells` of its last critical section must check wlh_cells_has_member after
 * begin_look. end_look returns whether the caller must enter and leave, to give space back. */
void wlh_cells_begin_look(struct wlh_segment *segment, uint32_t member);
bool wlh_cells_end_look(struct wlh_segment *segment, uint32_t member);

/* Returns true if there is unused space after the cells and no member reads the cells from outside.
 * The caller must then give the space back to the system, and call the second function. */
bool wlh_cells_begin_give_back(struct wlh_arena *arena);
void wlh_cells_end_give_back(struct wlh_arena *arena);

/* Whether the segment is formatted, not damaged and as large as when we last entered, and has our
 * member. This function, wlh_cells_has_agent and wlh_cells_has_request may be called outside. They
 * can then see half of a change, so a negative result must be checked again inside. */
bool wlh_cells_has_member(const struct wlh_arena *arena);

void wlh_cells_poison(struct wlh_arena *arena);

/* Doubles the number of cells until there are `ncells`, and rebuilds. `bytes` must suffice. */
enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells);

/* Frees the unused names whose marks are over. This must be tried before the segment grows. Returns
 * true if the segment need not grow: after `needed` cells are taken, a quarter of all cells would
 * still be free. */
bool wlh_cells_make_room(struct wlh_arena *arena, uint32_t needed);

/* Whether a segment that no process has open has marks, and can be used again with them. */
bool wlh_cells_can_reuse(const struct wlh_segment *segment, uint64_t bytes);

/* Uses a segment again: frees all requests, agents and members, but keeps the marks that are not
 * over. If the segment is of another boot (not `same`), keeps only endless marks that the disk has
 * completely, with their names. No process may have the segment open. If this process dies during
 * the call, the next process must make the same call. Returns whether the segment is usable;
 * otherwise it must be formatted. */
bool wlh_cells_reuse(struct wlh_segment *segment, uint64_t bytes, uint64_t boot, bool same);

uint32_t wlh_cells_free_count(const struct wlh_arena *arena);

#endif
