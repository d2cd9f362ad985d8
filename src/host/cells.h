/* The locks of all processes of a machine as data: the Web Locks API, section 4, over the cells of
 * one shared segment (segment.h). Grants the same as core/weblocks.h, in the same order.
 *
 * An arena is how one process sees a segment. Everything here runs inside: the caller holds the
 * segment's mutex. Nothing allocates memory or makes a system call, except that `alive` may.
 *
 * A process can be killed at any instruction of any function here. Then the mutex still has its
 * number, the next process inside calls wlh_cells_rebuild, and the outcome is as if the dead
 * process had ended its requests before or after the step that was under way.
 *
 * Nothing here reads or writes outside the segment or loops without end, whatever is in it. What
 * cannot be is damage: the segment is marked as poisoned, for all and for ever, and every function
 * answers WLH_CELLS_POISONED from then on. What is found before that may be wrong; a
 * rebuild leaves no two holders that exclude each other.
 *
 * This is what all of it has in common. The functions are in a header for each module:
 *   arena.h     the segment as a whole: formatting, the beginning of a turn, growth
 *   members.h   joining and leaving, agents, mail
 *   requests.h  requests and locks
 *   view.h      snapshots
 *   rebuild.h   what is done after a death
 *   verify.h    every invariant, for tests
 * Those below them (queue, names, lists, pool, store) are for these only. Each stands on others as
 * docs/internals/architecture.md shows; none is called by one below it.
 *
 * A turn, for its caller:
 *   1. get hold of the mutex; if it was a dead process's: wlh_cells_begin, wlh_cells_rebuild
 *   2. wlh_cells_begin
 *   3. any of the other functions
 *   4. wlh_cells_take_mail until there is none
 *   5. ring the members in `rung`, and clear it
 *   6. give back room, if wlh_cells_can_give_back, and leave. */
#ifndef WLH_CELLS_H
#define WLH_CELLS_H

#include "segment.h"

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
                              nothing was changed */
  WLH_CELLS_GREW,          /* the segment has more cells than `bytes` */
  WLH_CELLS_LOST,          /* we are not a member any more, or there is no such request or agent of
                              ours: others took us for dead, or the caller is wrong */
  WLH_CELLS_POISONED       /* the segment is damaged: what is held is lost */
};

/* How many cells a new segment has. It is not made smaller than that. */
enum { WLH_CELLS_AT_FIRST = 256 };

/* How a process sees a segment. Lock key: (c) constant  (m) the thread in a turn of this process */
struct wlh_arena {
  struct wlh_segment *segment; /* (c) as far as `bytes` to be read and written */
  uint64_t bytes;              /* (m) how many bytes the file is known to have */
  uint32_t ncells;             /* (m) private copy: a power of two, WLH_CELLS_LEAST to
                                  WLH_CELLS_MOST, whatever the segment says; of a turn that began
                                  well, `bytes` has room for them */
  uint64_t ticket;      /* (m) the header's, and its token, as the last turn left them: they */
  uint64_t token;       /* never go back. */
  uint64_t shrinks;     /* (m) likewise */
  uint64_t hash_key[2]; /* (m) the header's since the first turn: it never changes; 0 before */
  uint32_t member;      /* (m) own number, below WLH_MEMBERS */
  uint64_t id;          /* (m) own, while we are a member; else 0 */
  uint64_t now;         /* (m) milliseconds of the clock that all have in common */
  bool poisoned;        /* (m) damage was found, here or by others */
  bool outside;         /* (c) whether this is the copy of a thread that only reads, and is not
                           inside: what looks like damage to it says nothing about the segment */
  /* (c) Whether the process of a member lives. Asked of members of state 1 other than our own. A
   * doubt means yes. Must not call anything here. */
  bool (*alive)(void *data, uint32_t member);
  void *data;                      /* (c) for `alive` */
  uint64_t rung[WLH_MEMBERS / 64]; /* (m) out: bit i: member i got mail or must look who lives; it
                                      is to be rung before the mutex is left. May have our own */
};

/* Whether member `member` is in. */
static inline bool wlh_cells_is_member(const struct wlh_arena *arena, uint32_t member)
{
  return arena->segment->members[member & (WLH_MEMBERS - 1)].state == WLH_MEMBER_IN;
}

#endif
