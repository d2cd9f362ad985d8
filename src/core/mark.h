/* Marks: names of locks that were released as done, each for a time of the process's clock. Public
 * part in weblocks.h.
 *
 * A mark is made before it is set, for a lock: while that lock is held the memory stays. What is
 * over, and what no lock can set any more, is dropped without a timer: each mark that is made has
 * two others looked at, in turn. So there are at most about twice as many as count, and an old one
 * stays where none are made.
 *
 * Threads: the caller has the mutex of the shard, but for wlk_mark_new and wlk_marks_free. */
#ifndef WLK_MARK_H
#define WLK_MARK_H

#include "turn.h"

/* Makes memory for a mark of a name of so many code units, in no table yet. NULL when there is
 * none. */
struct wlk_entry *wlk_mark_new(uint32_t length);

/* Looks for the mark of a lock that is held; makes it if there is none.
 *   unused   in: what wlk_mark_new made, or NULL; out: marks to be freed without the mutex, by
 *            `next`
 *   returns  WLK_MARKED, WLK_OK, as wlk_is_marked; WLK_NO_MEMORY if it is to be made of NULL */
enum wlk_status wlk_mark_prepare(
    struct wlk_turn *turn, const struct wlk_request *lock, struct wlk_entry **unused)
    WLK_REQUIRES(turn->shard->mutex);

/* Marks the name of a lock that is held for `keep` milliseconds. False if wlk_mark_prepare has not
 * made the mark of that lock. */
bool wlk_mark_set(const struct wlk_request *lock, uint64_t keep);

/* Frees marks that are in no table, by `next`; NULL for none. */
void wlk_marks_free(struct wlk_entry *marks);

/* Frees all marks of a manager that nobody has any more, and their tables. */
void wlk_marks_clear(struct wlk_manager *manager);

#endif
