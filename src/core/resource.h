/* The resources of a manager, which exist while their names have requests or locks. */
#ifndef WLK_RESOURCE_H
#define WLK_RESOURCE_H

#include "section.h"

/* Finds the resource with the name of the caller's spare; if there is none, inserts the spare. */
struct wlk_resource *wlk_resource_find_or_add(
    struct wlk_section *section, struct wlk_manager *manager) WLK_REQUIRES(section->shard->mutex);

/* If nobody holds the name or waits for it, removes the resource. It is freed at the end of the
 * section. */
void wlk_resource_drop_if_unused(struct wlk_section *section, struct wlk_resource *resource)
    WLK_REQUIRES(section->shard->mutex);

#endif
