/* Deferred operations: calls that could not enter the tables' critical section. The next thread of
 * the process that enters the section must do these operations first, in their order. */
#ifndef WLH_DEFERRED_H
#define WLH_DEFERRED_H

#include "records.h"

void wlh_defer(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_op op)
    WLK_REQUIRES(bucket->qmu);

/* Does nothing if the item is no longer in the list. */
void wlh_remove_deferred(struct wlh_bucket *bucket, struct wlh_item *item)
    WLK_REQUIRES(bucket->qmu);

enum wlh_done {
  WLH_DONE_ALL,
  WLH_DONE_SOME,   /* `most` operations are done, and more may be left */
  WLH_NEEDS_ROOM,  /* the first operation needs more free cells, or the tables are lost */
  WLH_NEEDS_HELPER /* the first operation is a job for the helper */
};

/* Does at most `most` deferred operations, oldest first. The caller must be inside. */
enum wlh_done wlh_do_deferred(struct wlh_bucket *bucket, uint32_t most);

/* Does the deferred releases, ends and terminations while the tables are not open. The caller must
 * have mu, or be the only user of the bucket. */
void wlh_do_deferred_without_tables(struct wlh_bucket *bucket);

/* Makes the request and, if need be, the cell of its agent. The caller must be inside. */
enum wlh_cells_status wlh_make_request(
    struct wlh_bucket *bucket, struct wlh_request *request, const struct wlh_ask *ask,
    struct wlh_answer *answer);

#endif
