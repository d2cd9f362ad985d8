/* The lock request queue of a name (2.5): its order, and how a request finds its place.
 *
 * Who has more priority is ahead; of those who have as much, who came first. Nearly all requests
 * have the priority 0, and where all have, the queue is a plain list: who enters it goes to its
 * end.
 *
 * Levels. Those who wait with one priority, other than 0, are a level, and one of them stands for
 * it: the last one if the priority is above 0, the first one if it is below. Those are linked, in
 * the order of the queue (resource->levels). So a request looks at one request for each priority
 * that waits, and at no other, to find its place: behind the last of its level or of the one above;
 * or, from 0 on downwards, before the first of the level below. What is between the levels above 0
 * and those below has 0, and nothing needs to stand for it.
 *
 * Threads: the caller has the mutex of the shard. */
#ifndef WLK_QUEUE_H
#define WLK_QUEUE_H

#include "records.h"

/* Whether a request that is not in the queue of its resource, where others are, would be its first.
 */
bool wlk_queue_would_be_first(const struct wlk_request *request);

/* Whether a request that is not in the queue of its resource would get ahead of one that is. */
bool wlk_queue_would_overtake(const struct wlk_request *request);

/* Whether a request in the queue of its resource waits behind one that has more priority. */
bool wlk_queue_has_more(const struct wlk_request *request);

/* Puts a request into the queue of its resource.
 *   cost O(priorities other than 0 that wait) */
void wlk_queue_enter(struct wlk_request *request);

/* Takes a request off the queue of its resource. */
void wlk_queue_leave(struct wlk_request *request);

#endif
