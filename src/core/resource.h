/* The resources of a manager. Each exists from the first request for its name until the last one
 * ends. */
#ifndef WLK_RESOURCE_H
#define WLK_RESOURCE_H

#include "section.h"

/* Finds the resource with the name of the caller's spare, in the section's shard. If there is none,
 * inserts the spare as a resource without requests. */
struct wlk_resource *wlk_resource_find_or_add(
    struct wlk_section *section, struct wlk_manager *manager) WLK_REQUIRES(section->shard->mutex);

/* If nobody holds the name or waits for it, removes the resource. The section's end frees it. */
void wlk_resource_drop_if_unused(struct wlk_section *section, struct wlk_resource *resource)
    WLK_REQUIRES(section->shard->mutex);

#endif
