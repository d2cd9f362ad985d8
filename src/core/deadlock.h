/* Deadlocks among requests that declare what waits for them (`reject_deadlock` in weblocks.h).
 *
 * Only declared requests are part of it, while they are pending and as locks: any other may go away
 * without being granted, and what a lock waits for that never declared is not known. The wait-for
 * graph:
 *
 * - A pending declared request waits for a lock held on its resource if the two cannot be held
 *   together (one is exclusive, or their weights exceed the limit), or if that is so for a declared
 *   request ahead of it in the queue. So a shared request without a weight waits for shared locks
 *   only behind a declared exclusive one: those of the queue that did not declare may be gone when
 *   it is its turn.
 * - A new request with a weight waits for the locks of its resource that it was made inside of, if
 *   all of them together leave it no room.
 * - A lock waits for every pending declared request that was made inside it.
 *
 * With a limit, then, a request waits for each lock without whose end it cannot be granted. Where
 * any one of several locks could make room, it waits for none of them: that all of them wait for
 * each other (two hold one of two units each, and each wants one more) is not found. What is found
 * is a deadlock.
 *
 * What waits can only go on when all that it waits for has come to an end, so each cycle is a
 * deadlock. Only a new pending request adds a way out of a lock that others wait for already: what
 * a pending request waits for later and not from its beginning is a lock that is granted after it
 * was made, and that has no requests inside it yet; or what a new request waits for that has more
 * priority and gets ahead of it. The latter waits for that new request itself. So looking for a
 * cycle through each new request finds all, if also those count as waiting for it that it gets
 * ahead of.
 *
 * What it costs, beside what declarations do (declaration.h): the search visits each request and
 * each lock it reaches once, over O(1) each of the ways that lead there, which is O(locks held) for
 * each request that is reached; where there is a limit, the declared requests ahead of it come in
 * addition. */
#ifndef WLK_DEADLOCK_H
#define WLK_DEADLOCK_H

#include "records.h"

/* Looks for a cycle that `asker`, whose request has its resource but is in no list yet, would close
 * by waiting. Returns the last request of the cycle, from which `waiting` leads back to `asker`,
 * and in `*last` the lock that this one waits for and that the asker was made inside of, or inside
 * of which a request waits that the asker would get ahead of; NULL if there is no cycle. Cost:
 * above; to look for the latter adds, for each lock that is reached, the requests inside of it. */
struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
    WLK_REQUIRES(process->mutex);

#endif
