/* Errands: what is only ever done by the helper, snapshots and the answer that the file is open. */
#ifndef WLH_ERRAND_H
#define WLH_ERRAND_H

#include "records.h"

/* Does the first operation that was put off, if it is an errand, and tells its agent. Threads: the
 * helper, with mu, outside. */
void wlh_errand_do(struct wlh_bucket *bucket);

/* Sets the answer of an errand that cannot be done. With qmu. */
void wlh_errand_fail(struct wlh_item *item, enum wlh_status status);

#endif
