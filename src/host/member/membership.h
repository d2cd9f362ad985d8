/* How a process becomes a member of a segment, and leaves it. */
#ifndef WLH_MEMBERSHIP_H
#define WLH_MEMBERSHIP_H

#include "records.h"

/* Opens the file and joins. If this succeeds, sets `open`; otherwise undoes everything. Only the
 * helper calls it, with mu.
 *   returns  WLH_OK, WLH_UNSUPPORTED, WLH_VERSION, WLH_FULL, WLH_LOST, WLH_NO_MEMORY, or WLH_CLOSED
 *            if the bucket was closed in the meantime */
enum wlh_status wlh_member_open(struct wlh_bucket *bucket, struct wlh_failure *failure);

/* Leaves the segment and closes the file. If the tables are lost, or their critical section cannot
 * be entered within 2 ms, the other processes see a death. Only the helper calls it, with mu.
 *   returns  the watch's descriptor, or -1. The caller must close it, but only when no thread waits
 *            for the caller, because closing it takes some 10 ms */
int wlh_member_close(struct wlh_bucket *bucket);

#endif
