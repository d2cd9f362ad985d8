/* Every invariant of the core in one call, for tests and debug builds (WLK_CHECKS). Compiled to
 * nothing otherwise. */
#ifndef WLK_CHECK_H
#define WLK_CHECK_H

#include "process.h"

#if defined(WLK_CHECKS)

/* Looks at everything that `process` knows. Returns NULL if all is well, else a sentence that says
 * which invariant is broken. Cost: O(all locks and requests). */
const char *wlk_check(struct wlk_process *process) WLK_REQUIRES(process->mutex);

/* Called at the end of every turn: ends the program with the sentence if an invariant is broken. */
void wlk_check_or_stop(struct wlk_process *process) WLK_REQUIRES(process->mutex);

#if !defined(WLK_TESTING)
/* Allocations of the core, by all copies of it that were built so, that are not freed. */
long wlk_live_blocks(void);
#endif

#define WLK_CHECK(process) wlk_check_or_stop(process)
#else
#define WLK_CHECK(process) ((void)0)
#endif

#endif
