/* The locks of all processes of a machine as data: the Web Locks API, section 4, over the cells of
 * one shared segment (segment.h). Grants the same as core/weblocks.h, in the same order.
 *
 * An arena is how one process sees a segment. Everything here runs inside: the caller holds the
 * segment's mutex. Nothing allocates memory or makes a system call, except that `alive` may.
 *
 * A process can be killed at any instruction of any function here. Then the mutex still has its
 * number, whoever comes next calls wlh_cells_rebuild, and the outcome is as if the dead process had
 * ended its requests before or after the step that was under way.
 *
 * Nothing here reads or writes outside the segment or loops without end, whatever is in it. What
 * cannot be is damage: the segment is marked as poisoned, for all and for ever, and every function
 * answers WLH_CELLS_POISONED from then on. What is found before that may be wrong; a
 * rebuild leaves no two holders that exclude each other.
 *
 * A turn, for its caller:
 *   1. get hold of the mutex; if it was a dead process's: wlh_cells_begin, wlh_cells_rebuild
 *   2. wlh_cells_begin
 *   3. any of the other functions
 *   4. wlh_cells_take_mail until there is none
 *   5. ring the members in `rung`, clear it, and leave. */
#ifndef WLH_CELLS_H
#define WLH_CELLS_H

#include "segment.h"

#include <stdbool.h>

/* What functions answer. */
enum wlh_cells_status {
  WLH_CELLS_OK,            /* done */
  WLH_CELLS_GRANTED,       /* the lock is held */
  WLH_CELLS_PENDING,       /* the request waits in the lock request queue */
  WLH_CELLS_NOT_AVAILABLE, /* the lock is not available without waiting; nothing was changed */
  WLH_CELLS_STOLEN,        /* the lock was stolen */
  WLH_CELLS_NOT_HELD,      /* the request was not granted yet; nothing was changed */
  WLH_CELLS_OTHER_LIMIT,   /* the name is in use with another limit; nothing was changed */
  WLH_CELLS_QUEUE_FULL,    /* as many requests are pending as this one puts up with; likewise */
  WLH_CELLS_FULL,          /* too few cells are free, or the name is longer than WLH_NAME_MOST:
                              nothing was changed; see wlh_cells_needed */
  WLH_CELLS_GREW,          /* the segment has more cells than `bytes` */
  WLH_CELLS_LOST,          /* we are not a member any more, or there is no such request or agent of
                              ours: others took us for dead, or the caller is wrong */
  WLH_CELLS_POISONED       /* the segment is damaged: what is held is lost */
};

/* How a process sees a segment. Lock key: (c) constant  (m) whoever is in a turn of this process */
struct wlh_arena {
  struct wlh_segment *segment; /* (c) as far as `bytes` to be read and written */
  uint64_t bytes;              /* (m) how many bytes the file is known to have */
  uint32_t ncells;             /* (m) private copy, never more than `bytes` has room for */
  uint32_t member;             /* (m) own number, below WLH_MEMBERS */
  uint64_t id;                 /* (m) own, while we are a member; else 0 */
  uint64_t now;                /* (m) milliseconds of the clock that all have in common */
  bool poisoned;               /* (m) damage was found, here or by others */
  /* (c) Whether the process of a member lives. Asked of members of state 1 other than our own. A
   * doubt means yes. Must not call anything here. */
  bool (*alive)(void *data, uint32_t member);
  void *data;                      /* (c) for `alive` */
  uint64_t rung[WLH_MEMBERS / 64]; /* (m) out: bit i: member i got mail or must look who lives; it
                                      is to be rung before the mutex is left. May have our own */
};

/* ---- the segment ---- */

/* Makes a segment out of zeros or garbage: all but the magic and `retired`, which are the caller's.
 * Generations and, if the segment had been of this boot, the token go on from what they were.
 *   segment  wlh_segment_bytes(ncells) bytes
 *   ncells   a power of two, WLH_CELLS_LEAST to WLH_CELLS_MOST
 *   boot     hash of the boot id
 *   hash_key random */
void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2]);

/* Sets an arena up: `alive` answers for members, `bytes` is how many the file has. Looks at nothing
 * yet. */
void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data);

