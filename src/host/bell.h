/* Bells: how members are told that they have mail.
 *
 * Each has one: quiet, owed (it has mail, and was not sent a wake-up yet) or sent, and a count.
 * Inside, the first mail of a member makes a quiet bell owed; after leaving, a wake-up is sent and
 * the bell is sent. The member answers by entering: it takes all mail and makes its bell quiet,
 * counting up. Who pays sends first and then says that it is sent: processes that pay the same at
 * once may each send a wake-up, and the member enters once too often. `owed` has a bit for each
 * member whose bell may be owed; bits are set and cleared inside only, set before the bell. Whoever
 * leaves pays what is owed, also debts of a process that was stopped or died before it could. */
#ifndef WLH_BELL_H
#define WLH_BELL_H

#include "records.h"

/* Our mail is taken: what was sent or owed to us until now is answered. Inside. */
void wlh_bell_hush(struct wlh_bucket *bucket);

/* Rings whom the turn has told something, and finds out who is owed a wake-up. Inside.
 *   owed     out: WLH_MEMBERS bits
 *   returns  whether one of them is set */
bool wlh_bell_ring(struct wlh_bucket *bucket, uint64_t *owed);

/* Sends the wake-ups that are still owed; what cannot be sent now is noted in `debts`, and whom
 * nobody is there for in `suspects`. With mu. */
void wlh_bell_pay(struct wlh_bucket *bucket, const uint64_t *owed);

/* Sends owed wake-ups of `debts` again. True if none is left. Threads: the helper, with mu. */
bool wlh_bell_pay_debts(struct wlh_bucket *bucket);

#endif
