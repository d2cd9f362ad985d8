/* The store of an agent: memory for its requests, and a spare resource for the next name, so that
 * nothing is allocated under a mutex. A resource's memory comes from the first agent that requests
 * the name, and goes to the agent whose call ends the last request. Threads: the agent's own. */
#ifndef WLK_STORE_H
#define WLK_STORE_H

#include "records.h"

void wlk_store_init(struct wlk_agent *agent);

/* Afterwards `agent->spare` must not be used. */
void wlk_store_clear(struct wlk_agent *agent);

/* Puts a name into the agent's spare resource. Returns NULL if out of memory. */
struct wlk_resource *wlk_resource_prepare(
    struct wlk_agent *agent, const uint16_t *name, uint32_t length);

/* Makes the resource the agent's spare, if it has none, or frees it. The resource must be in no
 * manager. */
void wlk_resource_recycle(struct wlk_agent *agent, struct wlk_resource *resource);

/* Frees the agent's spare resource if it is too large to keep. */
void wlk_resource_trim_spare(struct wlk_agent *agent);

/* Makes a pending request, in no list, for the name of the agent's spare. `extra` may be NULL.
 * Returns NULL if out of memory. */
struct wlk_request *wlk_request_new(
    struct wlk_agent *agent, enum wlk_mode mode, uint32_t tag, const struct wlk_extra *extra);

/* The request must be in no list. */
void wlk_request_recycle(struct wlk_request *request);

#endif
