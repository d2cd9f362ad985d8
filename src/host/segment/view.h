/* Snapshots of the lock state. */
#ifndef WLH_VIEW_H
#define WLH_VIEW_H

#include "cells.h"

/* Texts are ranges of the snapshot's `units`. */
struct wlh_entry {
  uint32_t name, name_units;   /* the same range for all entries of a name */
  uint32_t label, label_units; /* label_units is 0 if there is no label */
  uint32_t data, data_units;   /* what the lock has published; data_units is 0 if it is nothing */
  uint32_t client;             /* index into `clients` */
  uint32_t mode, held;         /* held: 1 for a lock */
  uint32_t limit, weight;      /* as in struct wlk_lock_info */
  int32_t priority;
  uint64_t since, token; /* as in struct wlh_request_cell; token 0 if it is pending */
  uint64_t published;    /* `data` of its cell */
  uint32_t request;      /* its cell; `member` of its client says whether it is ours */
};

struct wlh_client {
  uint64_t id;               /* of the member */
  uint32_t member, pid;      /* of the member */
  uint32_t thread, number;   /* of the agent */
  uint32_t name, name_units; /* of the thread: range of `units` */
  uint32_t agent;            /* its cell */
};

/* Parts that do not fit are only counted: a view is complete if no count exceeds its capacity. */
struct wlh_view {
  struct wlh_entry *entries;  /* by name: the locks, then the queue in its order */
  struct wlh_client *clients; /* each client of the entries once */
  uint16_t *units;
  uint32_t entry_capacity, client_capacity, unit_capacity; /* in */
  uint32_t entry_count, client_count, unit_count;          /* out */
};

/* Section 4.5: https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state
 * The result includes the requests of dead members, so callers must call wlh_cells_reap first.
 * Returns WLH_CELLS_OK, WLH_CELLS_FULL (see struct wlh_view), POISONED. */
enum wlh_cells_status wlh_cells_snapshot_the_lock_state(
    struct wlh_arena *arena, struct wlh_view *view);

/* Snapshots one name in the same way, and includes its queue if `pending` is true. */
enum wlh_cells_status wlh_cells_snapshot_a_name(
    struct wlh_arena *arena, const uint16_t *name, uint32_t units, bool pending,
    struct wlh_view *view);

/* Reads the holders of a name from outside, so that no process inside delays it. `view` may list a
 * client more than once. All locks in `view` were held at one moment during the call; a lock that
 * was granted or released meanwhile may be missing. `bytes` of the segment must be mapped. Returns
 * WLH_CELLS_OK, WLH_CELLS_FULL (see struct wlh_view), or WLH_CELLS_LOST if other processes were
 * changing the tables, or the tables are damaged. */
enum wlh_cells_status wlh_cells_find_holders(
    struct wlh_segment *segment, uint64_t bytes, const uint16_t *name, uint32_t units,
    struct wlh_view *view);

#endif
