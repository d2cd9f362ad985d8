/* Declarations: the optional data of a request (a label, a priority), and which declared requests
 * are pending inside which locks. */
#ifndef WLK_DECLARATION_H
#define WLK_DECLARATION_H

#include "records.h"

/* Returns NULL if out of memory. Threads: any, without a mutex. */
struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra);

/* The declaration must be of no request, or of one that has ended. */
void wlk_declaration_free(struct wlk_declaration *declaration);

/* Copies `length` code units, more than 0. Returns NULL if out of memory. */
struct wlk_data *wlk_data_new(const uint16_t *units, uint32_t length);

const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration);

/* A request that is not in the queue yet comes after all requests of its priority. */
static inline bool wlk_is_ahead(
    const struct wlk_declaration *one, const struct wlk_declaration *other)
{
  return one->priority == other->priority ? one->order < other->order
                                          : one->priority > other->priority;
}

/* Call this when a request becomes pending. Cost: O(locks inside which it was made + declared
 * requests in the queue with a lower priority). */
void wlk_declare(struct wlk_process *process, struct wlk_request *request)
    WLK_REQUIRES(process->mutex);

/* Undoes wlk_declare when a request is granted or ends. The request must still have its resource.
 * Cost: O(locks inside which it was made). */
void wlk_withdraw_declaration(struct wlk_process *process, struct wlk_request *request)
    WLK_REQUIRES(process->mutex);

/* Call this when a lock ends. Cost: O(requests inside it). */
void wlk_unlink_inner_requests(struct wlk_process *process, struct wlk_request *lock)
    WLK_REQUIRES(process->mutex);

#endif
