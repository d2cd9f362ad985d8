/* News: how agents of this process are told of events. */
#ifndef WLH_NEWS_H
#define WLH_NEWS_H

#include "records.h"

/* Tells an agent news of an item of its: notes the event, and has the agent woken, unless it is the
 * caller of the turn. With mu and qmu. */
void wlh_tell(
    struct wlh_bucket *bucket, struct wlh_item *item, uint32_t news, uint32_t low, uint32_t high)
    WLK_REQUIRES(bucket->qmu);

/* Tells it that a lock was stolen. With mu and qmu. */
void wlh_tell_theft(struct wlh_bucket *bucket, struct wlh_item *item, const struct wlh_thief *thief)
    WLK_REQUIRES(bucket->qmu);

/* Has the caller of a turn woken by the events that it leaves. With mu and qmu. */
void wlh_wake_later(struct wlh_bucket *bucket, struct wlh_agent *agent) WLK_REQUIRES(bucket->qmu);

/* Calls the wake functions that are due. Threads: any, with neither lock. */
void wlh_wake_agents(struct wlh_bucket *bucket);

#endif
