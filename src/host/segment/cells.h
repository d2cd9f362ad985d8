/* The declarations that the functions of segment/ share: their results, and the arena, which is one
 * process's view of a segment. The functions implement section 4 of the Web Locks API and grant the
 * same requests as core/weblocks.h, in the same order. Unless their comments say otherwise, they
 * must be called inside, under the segment's mutex. They allocate no memory and, apart from `alive`
 * and reading a clock, make no system calls. After a function has noticed damage, every function
 * returns WLH_CELLS_POISONED. Earlier results may be wrong, but a rebuild never leaves two holders
 * that exclude each other.
 *
 * A caller takes the mutex, and calls wlh_cells_begin and, if the mutex was a dead owner's,
 * wlh_cells_rebuild. Then it may call the other functions. Before it leaves, it must take all
 * messages (wlh_cells_take_messages), wake the members in `to_notify` and clear that, and give back
 * space if wlh_cells_begin_give_back returns true. */
#ifndef WLH_CELLS_H
#define WLH_CELLS_H

#include "segment.h"

enum wlh_cells_status {
  WLH_CELLS_OK,            /* done */
  WLH_CELLS_GRANTED,       /* the lock is held */
  WLH_CELLS_PENDING,       /* the request waits in the lock request queue */
  WLH_CELLS_NOT_AVAILABLE, /* the lock is not available without waiting; nothing was changed */
  WLH_CELLS_STOLEN,        /* the lock was stolen */
  WLH_CELLS_NOT_HELD,      /* the request was not granted yet; nothing was changed */
  WLH_CELLS_OTHER_LIMIT,   /* the name is in use with another limit; nothing was changed */
  WLH_CELLS_QUEUE_FULL,    /* as many requests wait as this one allows; nothing was changed */
  WLH_CELLS_FULL, /* too few free cells, or a name longer than WLH_NAME_MOST; nothing was changed */
  WLH_CELLS_GREW, /* the segment is larger than `bytes` */
  WLH_CELLS_LOST, /* this process is not a member, or has no such request or agent */
  WLH_CELLS_POISONED /* the segment is damaged, and all held locks are lost */
};

/* A new segment has this many cells, and never shrinks to fewer. */
enum { WLH_CELLS_AT_FIRST = 256 };

/* Lock key: (c) constant  (m) the thread of this process that is inside */
struct wlh_arena {
  struct wlh_segment *segment; /* (m) its first `bytes` bytes can be read and written */
  uint64_t bytes;              /* (m) known size of the file */
  uint32_t ncells;             /* (m) private copy: a power of two, WLH_CELLS_LEAST to
                                  WLH_CELLS_MOST, whatever the segment says. After
                                  wlh_cells_begin, `bytes` is large enough for them */
  uint64_t ticket;             /* (m) last known `ticket` of the header, which never decreases */
  uint64_t token;              /* (m) last known `token` of the header, which never decreases */
  uint64_t shrinks;            /* (m) last known `shrinks` of the header, which never decreases */
  uint64_t hash_key[2];        /* (m) the header's, which never changes; 0 until we first enter */
  uint32_t member;             /* (m) our number, below WLH_MEMBERS */
  uint64_t id;                 /* (m) our id; 0 while we are not a member */
  uint64_t now;                /* (m) milliseconds of a clock that all processes share */
  uint64_t mark_now;           /* (m) milliseconds of the clock for marks, which counts sleep; 0
                                  until this section needs it */
  bool poisoned;               /* (m) this process, or another process, has found damage */
  bool outside;                /* (c) a view from outside, for which apparent damage only means
                                  that the read has failed */
  /* (c) Whether another member's process is alive; true if in doubt. Must not call segment/. */
  bool (*alive)(void *data, uint32_t member);
  void *data;                           /* (c) for `alive` */
  uint64_t to_notify[WLH_MEMBERS / 64]; /* (m) out: bit i: member i must be woken */
};

static inline bool wlh_cells_is_member(const struct wlh_arena *arena, uint32_t member)
{
  return arena->segment->members[member & (WLH_MEMBERS - 1)].state == WLH_MEMBER_IN;
}

#endif
