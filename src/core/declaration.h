/* Declarations: what requests carry beyond their record, and which of them are pending inside of
 * which locks. deadlock.h says what for.
 *
 * A lock knows the requests inside it, a request the locks it is inside of: each end of such a pair
 * is found and undone in O(1), so a lock's end costs O(requests inside it), a request's O(locks it
 * was made inside of). Requests that declare nothing pay nothing. */
#ifndef WLK_DECLARATION_H
#define WLK_DECLARATION_H

#include "records.h"

/* Makes the declaration of a request. Returns NULL when out of memory. Threads: any, no mutex. */
struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra);

/* The code units of the label. */
const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration);

/* Notes that a request, if it is declared, is pending: the last of its queue.
 *   cost O(locks it was made inside of) */
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
