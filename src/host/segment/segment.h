/* The tables that all processes share: one segment for each bucket, a file that every member maps.
 * This comment says how segment/ works; the rest of this header is the layout of the file.
 *
 * The problem. Any process can be killed between any two instructions, stopped for hours, or have a
 * defect. If only a mutex protected the lists, a kill could leave a list half changed, and no
 * process could tell which half is right.
 *
 * The solution. All data is in cells of 128 bytes, which refer to each other by index: a request, a
 * name, an agent, a piece of text. The truth is the `kind` of each cell, together with the fields
 * that have no star below. Each step first writes the fields and then commits them by one aligned
 * store, usually of `kind`. Between two commits the truth is always a legal state, apart from cells
 * that nothing refers to. Fields with a star (lists, chains, counts) are derived, and are written
 * in any order. After a death inside, wlh_cells_rebuild first recreates them.
 *
 * What guards what. A letter beside each field says who may access it:
 *
 *   (i)  inside: the owner of the mutex, `word` (member/section.h). Only one thread of one process
 *        is inside at a time
 *   (b)  the holder of this member's byte lock (port/port.h)
 *   (g)  the holder of the gate: a formatter, while there are no members
 *   (a)  atomic; the comment says who writes it
 *
 * The path of a request, inside, from file to file:
 *   arena.c     wlh_cells_begin checks the header and copies `ncells`, on which all bounds rely
 *   requests.c  finds the name (names.c). Before a refusal, it asks `alive` (cells.h) whether the
 *               members whose requests are in the way are alive
 *   pool.c      takes cells for the label and a new name, and commits them: TEXT, then RESOURCE
 *   requests.c  for a theft, commits each held lock as NEWS_BROKEN. Fills the cell of the request,
 *               commits it as HELD or PENDING, and only then adds it to the lists (queue.c)
 *   requests.c  for what a lock publishes: takes cells for the text, commits them as TEXT, then
 *               commits `data` of the request, and only then frees the cells of the former text
 *   queue.c     at a release or an abort: commits FREE; then wlh_process_the_lock_request_queue
 *               commits each grant as NEWS_HELD, and puts it into the mailbox of its member
 *   members.c   the notified member enters, takes its mail, and commits NEWS_HELD as HELD
 *
 * Crashes, by where the process was: the state that each crash leaves, and who repairs it.
 *   outside the tables     intact tables with the requests of a dead member. The process that
 *                          notices the death (member/records.h), or joins, rebuilds
 *   inside                 `word` of a dead owner. The process that takes it over must first
 *                          rebuild; event loops leave that to the helper of their process
 *   before a commit        cells in use that nothing refers to. The rebuild frees them
 *   after a commit         a request in no list, or a grant in no mailbox. The rebuild adds it, or
 *                          frees it if its member is dead
 *   amid a theft           some locks are stolen, but the thief has no request yet. They stay
 *                          stolen, and the rebuild grants requests of the queue
 *   amid growing           cells that do not count yet or, after the change of `ncells`, missing
 *                          bucket heads, which the rebuild makes
 *   amid a rebuild         a state that a rebuild accepts, see rebuild.c
 *   before a wake-up       a bit in `due`. The next process that leaves sends the wake-up
 *   amid formatting        no magic, or `retired`. The next holder of the gate formats again
 *
 * Damage. Another process can overwrite any byte at any time (store.h). A free cell, an empty
 * bucket head and an absent member have values other than 0, so that a file that was overwritten
 * with zeros is recognized. An impossible value is damage: `poisoned` is set, and all members give
 * the file up. When they have left, the next member recreates the file.
 *
 * Readers outside. While a member's bit in `looking` is set, no space is given back, so the member
 * may read all cells without entering. It can see half of a change, so it may trust a lock only if
 * the token is the same before and after the other reads (wlh_cells_find_holders). If a record of
 * its own seems to be missing, it must check that again inside (wlh_cells_has_request).
 *
 * Whenever no process is inside and no rebuild is due, the invariants of a name in
 * src/core/records.h hold, with three differences. Requests of one priority are ordered by their
 * tickets. Tokens increase across all names of a segment. A grant or theft that a process has not
 * received yet is in the mailbox of its member. verify.c checks each invariant.
 *
 * A queue is a sequence of levels, one for each priority, the highest first. `levels` has the first
 * request of each level but the highest, so a new request need not read the requests in between.
 * (The core's `levels` are others: there the priority 0 has none, see src/core/queue.h.)
 *
 * WLH_LAYOUT must change with the layout; compatible additions use bytes that are zero. The header
 * up to `retired`, its `token`, a member's `pid` and `version`, and the byte locks must have the
 * same places in all layouts: a process with another layout must still see whether the file is in
 * use, by which processes, and what the last token was. */
