/* The private records of each process. This comment says how member/ works; the rest of this header
 * defines the records.
 *
 * The problem. An event loop must not wait, neither for a process that is stopped inside the
 * tables' critical section nor for a file that is being opened. But its calls must take effect in
 * their order, and its thread must receive the theft of a lock before it receives a later grant.
 *
 * The solution. A process is one member, however many threads it has. Each bucket has a helper, a
 * thread that may wait (helper.h). A call tries for some microseconds to enter the critical
 * section. If it cannot, it is deferred, and an event reports its result later. The thread of the
 * process that enters next does the deferred operations before its own work, so the calls keep
 * their order (deferred.h).
 *
 * What guards what. A letter beside each field names its lock. Two locks are shared by threads, and
 * must be taken in this order:
 *   mu   is held by the thread that is inside the critical section, or that opens or closes the
 *        tables. Event loops only try to take it; the helper releases it while it waits
 *   qmu  guards the deferred operations, the events, and the states of requests. Its holder never
 *        waits for another process, so any thread may wait for it. It is held for a few stores, or,
 *        where the bucket is lost or closed, for a walk over all requests or agents
 * "Inside" means inside the critical section of the tables, see section.h. The letters:
 *   (m) mu  (q) qmu  (c) constant  (h) the helper  (t) the agent's own thread  (a) atomic
 *   (r) the registry's mutex, bucket.c
 *
 * The owners. The record of a request belongs to its agent's thread, except for fields marked (m)
 * or (q). While it is `doing`, it belongs to the thread that has mu. If the agent's thread gives
 * the request up meanwhile, it sets `gone`, and the thread that has mu frees the record.
 *
 * A request, from the call to the grant:
 *   agent_request.c  makes the record, and tries to enter (section.c). Inside it makes the cell,
 *                    leaves, and returns the result with the agent's events. If it cannot enter, it
 *                    copies the name, defers the request (deferred.c) and wakes the helper
 *   helper.c         opens the file (membership.c), enters, does what was deferred, connects to all
 *                    members while a request of ours waits, and sleeps
 *   wake_up.c        another process granted the lock, and its datagram wakes the helper, or the
 *                    event loop of the only agent (wlh_agent_listen): a loop that is busy may let
 *                    its own thread wait, but no other
 *   mailbox.c        the helper enters and takes the mail: WAITING becomes HELD, with an event
 *   events.c         calls the agent's wake function, without mu and qmu
 *   agent_release.c  releases in the same way, at once or deferred
 *
 * Crashes and losses: the state that each leaves, and who repairs it.
 *   a process dies         its connection hangs up, if we wait. We then check the member until the
 *                          kernel confirms its death, and remove it (helper.c). If we do not wait,
 *                          we notice the death when a request would be refused, or at a snapshot
 *   a process stops inside until it continues or is killed, the calls of all processes are deferred
 *   the file is lost       `lost` is set, perhaps by the signal handler. The helper closes the file
 *                          and notifies all holders and waiters; for the next operation it opens
 *                          the file again, with new cells
 *   a wake-up fails        it stays in `unsent`, and the helper sends it again
 *   a fork                 the child closes the inherited descriptors (bucket.c) */
#ifndef WLH_RECORDS_H
#define WLH_RECORDS_H

#include "../port/port.h"
#include "../segment/requests.h"
#include "../segment/view.h"

#include "../../core/list.h"

enum wlh_op {
  WLH_OP_NONE,
  WLH_OP_REQUEST,
  WLH_OP_RELEASE,
  WLH_OP_END,
  WLH_OP_TERMINATE,
  WLH_OP_BLOCK,
  WLH_OP_PUBLISH,
  WLH_OP_READY,
  WLH_OP_SNAPSHOT
};

