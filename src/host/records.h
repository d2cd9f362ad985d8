/* The records of a bucket that is open in this process, one member of the shared segment: its
 * agents, their requests and errands, what was put off. Plain structs.
 *
 * Life: wlh_bucket_open makes the structure only. The first operation starts the helper (helper.h),
 * which opens the file, and from then on `open` is set; a loss takes it back, and the next
 * operation starts anew. Each time is a *life*, with cells of its own. Between lives, and so after
 * a file could not be opened, there are no descriptors and nothing is mapped.
 *
 * Locks: `mu` is held by the thread that is inside the tables for this process, or changes whether
 * it is open; event loops only ever try it. `qmu` is held for a few stores. Order: mu, qmu. */
#ifndef WLH_RECORDS_H
#define WLH_RECORDS_H

#include "port_host.h"
#include "requests.h"
#include "view.h"

#include "../core/list.h"

/* What there is to do, of what was put off. */
enum wlh_op {
  WLH_OP_NONE,
  WLH_OP_REQUEST,
  WLH_OP_RELEASE,
  WLH_OP_END,
  WLH_OP_TERMINATE,
  WLH_OP_BLOCK,
  WLH_OP_READY,
  WLH_OP_SNAPSHOT
};

/* Something that can be put off, and of which its agent can be told. Lock key as for wlh_bucket. */
struct wlh_item {
  struct wlh_agent *agent;    /* (c) */
  struct wlk_link by_put_off; /* (q) in bucket->put_off, or alone */
  struct wlk_link by_event;   /* (q) in agent->events, or alone */
  struct wlk_event event;     /* (q) news 0: nothing to tell. `tag` (c) */
  enum wlh_op op;             /* (q) what is put off; NONE if alone */
  bool doing;                 /* (q) taken out of bucket->put_off, and being done under mu */
  bool gone;                  /* (q) its agent wants to hear nothing of it any more */
};

enum wlh_state {
  WLH_ASKING,  /* put off: it has no cell yet */
  WLH_WAITING, /* its cell is pending, as far as we were told */
  WLH_HELD,    /* its cell is a lock */
  WLH_ENDING,  /* its release or end was put off */
  WLH_ENDED    /* its cell is gone; its event, if any, is all that is left */
};

struct wlh_request {
  struct wlh_item item;     /* first */
  struct wlk_link by_agent; /* (q) in agent->requests */
  struct wlk_link by_trash; /* (m) */
  enum wlh_state state;     /* (q) */
  uint32_t cell;            /* (m) its cell; 0 for none */
  uint64_t cookie;          /* (m) what it is called there */
  struct wlh_ask ask;       /* (c) once put off: name and label are in `text` */
  uint16_t *text;           /* (c) likewise; ours */
};

/* The question of a thread in wlh_wait whether it would wait for itself. It is in that call, which
 * does not return while it is put off or being done. */
struct wlh_block {
  struct wlh_item item;        /* first */
  struct wlh_request *request; /* (c) what it waits for */
};

/* A wlh_bucket_ready or a wlh_snapshot. */
struct wlh_errand {
  struct wlh_item item;        /* first */
  bool doing;                  /* (q) the helper has it, and frees it if it is gone by then */
  struct wlk_link by_agent;    /* (q) in agent->errands */
  uint16_t *name;              /* (c) ours; NULL for everything */
  uint32_t units;              /* (c) */
  bool pending;                /* (c) */
  enum wlh_status status;      /* (q) the answer */
  struct wlh_snapshot *answer; /* (q) */
};

