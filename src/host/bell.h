/* Wake-ups of members that have mail. The state of a member's wake-up is quiet, owed or sent, with
 * a count. Inside, the first mail of a quiet member makes it owed. After leaving, the sender sends
 * the wake-up and then stores "sent"; several processes may send the same one, and the member then
 * enters once too often. The member enters, takes all mail, and stores "quiet" with the next count.
 *
 * `owed` has a bit for each member that may be owed a wake-up. Bits are set and cleared only
 * inside, and set before the state. A process that leaves sends all owed wake-ups, also those of a
 * process that stopped or died before it could. */
#ifndef WLH_BELL_H
#define WLH_BELL_H

#include "records.h"

/* Acknowledges all wake-ups that were sent or owed to us: our mail is taken. Inside. */
void wlh_bell_hush(struct wlh_bucket *bucket);

/* Marks the members that this critical section notified as owed, and collects all owed wake-ups.
 * Inside.
 *   owed     out: WLH_MEMBERS bits
 *   returns  whether one of them is set */
bool wlh_bell_ring(struct wlh_bucket *bucket, uint64_t *owed);

/* Sends the wake-ups that are still owed. Notes those that fail in `debts`, and members that do not
 * answer in `suspects`. With mu. */
void wlh_bell_pay(struct wlh_bucket *bucket, const uint64_t *owed);

/* Sends the wake-ups of `debts` again. Returns whether none is left. Threads: the helper, with
 * mu. */
bool wlh_bell_pay_debts(struct wlh_bucket *bucket);

#endif