#ifndef WLH_SEGMENT_H
#define WLH_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WLH_MAGIC UINT32_C(0x4b4c5757) /* "WWLK" where bytes are little-endian */
#if !defined(WLH_LAYOUT)
#define WLH_LAYOUT UINT32_C(6)
#endif

enum {
  WLH_MEMBERS = 256,        /* a member's number is 0 to 255 */
  WLH_CELLS_LEAST = 64,     /* the smallest `ncells`, which is a power of two */
  WLH_CELLS_MOST = 1 << 20, /* the largest `ncells`. Cell 0 is always FREE: index 0 means none */
  WLH_CELL_BYTES = 128,
  WLH_NAME_INLINE = 32,      /* code units of a name that fit into its RESOURCE cell */
  WLH_TEXT_UNITS = 60,       /* code units in a TEXT cell */
  WLH_NAME_MOST = 32768,     /* code units of a name: 64 KiB */
  WLH_LABEL_MOST = 4096,     /* longer labels are truncated */
  WLH_DATA_MOST = 4096,      /* code units that a lock publishes at most */
  WLH_THREAD_NAME_UNITS = 64 /* longer names of threads are truncated */
};

/* Tickets and tokens stay below this number; larger numbers are damage. */
#define WLH_COUNT_MOST (UINT64_C(1) << 62)

/* A mark with this bit never ends, and its other bits are those of the name's hash. After a reboot,
 * the hash shows whether the disk has the whole mark and the whole name. */
#define WLH_MARKED_FOR_EVER (UINT64_C(1) << 63)

enum wlh_kind {
  WLH_KIND_FREE = 1,
  WLH_KIND_TEXT = 2,
  WLH_KIND_RESOURCE = 3,
  WLH_KIND_AGENT = 4,
  WLH_KIND_PENDING = 5,     /* a request that waits */
  WLH_KIND_NEWS_HELD = 6,   /* a lock; its process has not been notified of the grant yet */
  WLH_KIND_HELD = 7,        /* a lock */
  WLH_KIND_NEWS_BROKEN = 8, /* stolen, or has passed; its process has not been notified yet */
  WLH_KIND_KEPT = 9         /* a TEXT that a rebuild has found in use */
};

/* Ends a chain of names, and is the head of an empty chain. */
#define WLH_NO_NAME UINT32_MAX

/* The values must be those of enum wlk_mode. */
enum { WLH_EXCLUSIVE = 0, WLH_SHARED = 1 };

/* A list of requests: the cells of the first and the last, or 0 if the list is empty. */
struct wlh_list {
  uint32_t head, tail;
};

struct wlh_link {
  uint32_t next, prev;
};

/* The lists that a request can be in. The mailbox (for NEWS_) and the level (for PENDING) share a
 * link, because a request is never in both. */
enum wlh_place {
  WLH_BY_RESOURCE,
  WLH_BY_MAILBOX,
  WLH_BY_AGENT,
  WLH_PLACES,
  WLH_BY_LEVEL = WLH_BY_MAILBOX
};

struct wlh_thief {
  uint64_t id;     /* of the thief's member */
  uint32_t pid;    /* of that member */
  uint32_t thread; /* of the thief's agent */
  uint32_t number; /* of that agent */
  uint32_t zero;
};

/* A lock request (section 2.5 of the specification) and, once granted, the lock (2.4). The first
 * cache line has the fields that are read most. */