/* Every record that can be deferred and reported to its agent begins with this struct. */
struct wlh_item {
  struct wlh_agent *agent;     /* (c) */
  struct wlk_link by_deferred; /* (q) in bucket->deferred, or in no list */
  struct wlk_link by_event;    /* (q) in agent->events, or in no list */
  struct wlk_event event;      /* (q) its news is 0 if there is none; `tag` is (c) */
  enum wlh_op op;              /* (q) the deferred operation, or NONE */
  uint32_t openings;           /* (q) those of the bucket when it was deferred */
  bool doing;                  /* (q) a thread has taken it out of bucket->deferred and does it now;
                                  if it is `gone` afterwards, that thread frees it */
  bool gone;                   /* (q) its agent must receive no more events about it */
};

enum wlh_state {
  WLH_DEFERRED, /* deferred; it has no cell yet */
  WLH_WAITING,  /* its cell is pending, as far as we know */
  WLH_HELD,     /* its cell is a lock */
  WLH_ENDING,   /* its release or end was deferred */
  WLH_ENDED     /* its cell has ended; it may have an event left */
};

struct wlh_request {
  struct wlh_item item;     /* must be first */
  struct wlk_link by_agent; /* (q) in agent->requests */
  struct wlk_link by_trash; /* (m) */
  enum wlh_state state;     /* (q) */
  uint32_t cell;            /* (m) its cell, or 0 */
  uint64_t cookie;    /* (m) until the grant is reported, then (c): as in its cell; identifies it */
  bool marked;        /* (m) until the grant is reported, then (c): whether its name was marked */
  uint64_t keep;      /* (t) until its release is deferred, then (c): as wlh_release_and_mark */
  struct wlh_ask ask; /* (c) once deferred; `text` has the name and label */
  uint16_t *text;     /* (c) once deferred; owned */
};

/* The check whether a thread in wlh_wait_for_the_lock would wait for itself. The record is on the
 * stack of that call, which does not return while the check is deferred or being done. */
struct wlh_block {
  struct wlh_item item;        /* must be first */
  struct wlh_request *request; /* (c) the awaited request */
};

struct wlh_job {
  struct wlh_item item;        /* must be first */
  struct wlk_link by_agent;    /* (q) in agent->jobs */
  uint16_t *text;              /* (c) the name of a snapshot, NULL for all names; or what a lock
                                  publishes. Owned */
  uint32_t units;              /* (c) code units in `text` */
  uint64_t cookie;             /* (c) of the lock that publishes */
  bool pending;                /* (c) whether the snapshot includes the requests that wait */
  enum wlh_status status;      /* (q) of the result */
  struct wlh_snapshot *answer; /* (q) the result */
};

struct wlh_agent {
  struct wlh_item item;           /* must be first; the agent's termination, when deferred */
  struct wlh_bucket *bucket;      /* (c) */
  struct wlk_link by_bucket;      /* (q) in bucket->agents */
  struct wlk_link by_wake;        /* (q) in bucket->to_wake, or in no list */
  struct wlk_link requests;       /* (q) of wlh_request.by_agent */
  struct wlk_link jobs;           /* (q) of wlh_job.by_agent */
  struct wlk_link events;         /* (q) of wlh_item.by_event, oldest first */
  bool woken;                     /* (q) true from its entry in to_wake until it takes its events */
  bool terminating;               /* (q) */
  unsigned pins;                  /* (q) threads that are in `wake`, or about to call it */
  const struct wlh_item *awaited; /* (q) what its thread blocks for, or NULL */
  struct wlk_condition unblocked; /* (q) signalled on news about `awaited`, on the result of its
                                     wlh_block, and when `pins` becomes 0 */
  uint32_t cell;                  /* (m) its AGENT cell, or 0 */
  uint32_t number;                /* (c) the number at the end of its client id */
  uint32_t thread_id;             /* (c) */
  uint32_t thread_name_length;    /* (c) */
  uint16_t thread_name[WLK_THREAD_NAME_MOST]; /* (c) */
  wlk_wake_function *wake;                    /* (c) */
  void *wake_data;                            /* (c) */
  struct wlh_request *spare;                  /* (t) for the next request, or NULL */
  char client_id[24];                         /* (c) */
};

