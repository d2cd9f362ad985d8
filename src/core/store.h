/* The store of an agent: the memory of its requests, and of the resource that its next request may
 * need. All of it is prepared without a mutex, so that nothing is allocated under one.
 *
 * A request's memory comes from its agent's store and goes back there. A resource's comes from that
 * of the agent that asked first, and goes to that of the agent that left last.
 *
 * Threads: the agent's own. */
#ifndef WLK_STORE_H
#define WLK_STORE_H

#include "records.h"

void wlk_store_init(struct wlk_agent *agent);

/* Gives all memory back. The agent has no requests any more. */
void wlk_store_clear(struct wlk_agent *agent);

/* Puts a name into the agent's spare resource, made or enlarged as needed. The agent keeps it.
 *   returns NULL when out of memory */
struct wlk_resource *wlk_resource_prepare(
    struct wlk_agent *agent, const uint16_t *name, uint32_t length);

/* Takes the memory of a resource back that is in no manager. */
void wlk_resource_recycle(struct wlk_agent *agent, struct wlk_resource *resource);

/* Gives the agent's spare back if it is too long to be kept. */
void wlk_resource_trim_spare(struct wlk_agent *agent);

/* Makes a pending request, for the name of the agent's spare, that is in no list yet. `extra` may
 * be NULL. Returns NULL when out of memory. */
struct wlk_request *wlk_request_new(
    struct wlk_agent *agent, enum wlk_mode mode, uint32_t tag, const struct wlk_extra *extra);

/* Takes the memory of a request of the agent back that is in no list. */
void wlk_request_recycle(struct wlk_request *request);

#endif
