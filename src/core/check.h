/* Every invariant of the core in one call, for tests and debug builds (WLK_CHECKS). Compiled to
 * nothing otherwise. */
#ifndef WLK_CHECK_H
#define WLK_CHECK_H

#include "records.h"

#if defined(WLK_CHECKS)

/* Looks at everything that `process` knows. Returns NULL if all is well, else a sentence that says
 * which invariant is broken. Cost: O(all locks and requests). Threads: no other may be inside a
 * call of the core. */
const char *wlk_check(struct wlk_process *process);

/* Called at the end of every turn, with the mutex of its shard: looks at all of the shard, and ends
 * the program with the sentence if an invariant is broken.
 *   whole   whether the turn has the process's mutex too */
void wlk_check_or_stop(struct wlk_process *process, const struct wlk_shard *shard, bool whole)
    WLK_REQUIRES(shard->mutex);

#define WLK_CHECK(process, shard, whole) wlk_check_or_stop(process, shard, whole)
#else
#define WLK_CHECK(process, shard, whole) ((void)0)
#endif

#endif