struct wlh_request_cell {
  uint32_t kind;      /* (i) PENDING, NEWS_HELD, HELD, NEWS_BROKEN */
  uint32_t resource;  /* (i) its RESOURCE cell; meaningless if NEWS_BROKEN */
  uint32_t agent;     /* (i) its AGENT cell */
  uint16_t member;    /* (i) number of the agent's member */
  uint8_t mode;       /* (i) WLH_EXCLUSIVE, WLH_SHARED */
  uint8_t unreported; /* (i) if stolen: 1 if its process was not notified of the grant either */
  uint64_t ticket;    /* (i) grows with each request, and orders requests of one priority */
  struct wlh_link links[WLH_PLACES]; /* (i) * neighbours in the lists of enum wlh_place */
  uint32_t weight;        /* (i) units it takes; 0 if it is exclusive or the name has no limit */
  uint32_t label;         /* (i) first TEXT cell of its label; 0 for none */
  uint32_t label_units;   /* (i) code units in the label */
  int32_t priority;       /* (i) the request with the higher one goes first */
  uint64_t token;         /* (i) if not PENDING: greater than the token of any earlier lock */
  uint64_t cookie;        /* (i) identifies the request in its process */
  uint64_t since;         /* (i) when the lock was granted or, if pending, the request was made: ms
                             of a clock that all processes share */
  struct wlh_thief thief; /* (i) if stolen: written before the commit as NEWS_BROKEN */
  uint32_t passes;        /* (i) 1: when it would be granted, it becomes NEWS_BROKEN */
  uint32_t zero;
  uint64_t data; /* (i) what the lock has published: see wlh_data. One store commits it */
};

/* `data` of a request has the first TEXT cell of a text in its lowest 20 bits, 0 for none. The next
 * 12 bits are its code units less 1. The others count what the lock has published, so that a reader
 * outside notices if the cells got another text meanwhile. */
static inline uint64_t wlh_data(uint64_t former, uint32_t cell, uint32_t units)
{
  uint64_t count = (former >> 32) + 1;
  return count << 32 | (cell != 0 ? (units - 1) << 20 | cell : 0);
}

static inline uint32_t wlh_data_cell(uint64_t data)
{
  return (uint32_t)data & 0xfffff;
}

static inline uint32_t wlh_data_units(uint64_t data)
{
  return wlh_data_cell(data) != 0 ? ((uint32_t)data >> 20) + 1 : 0;
}

/* A resource name: the lock request queue and its part of the held lock set. */
struct wlh_resource_cell {
  uint32_t kind;          /* (i) RESOURCE */
  uint32_t hash;          /* (i) * of the name */
  uint32_t units;         /* (i) code units in the name */
  uint32_t text;          /* (i) first TEXT cell of what does not fit into `name`; 0 for none */
  uint32_t limit;         /* (i) WLH_LIMIT_UNSET until a shared request sets it, then WLH_LIMIT_NONE
                             or how many units may be held: one store, before the commit of that
                             request */
  uint32_t chain;         /* (i) * next RESOURCE cell in the bucket, or WLH_NO_NAME */
  struct wlh_list queue;  /* (i) * requests that wait: by priority, then by age */
  struct wlh_list held;   /* (i) * locks, in the order of their grants */
  struct wlh_list levels; /* (i) * the levels of the queue, see the head of this file */
  uint32_t pending;       /* (i) * requests in the queue */
  uint32_t weight;        /* (i) * sum of the locks' weights; at most `limit` */
  uint64_t marked;        /* (i) 0: not marked. Otherwise the end of the mark, in ms of a clock that
                             counts sleep, or WLH_MARKED_FOR_EVER | the name's hash. Written by
                             one store, which commits the mark */
  uint16_t name[WLH_NAME_INLINE]; /* (i) UTF-16 code units */
};

#define WLH_LIMIT_UNSET UINT32_C(0)
#define WLH_LIMIT_NONE  UINT32_MAX

/* A part of a name, of a label, of what is published, or of a thread's name. Every part but the
 * last is full. */
struct wlh_text_cell {
  uint32_t kind;                 /* (i) TEXT, KEPT */
  uint32_t next;                 /* (i) next TEXT cell; 0 in the last */
  uint16_t text[WLH_TEXT_UNITS]; /* (i) UTF-16 code units */
};