struct wlh_agent {
  struct wlh_item item;           /* first; its termination, when put off */
  struct wlh_bucket *bucket;      /* (c) */
  struct wlk_link by_bucket;      /* (q) in bucket->agents */
  struct wlk_link by_wake;        /* (q) in bucket->to_wake, or alone */
  struct wlk_link requests;       /* (q) of wlh_request.by_agent */
  struct wlk_link errands;        /* (q) of wlh_errand.by_agent */
  struct wlk_link events;         /* (q) of wlh_item.by_event, oldest first */
  bool woken;                     /* (q) from entering to_wake until it takes its events */
  bool terminating;               /* (q) */
  unsigned pins;                  /* (q) threads inside, or about to call, `wake` */
  const struct wlh_item *awaited; /* (q) what its thread blocks for; NULL while it does not */
  struct wlk_condition unblocked; /* (q) signalled when `awaited` got news, the question of its
                                     wlh_block was answered, or pins became 0 */
  uint32_t cell;                  /* (m) its AGENT cell in this life; 0 for none yet */
  uint32_t number;                /* (c) the end of its client id */
  uint32_t thread_id;             /* (c) */
  uint32_t thread_name_length;    /* (c) */
  uint16_t thread_name[WLK_THREAD_NAME_MOST]; /* (c) */
  wlk_wake_function *wake;                    /* (c) */
  void *wake_data;                            /* (c) */
  struct wlh_request *spare;                  /* (t) made for the next request, or NULL */
  char client_id[24];                         /* (c) */
};

/* How the helper watches another member. */
struct wlh_watch {
  int descriptor;   /* (h) hangs up when it dies; -1 for none */
  uint64_t look_at; /* (h) when to look whether it lives, ns; 0: not at all */
  uint64_t since;   /* (h) when it was doubted that it lives, ns */
};

/* Lock key: (m) mu  (q) qmu  (c) constant  (h) the helper  (t) the agent's own thread
 *           (a) atomic  (r) the registry's mutex, bucket.c */
/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which it is read */
struct wlh_bucket {
  struct wlk_link by_registry;   /* (r) */
  unsigned opens;                /* (r) how often it is open */
  uint32_t forked;               /* (a) 1 in a forked child, for ever */
  char directory[WLH_PATH_SIZE]; /* (c) */
  bool standard;                 /* (c) whether that is the default */
  char name[25];                 /* (c) of the bucket's directory */
  uint16_t *title;               /* (c) the bucket's name; NULL: it is too long to be noted */
  uint32_t title_units;          /* (c) */
  char version[16];              /* (c) */
  uint32_t id;                   /* (c) of this process in client ids */

  struct wlk_mutex mu;
  bool open;                    /* (m) whether there are tables */
  struct wlh_port port;         /* (m) */
  struct wlh_arena arena;       /* (m) */
  uint64_t me;                  /* (m) what we write into `word` */
  struct wlh_request **by_cell; /* (m) WLH_CELLS_MOST of them: whose cell it is; NULL: not open */
  uint32_t by_cell_used;        /* (m) how many of them had a cell at the end of the last turn */
  uint64_t cookie;              /* (m) the last one given */
  struct wlh_agent *caller;     /* (m) whose call this turn is: it needs no wake-up, or NULL */
  bool stealing;                /* (m) whether this turn stole something */
  struct wlk_link trash;        /* (m) requests to be freed after the turn */
  struct wlk_link dead_agents;  /* (m) likewise, of by_bucket */
  uint32_t needed;              /* (m) cells that the first of put_off needs, if WLH_NEEDS_ROOM */
  bool no_room;                 /* (m) whether the file cannot grow: what needs more fails */
  bool watching;  /* (m) whether all members of `joins` are watched, or soon will be */
  bool minded;    /* (m) whether the helper looks after the files; else the next turn wakes it */
  bool used;      /* (m) whether an agent had a turn since the helper looked after the files */
  uint32_t joins; /* (m) that of the header when the helper looked who is a member */
  uint32_t lost;  /* (a) 1: the file or its tables are lost, the helper is to tear down */
  const char *lost_why;                /* (a) set before `lost`; NULL: the SIGBUS handler set it */
  uint64_t debts[WLH_MEMBERS / 64];    /* (m) members to whom a wake-up could not be sent */
  uint64_t suspects[WLH_MEMBERS / 64]; /* (m) members that may have died */

