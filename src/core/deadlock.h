/* Finds deadlocks among requests that declare what waits for them (`reject_deadlock` in
 * weblocks.h). Only declared requests, pending or granted, are in the wait-for graph: an undeclared
 * request may end without being granted, and it is unknown which requests wait for an undeclared
 * lock. The edges:
 *
 * - A pending declared request waits for a lock held on its resource if the two cannot be held
 *   together: one is exclusive, or their weights exceed the limit. It also waits for the lock if a
 *   declared request ahead of it in the queue and that lock cannot be held together. A shared
 *   request without a weight therefore waits for shared locks only if a declared exclusive request
 *   is ahead of it: undeclared requests may leave the queue earlier.
 * - A new request with a weight waits for the locks of its resource inside which it was made, if
 *   all of them together leave it too few units.
 * - A lock waits for every pending declared request that was made inside it.
 *
 * Every cycle is a deadlock, because a waiter can go on only after everything to which it has an
 * edge has ended. The reverse is not true: if the end of any one of several locks would be enough
 * for a request, the request has an edge to none of them. So the search does not find two requests
 * that each hold one of two units and each wait for one more unit.
 *
 * A search from each new request is enough: only a new pending request adds an edge out of a lock
 * that other requests wait for. A request that is pending already gains edges to locks that are
 * granted later, which have no requests inside them yet. It also gains edges to the locks that a
 * new request with a higher priority waits for, because the new request overtakes it. The search
 * counts overtaken requests as waiting for the new one.
 *
 * For the costs, see wlk_request_a_lock. */
#ifndef WLK_DEADLOCK_H
#define WLK_DEADLOCK_H

#include "records.h"

/* Searches for a cycle that `asker` would close by waiting. The request of `asker` has its
 * resource, but must be in no list yet. Returns the last request of the cycle, or NULL. From that
 * request, `waiting` leads back to `asker`. `*last` is the lock that closes the cycle: the last
 * request waits for it, and `asker`, or a request that `asker` would overtake, was made inside
 * it. */
struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
    WLK_REQUIRES(process->mutex);

#endif
