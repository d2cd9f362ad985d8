/* Notification of this process's agents. All functions but the last require mu and qmu. */
#ifndef WLH_EVENTS_H
#define WLH_EVENTS_H

#include "records.h"

/* Posts an event about an item to its agent. If the agent's thread blocks for the item, unblocks
 * it; otherwise schedules a wake-up, unless a call of that agent runs this critical section. */
void wlh_post_event(
    struct wlh_bucket *bucket, struct wlh_item *item, uint32_t news, uint32_t low, uint32_t high)
    WLK_REQUIRES(bucket->qmu);

void wlh_post_theft(struct wlh_bucket *bucket, struct wlh_item *item, const struct wlh_thief *thief)
    WLK_REQUIRES(bucket->qmu);

/* Schedules a wake-up of the agent whose call runs the section, if it has events left. */
void wlh_wake_caller(struct wlh_bucket *bucket, struct wlh_agent *agent) WLK_REQUIRES(bucket->qmu);

/* Calls the wake functions that are due. Any thread may call this function, without mu and qmu. */
void wlh_wake_agents(struct wlh_bucket *bucket);

#endif
