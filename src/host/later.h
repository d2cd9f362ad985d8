/* Operations that were put off, because the tables could not be entered when they were asked for:
 * the next thread of the process that gets inside does them first, in their order. */
#ifndef WLH_LATER_H
#define WLH_LATER_H

#include "records.h"

/* Puts an operation off. With qmu. */
void wlh_put_off(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_op op)
    WLK_REQUIRES(bucket->qmu);

/* Takes an operation out of what was put off, if it is there. With qmu. */
void wlh_take_off(struct wlh_bucket *bucket, struct wlh_item *item) WLK_REQUIRES(bucket->qmu);

enum wlh_done {
  WLH_DONE_ALL,
  WLH_DONE_SOME,   /* enough for one turn */
  WLH_NEEDS_ROOM,  /* the first one needs more cells than are free */
  WLH_NEEDS_HELPER /* the first one is an errand, for the helper */
};

/* Does what was put off, in order. Inside. */
enum wlh_done wlh_do_put_off(struct wlh_bucket *bucket, uint32_t most);

/* Does what was put off and needs no tables: there are none. With mu. */
void wlh_do_without_tables(struct wlh_bucket *bucket);

/* Makes a request in the tables. Inside.
 *   returns  as wlh_cells_request; its agent's cell was made if need be */
enum wlh_cells_status wlh_place(
    struct wlh_bucket *bucket, struct wlh_request *request, const struct wlh_ask *ask,
    struct wlh_answer *answer);

#endif
