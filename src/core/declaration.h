/* Declarations: what requests carry beyond their record, and which of them are pending inside of
 * which locks. deadlock.h says what for.
 *
 * A lock knows the requests inside it, a request the locks it is inside of: each end of such a pair
 * is found and undone in O(1), so a lock's end costs O(requests inside it), a request's O(locks it
 * was made inside of). Requests that declare nothing pay nothing. A label and a priority, of which
 * queue.h and snapshot.h know, are kept in the same place. */
#ifndef WLK_DECLARATION_H
#define WLK_DECLARATION_H

#include "records.h"

/* Makes the declaration of a request. Returns NULL when out of memory. Threads: any, no mutex. */
struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra);

/* The code units of the label. */
const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration);

/* Whether a declared request is ahead of another one in the queue of both. One that is not in there
 * yet is behind all that have its priority. */
static inline bool wlk_is_ahead(
    const struct wlk_declaration *one, const struct wlk_declaration *other)
{
  return one->priority == other->priority ? one->order < other->order
                                          : one->priority > other->priority;
}

/* Notes that a request, if it is declared, is pending.
 *   cost O(locks it was made inside of + declared requests in the queue that have less priority) */
void wlk_declare(struct wlk_process *process, struct wlk_request *request)
    WLK_REQUIRES(process->mutex);

/* Notes that a request, if it is declared, is pending no more. Its resource is still known.
 *   cost O(locks it was made inside of) */
void wlk_withdraw_declaration(struct wlk_process *process, struct wlk_request *request)
    WLK_REQUIRES(process->mutex);

/* Notes, for the requests inside of it, that a lock has ended.
 *   cost O(those requests) */
void wlk_forget_lock(struct wlk_process *process, struct wlk_request *lock)
    WLK_REQUIRES(process->mutex);

#endif
