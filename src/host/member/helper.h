/* The helper: one thread for each bucket of this process that has work or an open file. The helper
 * opens the file, does deferred operations, takes mail after a wake-up, watches other members while
 * this process waits, repairs the files, and finally leaves. It sleeps while there is no work. */
#ifndef WLH_HELPER_H
#define WLH_HELPER_H

#include "records.h"

/* Starts or wakes the helper. Returns false if no thread can be started: then the deferred
 * operations are not done. Any thread that does not have qmu may call this function. */
bool wlh_helper_start(struct wlh_bucket *bucket);

/* Makes the helper leave, and waits until the file is closed and only the caller uses the bucket.
 * Any thread but the helper may call this function, without mu and qmu. */
void wlh_helper_stop(struct wlh_bucket *bucket);

/* Shrinks the tables if few cells are in use. If agents have entered since the last call (not
 * `idle`), they may need the cells again: the tables then shrink only after ten calls in a row that
 * found few cells in use. The caller must have mu, and be outside. */
void wlh_helper_give_up_cells(struct wlh_bucket *bucket, bool idle);

#endif
