/* Wake-ups of members that have mail. The state of a member's wake-up is quiet, due or sent, with a
 * count. Inside, the first mail of a quiet member makes its wake-up due. After leaving, the sender
 * sends the wake-up and then stores "sent"; if several processes send the same wake-up, the member
 * enters once more than necessary. The member enters, takes all mail, and stores "quiet" with the
 * next count. `due` of the header has a bit for each member whose wake-up may be due. Bits change
 * only inside, and are set before the state. A process that leaves must send all due wake-ups,
 * including those that a stopped or dead process has not sent. */
#ifndef WLH_WAKE_UP_H
#define WLH_WAKE_UP_H

#include "records.h"

/* The caller must be inside, and have taken our mail. */
void wlh_wake_up_acknowledge(struct wlh_bucket *bucket);

/* Makes the wake-ups of the members in `to_notify` due, and sets WLH_MEMBERS bits in `due` to all
 * due wake-ups. Returns whether there is any. The caller must be inside. */
bool wlh_wake_up_mark(struct wlh_bucket *bucket, uint64_t *due);

/* Sends the wake-ups that are still due. Records failed wake-ups in `unsent`, and members without a
 * socket in `suspects`. The caller must have mu. */
void wlh_wake_up_send(struct wlh_bucket *bucket, const uint64_t *due);

/* Sends the wake-ups of `unsent` again. Returns whether none is left. The caller must have mu. */
bool wlh_wake_up_retry(struct wlh_bucket *bucket);

#endif