  struct wlk_mutex qmu;
  struct wlh_segment *seen;    /* (q) the tables for those who are not inside; NULL: not open.
                                  Mapped while it is set or `lookers` is not 0 */
  uint64_t seen_bytes;         /* (q) how many bytes of `seen` are mapped; (c) for a looker */
  unsigned lookers;            /* (q) threads that read `seen` */
  struct wlk_link agents;      /* (q) */
  struct wlk_link put_off;     /* (q) operations to be done, oldest first */
  uint32_t put_off_count;      /* (a) how many; changed with qmu */
  struct wlk_link to_wake;     /* (q) */
  uint32_t numbers;            /* (q) the last number of an agent */
  bool running;                /* (q) whether the helper runs: it has the bucket until then */
  struct wlk_condition ended;  /* (q) signalled when `running` became false, or `lookers` 0 */
  uint32_t stop;               /* (a) 1: the helper is to leave and end */
  struct wlh_port_alarm alarm; /* (q) pokes the helper; none while the file is not open. A forked
                                  child reads it, too */
  struct wlh_failure failure;  /* (q) the last one */

  struct wlh_watch watches[WLH_MEMBERS];       /* (h) */
  int accepted[WLH_MEMBERS + WLH_MEMBERS / 2]; /* (h) connections of others; -1 for none */
  bool deaf;                                   /* (h) no connection can be accepted for now */
  uint64_t debt_at, debt_interval; /* (h) when to try `debts` again, ns; 0: not at all */
  uint64_t mind_at;                /* (h) when to look at the files next, ns; 0: not at all */
  uint64_t refresh_at;             /* (h) when to call wlh_port_refresh next, ns */
  unsigned roomy;                  /* (h) times in a row that few of many cells were in use when it
                                      looked at the files */
  uint32_t own_cell;               /* (h) the last one that wlh_own_look looked at */
  uint64_t raise_at;               /* (h) when to raise the descriptors, ns; 0: not at all */
  struct wlh_view view;            /* (h) room for snapshots */
};

static inline bool wlh_is_forked(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->forked, __ATOMIC_RELAXED) != 0;
}

static inline bool wlh_is_lost(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->lost, __ATOMIC_ACQUIRE) != 0;
}

/* `why`: a constant, the end of a sentence about the file. */
static inline void wlh_set_lost(struct wlh_bucket *bucket, const char *why)
{
  if (!wlh_is_lost(bucket)) __atomic_store_n(&bucket->lost_why, why, __ATOMIC_RELAXED);
  __atomic_store_n(&bucket->lost, 1, __ATOMIC_RELEASE);
}

static inline bool wlh_is_stopping(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->stop, __ATOMIC_ACQUIRE) != 0;
}

/* Whether the file is lost, as a call of cells.h said or was found otherwise; then what the turn
 * did means nothing, and the helper tears down. Inside. */
bool wlh_is_over(struct wlh_bucket *bucket, enum wlh_cells_status status);

/* Has the helper look what there is to do, if it has the file open; else it looks by itself before
 * it waits. Threads: any, without qmu. */
void wlh_alarm(struct wlh_bucket *bucket);

static inline struct wlh_request *wlh_request_of(struct wlh_item *item)
{
  return (struct wlh_request *)(void *)item;
}

static inline struct wlh_errand *wlh_errand_of(struct wlh_item *item)
{
  return (struct wlh_errand *)(void *)item;
}

/* Lets threads that are not inside read the tables where they are mapped now; and ends that, before
 * they are unmapped: nobody reads them any more when it returns. With mu, and not between the two
 * below. */
void wlh_show_tables(struct wlh_bucket *bucket);
void wlh_hide_tables(struct wlh_bucket *bucket);

/* Who reads cells without being inside does so between these two: see wlh_cells_begin_look. Returns
 * the tables, which the other one takes; NULL if the file is not open. */
struct wlh_segment *wlh_begin_look(struct wlh_bucket *bucket);
void wlh_end_look(struct wlh_bucket *bucket, struct wlh_segment *segment);

/* Forgets the request's cell. With mu. */
void wlh_forget_cell(struct wlh_bucket *bucket, struct wlh_request *request);

/* Takes a request out of all lists, to be freed after the turn. With mu and qmu. */
void wlh_trash(struct wlh_bucket *bucket, struct wlh_request *request) WLK_REQUIRES(bucket->qmu);

/* Frees the trash. With mu, outside. */
void wlh_empty_trash(struct wlh_bucket *bucket);

/* Frees the room of a snapshot. */
void wlh_view_free(struct wlh_view *view);

/* Takes an errand off its agent, and frees it. With qmu, or when nobody else has the agent. */
void wlh_errand_free(struct wlh_errand *errand);

#endif
