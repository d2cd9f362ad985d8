/* The resources of a manager: they come with the first request for a name and go with the last. */
#ifndef WLK_RESOURCE_H
#define WLK_RESOURCE_H

#include "turn.h"

/* Returns the manager's resource with the name of the caller's spare, which is in the turn's shard.
 * If there is none, the spare becomes it, empty. */
struct wlk_resource *wlk_resource_get(struct wlk_turn *turn, struct wlk_manager *manager)
    WLK_REQUIRES(turn->shard->mutex);

/* Takes a resource that nobody holds or waits for off its manager; the turn will free it. */
void wlk_resource_drop_if_unused(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->shard->mutex);

#endif
