/* How a process becomes a member of a segment, and leaves it. */
#ifndef WLH_MEMBERSHIP_H
#define WLH_MEMBERSHIP_H

#include "records.h"

/* Opens the file and joins. Sets `open`, or leaves nothing behind.
 *   returns  WLH_OK, WLH_UNSUPPORTED, WLH_VERSION, WLH_FULL, WLH_LOST; WLH_CLOSED if the bucket was
 *            closed meanwhile
 *   threads  the helper, with mu */
enum wlh_status wlh_member_open(struct wlh_bucket *bucket, struct wlh_failure *failure);

/* Leaves and closes. If the tables are lost, or cannot be entered for 2 ms, others see a death.
 *   returns  the watch's descriptor, or -1. The caller closes it when nobody waits for that,
 *            because it takes the system some 10 ms
 *   threads  the helper, with mu */
int wlh_member_close(struct wlh_bucket *bucket);

#endif
