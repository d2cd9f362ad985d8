/* The tables' critical section: how a process enters and leaves it, and notifies other processes.
 * The mutex is `word` of the header: 0, or generation << 16 | member + 1 of its owner. The owner
 * leaves by storing 0. If the kernel has dropped the owner's byte lock, another member takes the
 * mutex over by a compare-and-swap from the dead owner's word. If the new owner cannot rebuild (it
 * has lost the tables), it restores that word. No two owners with the same number have the same
 * generation, so a late compare-and-swap cannot take the mutex from a living owner.
 * test/host/mutex.pml is a model of this mutex. */
#ifndef WLH_SECTION_H
#define WLH_SECTION_H

#include "deferred.h"

/* Tries for some microseconds to enter, and then does the deferred operations. Returns true if the
 * caller is inside, until wlh_leave; otherwise it must defer its operation. It must have neither mu
 * nor qmu. `caller` is the agent whose call this is, and which needs no wake-up, or NULL. */
bool wlh_try_enter(struct wlh_bucket *bucket, struct wlh_agent *caller);

/* Takes our mail, leaves, sends wake-ups and wakes our own agents. The thread that entered by
 * wlh_try_enter must call this function, without qmu. */
void wlh_leave(struct wlh_bucket *bucket);

enum wlh_way {
  WLH_IN,   /* inside */
  WLH_SHUT, /* the bucket is being closed, and the 2 ms are over */
  WLH_TORN  /* the file or its tables are lost */
};

/* Enters, however long it takes; once the bucket is being closed, tries for at most 2 ms more.
 * After a death inside, rebuilds the tables. Only the helper calls it, with mu. */
enum wlh_way wlh_enter(struct wlh_bucket *bucket);

/* The two halves of wlh_leave. In between, the caller still has mu, so no other thread of this
 * process takes mail. The helper needs only the first half. `wakes` says whether bucket->to_wake
 * has entries. */
void wlh_leave_tables(struct wlh_bucket *bucket);
void wlh_unlock_bucket(struct wlh_bucket *bucket, bool wakes);

/* Extends the tables to the end of a file that has grown. The caller must have mu. Returns 0, or
 * the system's error if not all of the file can be mapped. */
int wlh_extend_tables(struct wlh_bucket *bucket);

#endif
