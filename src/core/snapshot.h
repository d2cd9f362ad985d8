/* Snapshots, also of the cycle of a deadlock. Memory is allocated without a mutex, so the state can
 * outgrow it before the mutexes are taken. Then the writer allocates a quarter more than needed and
 * starts again. */
#ifndef WLK_SNAPSHOT_H
#define WLK_SNAPSHOT_H

#include "records.h"

struct wlk_room {
  size_t locks, names, clients, units;
};

/* `units` and `client_ids` point to where the next code units and ids are written. */
struct wlk_writer {
  struct wlk_snapshot *snapshot; /* NULL until memory is allocated */
  struct wlk_room room;          /* how much fits into it */
  struct wlk_room need;
  uint16_t *units;
  char *client_ids;
  uint64_t now;
};

#define WLK_WRITER_INIT                                                                            \
  {                                                                                                \
    NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, NULL, NULL, 0                                                \
  }

struct wlk_cycle {
  struct wlk_writer writer;
  bool written;
};

#define WLK_CYCLE_INIT                                                                             \
  {                                                                                                \
    WLK_WRITER_INIT, false                                                                         \
  }

/* Writes the cycle for which wlk_find_deadlock returned `end` and set `last`. If the cycle does not
 * fit, only sets `need`. */
void wlk_cycle_write(
    struct wlk_cycle *cycle, struct wlk_process *process, struct wlk_declaration *end,
    struct wlk_request *last) WLK_REQUIRES(process->mutex);

/* Likewise for a thread that would wait for itself: `ahead` is its own lock or request on the same
 * resource. */
void wlk_cycle_write_pair(
    struct wlk_cycle *cycle, struct wlk_process *process, const struct wlk_request *request,
    const struct wlk_request *ahead) WLK_REQUIRES(process->mutex);

/* Allocates the memory for a cycle that did not fit, and returns true: the caller must search for
 * the cycle again. Returns false if the cycle was written, or if out of memory; then it also sets
 * `*status`. Threads: without a mutex. */
bool wlk_cycle_grow(struct wlk_cycle *cycle, enum wlk_status *status);

/* If `status` is WLK_DEADLOCK, hands the snapshot over to the caller. Otherwise frees it. */
void wlk_cycle_finish(
    struct wlk_cycle *cycle, enum wlk_status status, struct wlk_snapshot **snapshot);

#endif