struct wlh_watch {
  int descriptor;    /* (h) hangs up when the watched member dies; -1 for none */
  uint64_t check_at; /* (h) when to check whether the member lives, ns; 0: never */
  uint64_t since;    /* (h) when the death of the member was first suspected, ns */
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): in the order in which it is read */
struct wlh_bucket {
  struct wlk_link by_registry;   /* (r) */
  unsigned opens;                /* (r) how many times it is open */
  uint32_t forked;               /* (a) 1 in a forked child; never reset */
  char directory[WLH_PATH_SIZE]; /* (c) */
  bool standard;                 /* (c) whether that is the default directory */
  char name[25];                 /* (c) of the bucket's directory */
  uint16_t *title;               /* (c) the bucket's name; NULL if keep_title kept none */
  uint32_t title_units;          /* (c) */
  char version[16];              /* (c) */
  uint32_t id;                   /* (c) the number of this process in client ids */

  struct wlk_mutex mu;
  bool open;                    /* (m) whether there are tables */
  struct wlh_port port;         /* (m) */
  struct wlh_arena arena;       /* (m) */
  uint64_t me;                  /* (m) the value of `word` while we are the owner */
  struct wlh_request **by_cell; /* (m) the request of each of WLH_CELLS_MOST cells; NULL while the
                                   file is not open */
  uint32_t by_cell_used;        /* (m) number of cells when we last left the tables */
  uint64_t cookie;              /* (m) the number of the last request */
  struct wlh_agent *caller;     /* (m) the agent whose call runs this critical section, and which
                                   needs no wake-up; or NULL */
  bool stealing;                /* (m) whether this critical section stole a lock */
  struct wlk_link trash;        /* (m) requests to free after the critical section */
  struct wlk_link dead_agents;  /* (m) agents to free after the section; linked by `by_bucket` */
  uint32_t needed;              /* (m) after WLH_NEEDS_ROOM: free cells that the first deferred
                                   operation needs */
  bool no_room;                 /* (m) whether the file cannot grow */
  bool watching;   /* (m) whether we watch, or soon will, all members that joined up to `joins` */
  bool is_checked; /* (m) whether the helper checks the files; if not, the next critical section
                      wakes it */
  bool used;       /* (m) whether agents have entered since the helper last checked the files */
  uint32_t joins;  /* (m) the header's `joins` when the helper last searched for members */
  uint32_t lost;   /* (a) 1: the file or its tables are lost, and the helper must close them */
  const char *lost_why; /* (a) set before `lost`; NULL if the SIGBUS handler set `lost` */
  uint64_t unsent[WLH_MEMBERS / 64];   /* (m) members whose wake-up is due but has failed */
  uint64_t suspects[WLH_MEMBERS / 64]; /* (m) members that may have died */

  struct wlk_mutex qmu;
  struct wlh_segment *seen;   /* (q) the tables for readers that are not in the critical section, or
                                  NULL. They stay mapped until `seen` is NULL and `lookers` is 0 */
  uint64_t seen_bytes;        /* (q) mapped bytes of `seen`; constant while `lookers` is not 0 */
  unsigned lookers;           /* (q) threads that read `seen` */
  struct wlk_link agents;     /* (q) */
  struct wlk_link deferred;   /* (q) deferred operations, oldest first */
  uint32_t deferred_count;    /* (a) how many are in `deferred`; changed with qmu */
  uint32_t openings;          /* (q) how often the helper began to open the file; may overflow */
  struct wlk_link to_wake;    /* (q) */
  uint32_t numbers;           /* (q) the number of the newest agent */
  bool running;               /* (q) whether the helper runs, and so may use the bucket */
  struct wlk_condition ended; /* (q) signalled when `running` becomes false, or `lookers` 0 */
  uint32_t stop;              /* (a) 1: the helper must leave and end */
  struct wlh_agent *hearer;   /* (q) the agent whose event loop hears wake-ups; NULL: the helper
                                  does */
  struct wlh_port_alarm alarm; /* (q) wakes the helper; none while the file is not open. A forked
                                  child also reads it */
  struct wlh_failure failure;  /* (q) the latest failure */

