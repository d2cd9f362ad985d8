/* The helper: one thread for each bucket of this process that has work or an open file. It opens
 * the file, does deferred operations, takes mail after a wake-up, watches other members while this
 * process waits, repairs the files, and finally leaves. It sleeps while there is nothing to do. */
#ifndef WLH_HELPER_H
#define WLH_HELPER_H

#include "records.h"

/* Makes the helper run and look for work. Returns false if no thread can be started: then deferred
 * operations are never done. Threads: any, without qmu. */
bool wlh_helper_start(struct wlh_bucket *bucket);

/* Makes the helper leave, and waits until the file is closed and the bucket is the caller's alone.
 * The thread may need some milliseconds more to end, but uses nothing of the bucket. Threads: any
 * but the helper, with no lock. */
void wlh_helper_stop(struct wlh_bucket *bucket);

/* Gives up cells if few are in use; called each second. `idle` says that no agent has entered
 * since: an idle bucket gives them up at once, a busy one after ten such calls in a row, because it
 * may need them again. With mu, outside. */
void wlh_helper_give_up_cells(struct wlh_bucket *bucket, bool idle);

#endif
