/* The lock request queue of a name (section 2.5 of the specification). Requests with a higher
 * priority are ahead; among requests of the same priority, the older request is ahead. Nearly all
 * requests have priority 0, and then the queue is a plain list with new requests at its end.
 *
 * All waiting requests with the same priority, other than 0, form a level. One of them represents
 * it in `resource->levels`: the last one if the priority is above 0, the first one if it is below.
 * So a new request finds its place by reading one request for each level. If its priority is above
 * 0, it is inserted after the last request of its level or of the next higher level; otherwise
 * before the first request of the next lower level. Requests of priority 0 stand between the two
 * kinds of levels and need no representative.
 *
 * Threads: the caller must have the mutex of the shard. */
#ifndef WLK_QUEUE_H
#define WLK_QUEUE_H

#include "records.h"

/* The request must not be in its queue yet, which must not be empty. */
bool wlk_queue_would_be_first(const struct wlk_request *request);

/* The request must not be in its queue yet. */
bool wlk_queue_would_overtake(const struct wlk_request *request);

/* Returns whether the first request of the queue has a higher priority. */
bool wlk_queue_is_overtaken(const struct wlk_request *request);

/* Cost: O(different priorities other than 0 in the queue). */
void wlk_queue_enter(struct wlk_request *request);

void wlk_queue_leave(struct wlk_request *request);

#endif
