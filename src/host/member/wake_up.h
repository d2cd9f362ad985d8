/* Wake-ups of members that have mail. The state of a member's wake-up is quiet, due or sent, with a
 * count. Inside, the first mail of a quiet member makes it due. After leaving, the sender sends the
 * wake-up and then stores "sent"; several processes may send the same one, and the member then
 * enters once too often. The member enters, takes all mail, and stores "quiet" with the next count.
 * `due` of the header has a bit for each member whose wake-up may be due. Bits change only inside,
 * and are set before the state. A process that leaves sends all due wake-ups, also those of a
 * process that stopped or died before it could. */
#ifndef WLH_WAKE_UP_H
#define WLH_WAKE_UP_H

#include "records.h"

/* Our mail is taken, so no wake-up that was sent or is due is needed. Inside. */
void wlh_wake_up_acknowledge(struct wlh_bucket *bucket);

/* Marks the members that this critical section notified as due, and collects all due wake-ups.
 * Inside.
 *   due     out: WLH_MEMBERS bits
 *   returns  whether one of them is set */
bool wlh_wake_up_mark(struct wlh_bucket *bucket, uint64_t *due);

/* Sends the wake-ups that are still due. Notes those that fail in `unsent`, and members that do not
 * answer in `suspects`. With mu. */
void wlh_wake_up_send(struct wlh_bucket *bucket, const uint64_t *due);

/* Returns whether none of `unsent` is left. Threads: the helper, with mu. */
bool wlh_wake_up_retry(struct wlh_bucket *bucket);

#endif