/* Begins a turn: takes over what others may have changed.
 *   now      milliseconds of the clock that all processes have in common
 *   returns  WLH_CELLS_OK
 *            WLH_CELLS_GREW  somebody has added cells: the caller asks for the size of the file,
 *            sets `bytes` and calls again
 *            WLH_CELLS_LOST  we joined, and others have taken us for dead since
 *            WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now);

/* Makes the tables anew from the truth in the cells, without what dead members had: after a mutex
 * was taken from the dead. Grants what became grantable.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     O(cells + requests * log(requests)) */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena);

/* Asks `alive` for all members; if one is dead, rebuilds.
 *   returns  as wlh_cells_rebuild */
enum wlh_cells_status wlh_cells_bury(struct wlh_arena *arena);

/* Doubles the number of cells, until there are `ncells`; the file and `bytes` must have room for
 * them. Does nothing if there are as many already.
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED
 *   cost     as wlh_cells_rebuild */
enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells);

/* Cells that are free. Requests need one, a name that is new one, text one for each WLH_TEXT_UNITS
 * code units (of a name, behind the first WLH_NAME_INLINE). */
uint32_t wlh_cells_free(const struct wlh_arena *arena);

/* ---- members ---- */

/* Joins, with the arena's own number, whose byte lock the caller holds. Buries a predecessor and
 * everybody who is dead, then has all who wait rung: they must watch us.
 *   id       random, not 0; to be in client ids
 *   pid      to show
 *   version  of the package, ASCII, at most 15 bytes of it are kept
 *   returns  WLH_CELLS_OK, WLH_CELLS_POISONED */
enum wlh_cells_status wlh_cells_join(
    struct wlh_arena *arena, uint64_t id, uint32_t pid, const char *version);

/* Leaves: ends all requests and agents of the arena's own member, as if it had died.
 *   returns  as wlh_cells_rebuild, and costs as much */
enum wlh_cells_status wlh_cells_leave(struct wlh_arena *arena);

/* The number of our own requests that wait. While there are any, we must watch all members. */
uint32_t wlh_cells_pending(const struct wlh_arena *arena);

/* Whether member `member` is in. */
bool wlh_cells_is_member(const struct wlh_arena *arena, uint32_t member);

/* ---- agents ---- */

/* Makes an agent.
 *   thread   the same number for all agents of a thread
 *   number   of the process's agents, growing
 *   name     of the thread, `units` code units, cut to WLH_THREAD_NAME_UNITS; copied
 *   agent    out: to be ended by wlh_cells_terminate
 *   returns  WLH_CELLS_OK, FULL, LOST, POISONED */
enum wlh_cells_status wlh_cells_add_agent(
    struct wlh_arena *arena, uint32_t thread, uint32_t number, const uint16_t *name, uint32_t units,
    uint32_t *agent);

/* Terminates remaining locks and requests (2.6) of an agent of ours, its mail too, and the agent.
 *   returns  WLH_CELLS_OK, LOST, POISONED
 *   cost     O(requests of the agent + grants) */
enum wlh_cells_status wlh_cells_terminate(struct wlh_arena *arena, uint32_t agent);

/* ---- locks ---- */

enum wlh_option { WLH_WAIT, WLH_IF_AVAILABLE, WLH_STEAL }; /* as enum wlk_option */

struct wlh_ask {
  uint32_t agent; /* ours */
  uint8_t mode;   /* WLH_EXCLUSIVE, WLH_SHARED */
  uint8_t option; /* enum wlh_option; a steal is exclusive */
  bool bounded;   /* as `bounded`, `max_pending`, `limit`, `weight` of struct wlk_extra */
  uint32_t max_pending;
  uint32_t limit;
  uint32_t weight;
  const uint16_t *name; /* `name_units` code units */
  uint32_t name_units;
  uint32_t label_units;
  const uint16_t *label; /* `label_units` code units, cut to WLH_LABEL_MOST; copied */
  uint64_t cookie; /* what the process calls the request; no two of its requests have the same */
};

struct wlh_answer {
  uint32_t request; /* if GRANTED or PENDING: the request, together with its cookie */
  uint32_t limit;   /* if OTHER_LIMIT: the name's; 0 if it has none */
  uint64_t token;   /* if GRANTED: greater than that of any lock granted before in this segment */
  uint32_t needed;  /* if FULL: how many cells have to be free; UINT32_MAX if none are enough */
};

/* Requests a lock (4.1). Where the answer is not to wait, `alive` is asked for those who are in the
 * way first, and who is dead is not.
 *   returns  WLH_CELLS_GRANTED (no mail tells it again), PENDING, NOT_AVAILABLE, OTHER_LIMIT,
 *            QUEUE_FULL, FULL, LOST, POISONED
 *   cost     O(length), whatever else is pending; a steal O(locks held on the name) */
