/* The helper: one thread for each bucket of a process that has something to do or its file open. It
 * opens the file, does what was put off, takes mail when it is sent a wake-up, watches the other
 * members while this process waits, repairs what can be repaired, and at the end leaves. It sleeps
 * while there is nothing to do. */
#ifndef WLH_HELPER_H
#define WLH_HELPER_H

#include "records.h"

/* Has the helper run, and look what there is to do. False when no thread can be started: then
 * nothing that was put off is going to be done. Threads: any, without qmu. */
bool wlh_helper_start(struct wlh_bucket *bucket);

/* Has the helper leave, and waits until the file is closed and the bucket is the caller's alone.
 * The thread may take some milliseconds more to end, with nothing of the bucket in its hands.
 * Threads: any but the helper, with no lock. */
void wlh_helper_stop(struct wlh_bucket *bucket);

/* Leaves fewer cells where few are in use: at once if `idle`, that no agent had a turn in the last
 * second; under load once it has found so ten times in a row, as cells that are given up may be
 * needed again. The helper calls it each second. With mu, outside. */
void wlh_helper_give_up_cells(struct wlh_bucket *bucket, bool idle);

#endif
