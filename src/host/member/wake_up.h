/* Wake-ups of members that have mail. The state of a member's wake-up is quiet, due or sent, with a
 * count. Inside, the first mail of a quiet member makes its wake-up due. After leaving, the sender
 * sends the wake-up and then stores "sent"; several processes may send the same wake-up, and then
 * the member enters once more than necessary. The member enters, takes all mail, and stores "quiet"
 * with the next count. `due` of the header has a bit for each member whose wake-up may be due. Bits
 * change only inside, and are set before the state. A process that leaves must send all due
 * wake-ups, including those that a stopped or dead process has not sent. */
#ifndef WLH_WAKE_UP_H
#define WLH_WAKE_UP_H

#include "records.h"

/* Makes our own wake-up quiet, because our mail was taken. The caller must be inside. */
void wlh_wake_up_acknowledge(struct wlh_bucket *bucket);

/* Makes the wake-ups of the members in `to_notify` due, and collects all due wake-ups. The caller
 * must be inside.
 *   due     out: WLH_MEMBERS bits
 *   returns  whether any bit is set */
bool wlh_wake_up_mark(struct wlh_bucket *bucket, uint64_t *due);

/* Sends the wake-ups that are still due. Records failed wake-ups in `unsent`, and members without a
 * socket in `suspects`. The caller must have mu. */
void wlh_wake_up_send(struct wlh_bucket *bucket, const uint64_t *due);

/* Sends the wake-ups of `unsent` again. Returns whether none is left. Only the helper calls it,
 * with mu. */
bool wlh_wake_up_retry(struct wlh_bucket *bucket);

#endif
