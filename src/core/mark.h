/* Marks: names that wlk_release_and_mark has marked, each for a time that wlk_port_now measures. A
 * mark must be prepared for a lock before it is set, and its memory stays while that lock is held.
 * There is no timer: inserting a mark drops up to two older marks that are over and can no longer
 * be set, so there are at most about twice as many marks as needed. Threads: the caller must have
 * the mutex of the shard, except for wlk_mark_new, wlk_marks_free and wlk_marks_clear. */
#ifndef WLK_MARK_H
#define WLK_MARK_H

#include "section.h"

/* Allocates a mark for a name of `length` code units, which is in no table yet. Returns NULL if out
 * of memory. */
struct wlk_entry *wlk_mark_new(uint32_t length);

/* Finds or inserts the mark for the name of a held lock, and prepares it for that lock unless the
 * name is marked.
 *   unused   in: the result of wlk_mark_new, or NULL; out: marks to free without the mutex,
 *            chained by `next`
 *   returns  WLK_MARKED, WLK_OK, as wlk_prepare_mark; WLK_NO_MEMORY if a mark is needed and
 *            `*unused` is NULL */
enum wlk_status wlk_mark_find_or_add(
    struct wlk_section *section, const struct wlk_request *lock, struct wlk_entry **unused)
    WLK_REQUIRES(section->shard->mutex);

/* Marks the name of a held lock for `keep` milliseconds. Returns false if wlk_mark_find_or_add has
 * not prepared the mark for that lock. */
bool wlk_mark_set(const struct wlk_request *lock, uint64_t keep);

void wlk_marks_free(struct wlk_entry *marks);

/* Frees all marks. No other thread may be able to find the manager. */
void wlk_marks_clear(struct wlk_manager *manager);

#endif