enum wlh_cells_status wlh_cells_request(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);

/* Releases a lock (4.2) and grants what became grantable. Ends the request, and its mail.
 *   request, cookie  of ours, not ended
 *   thief    out: if STOLEN
 *   returns  WLH_CELLS_OK, STOLEN (it ended, too), NOT_HELD, LOST, POISONED */
enum wlh_cells_status wlh_cells_release(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, struct wlh_thief *thief);

/* Aborts a request (4.3) and grants what became grantable.
 *   returns  WLH_CELLS_OK (it ended), GRANTED or STOLEN (nothing was changed, wlh_cells_release is
 *            to end it), LOST, POISONED */
enum wlh_cells_status wlh_cells_abort(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Ends a request whatever it is.
 *   returns  WLH_CELLS_OK, LOST, POISONED */
enum wlh_cells_status wlh_cells_end(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* Whether a pending request waits for one of its own thread, which ends none while it blocks: as
 * the core's wlk_wait_for_the_lock looks for it.
 *   cost     O(locks held on the name + requests ahead) */
bool wlh_cells_waits_for_itself(struct wlh_arena *arena, uint32_t request, uint64_t cookie);

/* ---- mail ---- */

enum { WLH_TOLD_GRANTED = 1, WLH_TOLD_STOLEN = 2 }; /* as enum wlk_news */

struct wlh_letter {
  uint64_t cookie;
  uint32_t request;
  uint32_t agent;         /* number of the agent: `number` of wlh_cells_add_agent */
  uint32_t news;          /* bits of the above; with STOLEN the request ended */
  uint64_t token;         /* if granted */
  struct wlh_thief thief; /* if stolen */
};

/* Takes our mail, oldest first.
 *   letters  out: room for `capacity`
 *   returns  how many were written; if `capacity`, there may be more */
uint32_t wlh_cells_take_mail(
    struct wlh_arena *arena, struct wlh_letter *letters, uint32_t capacity);

/* ---- snapshots ---- */

/* A lock or a request. Texts are ranges of `units` of the snapshot. */
struct wlh_entry {
  uint32_t name, name_units;   /* the same range for all entries of a name */
  uint32_t label, label_units; /* label_units 0: none */
  uint32_t client;             /* index into `clients` */
  uint32_t mode, held;         /* held: 1 for a lock */
  uint32_t limit, weight;      /* as in struct wlk_lock_info */
  uint64_t since, token;       /* as in struct wlh_request_cell; token 0 if it is pending */
  uint32_t request;            /* its cell: our own it tells by `member` of the client */
};

struct wlh_client {
  uint64_t id;               /* of the member */
  uint32_t member, pid;      /* of the member */
  uint32_t thread, number;   /* of the agent */
  uint32_t name, name_units; /* of the thread: range of `units` */
  uint32_t agent;            /* its cell */
};

/* Where a snapshot is written. What does not fit is not written, but counted: the counts are what
 * is needed, and the snapshot is whole if none is greater than its capacity. */
struct wlh_view {
  struct wlh_entry *entries;  /* by name: the locks, then the queue in its order */
  struct wlh_client *clients; /* those of the entries, each once */
  uint16_t *units;
  uint32_t entry_capacity, client_capacity, unit_capacity; /* in */
  uint32_t entry_count, client_count, unit_count;          /* out */
};

/* Snapshots the lock state (4.5): everything. Does not ask who lives: wlh_cells_bury before.
 *   returns  WLH_CELLS_OK, WLH_CELLS_FULL (see struct wlh_view), POISONED
 *   cost     O(cells in use) */
enum wlh_cells_status wlh_cells_snapshot(struct wlh_arena *arena, struct wlh_view *view);

/* Snapshots what is on one name; `pending`: with the requests that wait. Otherwise the same.
 *   cost     O(length + what it has) */
enum wlh_cells_status wlh_cells_snapshot_of(
    struct wlh_arena *arena, const uint16_t *name, uint32_t units, bool pending,
    struct wlh_view *view);

/* ---- check ---- */

/* Looks whether all is as it must be between two turns, by every invariant. Changes nothing.
 *   returns  NULL if all is well, else a sentence that says which invariant is broken
 *   cost     O(cells + requests * members) at most */
const char *wlh_cells_check(struct wlh_arena *arena);

#endif
