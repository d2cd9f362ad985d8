/* How a process becomes a member of a segment, and leaves it. */
#ifndef WLH_OPENING_H
#define WLH_OPENING_H

#include "records.h"

/* Opens the file and joins. Sets `open`, or leaves nothing behind.
 *   returns  WLH_OK, WLH_UNSUPPORTED, WLH_VERSION, WLH_FULL, WLH_LOST; WLH_CLOSED if it was told to
 *            stop meanwhile
 *   threads  the helper, with mu */
enum wlh_status wlh_member_open(struct wlh_bucket *bucket, struct wlh_failure *failure);

/* Leaves and closes; without a word if the tables are lost, or cannot be entered for 2 ms.
 *   returns  a descriptor that is still to be closed, or -1: the system takes some 10 ms for that
 *            of the watch, and nobody is to wait for it
 *   threads  the helper, with mu */
int wlh_member_close(struct wlh_bucket *bucket);

#endif
