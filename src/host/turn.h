/* Turns: how a process gets inside the tables of a segment, and out of them, and how others are
 * told of it.
 *
 * The mutex is `word` of the header: 0, or generation << 16 | member + 1 of its owner. It is
 * left by its owner's store of 0, or by a takeover: a compare-and-swap from the word of a member
 * whose byte lock the kernel has dropped. Who took it over and cannot rebuild, because the tables
 * are lost to it, puts the dead owner's word back. A generation is never used twice, so a late
 * takeover from a dead owner's word cannot meet a living owner of the same number.
 * test/host/model/mutex.pml is a model of it.
 */
#ifndef WLH_TURN_H
#define WLH_TURN_H

#include "later.h"

/* Enters by a few tries, some microseconds at most, and does what was put off before.
 *   caller   whose call it is; its events wake nobody. NULL for none
 *   returns  true: inside, to be left with wlh_turn_end. False: the operation is to be put off
 *   threads  any, with neither lock */
bool wlh_turn_try(struct wlh_bucket *bucket, struct wlh_agent *caller);

/* Takes our mail, leaves, sends wake-ups, wakes our own agents; frees the trash.
 *   threads  that of wlh_turn_try */
void wlh_turn_end(struct wlh_bucket *bucket);

enum wlh_way {
  WLH_IN,   /* inside */
  WLH_SHUT, /* stop: the time is over */
  WLH_TORN  /* the file or its tables are lost */
};

/* Enters, however long it takes; where told to stop, for at most 2 ms from then. Rebuilds after a
 * death. Does none of what was put off. Threads: the helper, with mu. */
enum wlh_way wlh_turn_wait(struct wlh_bucket *bucket);

/* The two halves of wlh_turn_end: between them nobody of this process can be told anything. The
 * helper needs the first only. `wakes`: whether bucket->to_wake has any; who adds to it wakes, so
 * what others add later is theirs. */
void wlh_turn_leave(struct wlh_bucket *bucket);
void wlh_turn_unlock(struct wlh_bucket *bucket, bool wakes);

/* Has the tables reach to the end of the file, which has grown. With mu.
 *   returns  0, or why the system does not map all of it */
int wlh_turn_reach(struct wlh_bucket *bucket);

#endif