/* An agent: a thread's environment (2.4) at this bucket. */
struct wlh_agent_cell {
  uint32_t kind;            /* (i) AGENT */
  uint32_t member;          /* (i) its member: the process */
  uint32_t thread;          /* (i) the same for all agents of a thread */
  uint32_t number;          /* (i) grows with each agent of its process */
  uint32_t name;            /* (i) first TEXT cell of its thread's name; 0 for none */
  uint32_t units;           /* (i) code units in the thread's name */
  struct wlh_list requests; /* (i) * by ticket */
  uint32_t mark;            /* (i) * meaningful only within one snapshot */
  uint32_t zeros[23];
};

union wlh_cell {
  uint32_t kind; /* (i) enum wlh_kind, the commit */
  struct {
    uint32_t kind, next; /* (i) * next: the next cell of the free list; 0 in the last */
  } free;
  struct wlh_request_cell request;
  struct wlh_resource_cell resource;
  struct wlh_text_cell text;
  struct wlh_agent_cell agent;
};

enum { WLH_MEMBER_IN = 1, WLH_MEMBER_OUT = 2 };

/* A process that has the bucket open. */
struct wlh_member {
  uint64_t gen;   /* (b) how many processes have had this number */
  uint64_t id;    /* (i) random; distinguishes its client ids from a predecessor's */
  uint32_t state; /* (i) WLH_MEMBER_IN, WLH_MEMBER_OUT: the commit of joining and leaving */
  uint32_t pid;   /* (i) for display, never for decisions */
  struct wlh_list mailbox;  /* (i) * NEWS_ requests of the process, oldest first */
  uint32_t npending;        /* (i) * number of its requests that wait */
  _Atomic uint32_t wake_up; /* (a) count << 2 | 0 quiet, 1 due, 2 sent: see wake_up.h */
  char version[16];         /* (i) of its package, ASCII, padded with zeros */
  uint64_t since;           /* (i) when it joined; the same clock as in requests */
};

struct wlh_header {
  _Atomic uint32_t magic;    /* (g) WLH_MAGIC, written last; 0 during formatting */
  uint32_t layout;           /* (g) WLH_LAYOUT */
  uint32_t incompat;         /* (g) bits; a process that does not know one of them must not join */
  uint32_t compat;           /* (g) bits that other versions may ignore */
  uint64_t boot;             /* (g) hash of the boot id; after a reboot only endless marks count */
  _Atomic uint32_t retired;  /* (a) set by the holder of the gate, which is about to format */
  _Atomic uint32_t poisoned; /* (a) 1: damaged, until it is formatted; set inside, read by all */
  uint32_t ncells;           /* (i) the commit of growing and shrinking */
  uint32_t nmembers;         /* (g) WLH_MEMBERS */
  uint32_t joins;            /* (i) how many members have joined; lets waiters notice new ones */
  uint32_t high;             /* (i) * this cell and all later ones are FREE */
  uint64_t ticket;           /* (i) the next ticket; raised before the request is committed */
  uint64_t hash_key[2];      /* (g) SipHash key of this segment */
  uint32_t free;             /* (i) * first cell of the free list */
  uint32_t nfree;            /* (i) * how many cells are in the free list or from `high` on */
  uint64_t rebuilds;         /* (i) number of rebuilds, for tests */
  uint64_t token;   /* (i) the last token, or a greater number, because it is raised before the
                       grant is committed. It never decreases until the machine boots; formatting
                       makes it at least the time in microseconds since 1970 */
  uint64_t shrinks; /* (i) how often `ncells` shrank, or space after the cells was given back:
                       raised before either */
  uint32_t slack;   /* (i) 1: there is space after the cells to give back; set before the commit of
                       shrinking */
  uint32_t marks;   /* (i) 1: names may be marked; set before the first mark */
  uint64_t booted;  /* (i) if boots have no number: when the machine booted, as estimated by the
                       member that joined last, in milliseconds since 1970 */
  uint64_t zeros[1];
  _Atomic uint64_t word; /* (a) the mutex: 0 free, else generation << 16 | member + 1 */
  uint64_t line2[7];
  _Atomic uint64_t due[4];     /* (a) bit i: a wake-up of member i may be due */
  _Atomic uint64_t looking[4]; /* (a) bit i: member i, which alone changes this bit, reads the
                                  tables from outside, so no space is given back */
};

