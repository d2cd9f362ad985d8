/* Checks the invariants of records.h, in tests and debug builds (WLK_CHECKS). */
#ifndef WLK_CHECK_H
#define WLK_CHECK_H

#include "records.h"

#if defined(WLK_CHECKS)

/* Returns NULL, or a sentence that says which invariant is broken. Threads: no other thread may be
 * inside a call of the core. */
const char *wlk_check(struct wlk_process *process);

/* If an invariant is broken, aborts the program.
 *   whole   whether the caller also has the process's mutex */
void wlk_check_or_stop(struct wlk_process *process, const struct wlk_shard *shard, bool whole)
    WLK_REQUIRES(shard->mutex);

#define WLK_CHECK(process, shard, whole) wlk_check_or_stop(process, shard, whole)
#else
#define WLK_CHECK(process, shard, whole) ((void)0)
#endif

#endif