  struct wlh_watch watches[WLH_MEMBERS];       /* (h) */
  int accepted[WLH_MEMBERS + WLH_MEMBERS / 2]; /* (h) connections from other members; -1 for none */
  bool cannot_accept;                          /* (h) no connection can be accepted for now */
  uint64_t retry_at, retry_interval;           /* (h) when to try `unsent` again, ns; 0: never */
  uint64_t check_at;                           /* (h) when to check the files next, ns; 0: never */
  uint64_t refresh_at;                         /* (h) when to call wlh_port_refresh next, ns */
  unsigned shrinkable_checks; /* (h) consecutive checks that found the tables mostly empty */
  uint32_t self_check_cell;   /* (h) the last cell that wlh_check_own_cells checked */
  uint64_t raise_at;          /* (h) when to move the descriptors to high numbers, ns; 0: never */
  struct wlh_view view;       /* (h) memory for snapshots, reused */
};

static inline bool wlh_is_forked(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->forked, __ATOMIC_RELAXED) != 0;
}

static inline bool wlh_is_lost(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->lost, __ATOMIC_ACQUIRE) != 0;
}

/* Marks the file as lost. The constant `why` is the end of a sentence about the file. */
static inline void wlh_set_lost(struct wlh_bucket *bucket, const char *why)
{
  if (!wlh_is_lost(bucket)) __atomic_store_n(&bucket->lost_why, why, __ATOMIC_RELAXED);
  __atomic_store_n(&bucket->lost, 1, __ATOMIC_RELEASE);
}

static inline bool wlh_is_stopping(const struct wlh_bucket *bucket)
{
  return __atomic_load_n(&bucket->stop, __ATOMIC_ACQUIRE) != 0;
}

/* If `status` reports a loss of the file, records it. Returns whether the file is lost, from any
 * cause. If so, the critical section has no effect, and the helper closes the tables after it. */
bool wlh_note_loss(struct wlh_bucket *bucket, enum wlh_cells_status status);

/* A helper without an open file looks for work before it waits, so it needs no alarm. Any thread
 * that does not have qmu may call this function. */
void wlh_wake_helper(struct wlh_bucket *bucket);

/* From now on the helper hears wake-ups, and not an event loop. The caller must not have qmu. */
void wlh_stop_hearing(struct wlh_bucket *bucket);

static inline struct wlh_request *wlh_request_of(struct wlh_item *item)
{
  return (struct wlh_request *)(void *)item;
}

static inline struct wlh_job *wlh_job_of(struct wlh_item *item)
{
  return (struct wlh_job *)(void *)item;
}

/* The first function publishes the mapped tables for readers outside. The second one, which waits
 * for the readers, must be called before unmapping. The caller must have mu, and not be reading. */
void wlh_show_tables(struct wlh_bucket *bucket);
void wlh_hide_tables(struct wlh_bucket *bucket);

/* Between these two calls, any thread may read the tables from outside: they stay mapped, and no
 * space is given back. The first function returns NULL if the file is not open. */
struct wlh_segment *wlh_begin_look(struct wlh_bucket *bucket);
void wlh_end_look(struct wlh_bucket *bucket, struct wlh_segment *segment);

/* The caller must have mu. */
void wlh_forget_cell(struct wlh_bucket *bucket, struct wlh_request *request);

/* The request is freed after the critical section. The caller must have mu and qmu. */
void wlh_move_to_trash(struct wlh_bucket *bucket, struct wlh_request *request)
    WLK_REQUIRES(bucket->qmu);

/* Frees the requests in `trash` and the dead agents. The caller must have mu, and be outside. */
void wlh_empty_trash(struct wlh_bucket *bucket);

/* Frees the arrays, but not the view itself. */
void wlh_view_free(struct wlh_view *view);

/* The caller must have qmu, or be the only user of the agent. */
void wlh_free_job(struct wlh_job *job);

#endif