struct wlh_segment {
  struct wlh_header header;
  struct wlh_member members[WLH_MEMBERS];
  /* `ncells` cells, then `ncells` derived words (uint32_t): the heads of the hash chains. */
  union wlh_cell cells[];
};

#define WLH_BYTES_BEFORE_CELLS (256 + 64 * WLH_MEMBERS)

static inline bool wlh_is_valid_size(uint32_t ncells, uint32_t nmembers)
{
  return ncells >= WLH_CELLS_LEAST && ncells <= WLH_CELLS_MOST && (ncells & (ncells - 1)) == 0 &&
         nmembers == WLH_MEMBERS;
}

static inline uint64_t wlh_segment_bytes(uint32_t ncells)
{
  return WLH_BYTES_BEFORE_CELLS + (uint64_t)ncells * (WLH_CELL_BYTES + sizeof(uint32_t));
}

/* ---- the layout, written down a second time ---- */

#define WLH_AT(type, field, offset)                                                                \
  _Static_assert(offsetof(struct type, field) == (offset), "the layout of " #type "." #field)

_Static_assert(sizeof(union wlh_cell) == WLH_CELL_BYTES, "the size of a cell");
_Static_assert(sizeof(struct wlh_request_cell) == WLH_CELL_BYTES, "the size of a request");
_Static_assert(sizeof(struct wlh_resource_cell) == WLH_CELL_BYTES, "the size of a resource");
_Static_assert(sizeof(struct wlh_text_cell) == WLH_CELL_BYTES, "the size of a text");
_Static_assert(sizeof(struct wlh_agent_cell) == WLH_CELL_BYTES, "the size of an agent");
_Static_assert(sizeof(struct wlh_member) == 64, "the size of a member");
_Static_assert(sizeof(struct wlh_header) == 256, "the size of the header");
WLH_AT(wlh_segment, members, 256);
WLH_AT(wlh_segment, cells, WLH_BYTES_BEFORE_CELLS);

WLH_AT(wlh_header, magic, 0);
WLH_AT(wlh_header, layout, 4);
WLH_AT(wlh_header, incompat, 8);
WLH_AT(wlh_header, compat, 12);
WLH_AT(wlh_header, boot, 16);
WLH_AT(wlh_header, retired, 24);
WLH_AT(wlh_header, poisoned, 28);
WLH_AT(wlh_header, ncells, 32);
WLH_AT(wlh_header, nmembers, 36);
WLH_AT(wlh_header, joins, 40);
WLH_AT(wlh_header, high, 44);
WLH_AT(wlh_header, ticket, 48);
WLH_AT(wlh_header, hash_key, 56);
WLH_AT(wlh_header, free, 72);
WLH_AT(wlh_header, nfree, 76);
WLH_AT(wlh_header, rebuilds, 80);
WLH_AT(wlh_header, token, 88);
WLH_AT(wlh_header, shrinks, 96);
WLH_AT(wlh_header, slack, 104);
WLH_AT(wlh_header, marks, 108);
WLH_AT(wlh_header, booted, 112);
WLH_AT(wlh_header, word, 128);
WLH_AT(wlh_header, due, 192);
WLH_AT(wlh_header, looking, 224);

WLH_AT(wlh_member, gen, 0);
WLH_AT(wlh_member, id, 8);
WLH_AT(wlh_member, state, 16);
WLH_AT(wlh_member, pid, 20);
WLH_AT(wlh_member, mailbox, 24);
WLH_AT(wlh_member, npending, 32);
WLH_AT(wlh_member, wake_up, 36);
WLH_AT(wlh_member, version, 40);
WLH_AT(wlh_member, since, 56);

WLH_AT(wlh_request_cell, ticket, 16);
WLH_AT(wlh_request_cell, links, 24);
WLH_AT(wlh_request_cell, weight, 48);
WLH_AT(wlh_request_cell, priority, 60);
WLH_AT(wlh_request_cell, token, 64);
WLH_AT(wlh_request_cell, thief, 88);
WLH_AT(wlh_request_cell, passes, 112);
WLH_AT(wlh_request_cell, data, 120);
WLH_AT(wlh_resource_cell, levels, 40);
WLH_AT(wlh_resource_cell, marked, 56);
WLH_AT(wlh_resource_cell, name, 64);
WLH_AT(wlh_text_cell, text, 8);

#endif
