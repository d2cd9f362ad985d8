/* Snapshots (4.5), and the cycle that a request was refused for, which is told as one. Public part
 * in weblocks.h.
 *
 * Memory is allocated without a mutex, so what is to be written can have outgrown it when the
 * mutexes are taken again. Whoever writes first looks if there is room; if not, it is asked for
 * anew, a quarter more than was needed, and all is looked at again. */
#ifndef WLK_SNAPSHOT_H
#define WLK_SNAPSHOT_H

#include "records.h"

/* Room for so many of each. */
struct wlk_room {
  size_t locks, names, clients, units;
};

/* What fills a snapshot, and where the next of each goes. */
struct wlk_writer {
  struct wlk_snapshot *snapshot; /* NULL before there is room */
  struct wlk_room room;          /* what it has */
  struct wlk_room need;          /* what it should have had */
  uint16_t *units;
  char *client_ids;
  uint64_t now;
};

#define WLK_WRITER_INIT                                                                            \
  {                                                                                                \
    NULL, {0, 0, 0, 0}, {0, 0, 0, 0}, NULL, NULL, 0                                                \
  }

/* ---- the cycle of a deadlock ---- */

struct wlk_cycle {
  struct wlk_writer writer;
  bool written;
};

#define WLK_CYCLE_INIT                                                                             \
  {                                                                                                \
    WLK_WRITER_INIT, false                                                                         \
  }

/* Writes what wlk_find_deadlock found, if there is room. */
void wlk_cycle_write(
    struct wlk_cycle *cycle, struct wlk_process *process, struct wlk_declaration *end,
    struct wlk_request *last) WLK_REQUIRES(process->mutex);

/* Writes the cycle of a thread that would wait for itself, if there is room: a request, and what is
 * ahead of it on the same resource. */
void wlk_cycle_write_pair(
    struct wlk_cycle *cycle, struct wlk_process *process, const struct wlk_request *request,
    const struct wlk_request *ahead) WLK_REQUIRES(process->mutex);

/* Makes room for what did not fit. True if it is to be looked for again; false if it was written,
 * or if there is no memory, which `*status` then says. Without a mutex. */
bool wlk_cycle_grow(struct wlk_cycle *cycle, enum wlk_status *status);

/* Hands the cycle over if `status` is WLK_DEADLOCK; frees it if not. */
void wlk_cycle_finish(
    struct wlk_cycle *cycle, enum wlk_status status, struct wlk_snapshot **snapshot);

#endif
