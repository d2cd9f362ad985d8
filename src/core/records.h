/* The records: all lock state, as plain structs. What works on them stands above.
 *
 *   process      all of an operating system process; holds the mutex that guards the rest
 *   manager      a lock manager (2.2): the resources of one storage bucket
 *   resource     what a manager knows of a resource name: the lock request queue (2.5) and the part
 *                of the held lock set (2.4) that has that name. It exists only while one of the two
 *                is not empty
 *   request      a lock request (2.5) and, once granted, the lock (2.4)
 *   declaration  what a request carries beyond that: its label, what it was made inside of
 *   mark         that what a lock was for is done, for a time
 *   agent        a thread's environment (2.4)
 *
 * Each field says who may touch it when, by its lock key.
 *
 * Invariants of a name. They hold whenever nobody is inside a turn of its shard; who changes a
 * queue keeps them, who reads one may rely on them. In brackets: what looks for it in check.c,
 * after every turn of a checked build. The host scope has the same (src/host/segment.h).
 *
 *   exclusion   What is held is one exclusive lock, or shared ones whose weights add up to `units`,
 *               which is at most `limit`. [check_held]
 *   no idle head  The first request of a queue is not grantable, so what is waited for is held.
 *               [check_queue] Hence only a request that is made, or one that ends, can grant
 *               anything: request_a_lock looks at the new one alone.
 *   order       A request enters its queue behind all that have its priority or more, and ahead
 *               of all that have less (queue.h). It leaves it as the first one, when it is granted,
 *               or by ending. Nothing gets ahead of a request but thefts, whose locks were in no
 *               queue, and requests of more priority. Two rely on it: wlk_wait_for_the_lock, which
 *               asks only once whether a thread waits for itself, unless somebody with more
 *               priority waits; and the search for deadlocks, which is made once for each request,
 *               and also for those that it gets ahead of (deadlock.h). [check_order; check_writers,
 *               of those that are declared. A moment does not show who came first of others]
 *   tokens      Each grant has a greater token than any before it in the shard, so of two locks
 *               that are held together the later one has the greater token. [check_tokens]
 *   thefts      A theft ends all locks that are held and nothing else: the queue, the limit and the
 *               marks stay. A robbed lock is its agent's until that was told. [check_agent]
 *   limits      The first shared request that is made says what the limit is. That is the limit of
 *               every shared request of the name as long as the resource exists. [check_weights]
 *   one place   A pending request is in the queue, a lock in the held list, a stolen one in
 *               neither; each is in its agent's list until it ends. A resource exists while one of
 *               its lists is not empty. [check_resource, wlk_check]
 *   no debts    The turn that ends a request grants what can be granted then, and sees to it that
 *               granted and robbed requests are told. [check_queue, check_agent] */
#ifndef WLK_RECORDS_H
#define WLK_RECORDS_H

#include "list.h"
#include "pool.h"
#include "port.h"
#include "table.h"
#include "weblocks.h"

#include <stdatomic.h>

struct wlk_declaration;
struct wlk_resource;

/* Raise with any change to a struct of the core, to what a field means, or to what is guarded how:
 * copies of the package with the same number work on the same memory. layout.c has the layout once
 * more, and does not compile where the two differ. */
#if !defined(WLK_ABI)
#define WLK_ABI UINT32_C(8)
#endif

/* So many threads can be at work at the same time, if their names are in as many shards. */
enum { WLK_SHARDS = 32 };

/* What all resources share whose names hash to it: the mutex. On cache lines of its own, and all
 * that a turn writes while nobody else needs to know of it is guarded by it: so threads with
 * different names write nothing in common, with luck.
 *
 * Lock key: (s) its mutex */
struct wlk_shard {
  _Alignas(128) struct wlk_mutex mutex;
  uint64_t grants; /* (s) so far: the token of the last lock. Not of each resource or manager:
                      those go when nobody needs them */
};

/* Lock key: (p) its mutex  (c) constant */
struct wlk_process {
  char magic[16];                      /* (c) WLK_MAGIC: this and `abi` stay in place in every
                                          version */
  uint32_t abi;                        /* (c) WLK_ABI */
  bool started;                        /* (p) whether the fields below are set up */
  struct wlk_mutex mutex;              /* the mutex of what is not in a shard */
  uint64_t hash_key[2];                /* (p) written once, before the first agent or manager; then
                                          (c) */
  uint32_t agents_created;             /* (p) */
  struct wlk_link agents;              /* (p) of struct wlk_agent.by_process */
  size_t agent_count;                  /* (p) of `agents` */
  struct wlk_table managers;           /* (p) of struct wlk_manager.entry, by bucket name */
  uint64_t searches;                   /* (p) for deadlocks, so far; see struct wlk_declaration */
  uint64_t declared;                   /* (p) requests that were pending and declared, so far */
  struct wlk_shard shards[WLK_SHARDS]; /* each as it says */
};

#define WLK_MAGIC "web-locks core"
#define WLK_PROCESS_INIT                                                                           \
  {                                                                                                \
    .magic = WLK_MAGIC, .abi = WLK_ABI, .mutex = WLK_MUTEX_INIT                                    \
  }

/* The shard of a name with this hash. Tables use the lowest bits. */
static inline uint8_t wlk_shard_of(uint64_t hash)
{
  return (uint8_t)((hash >> 32) % WLK_SHARDS);
}

enum { WLK_CLIENT_ID_SIZE = 64 };

/* Lock key: (a) its mutex  (p) process->mutex  (c) constant  (t) its own thread */
struct wlk_agent {
  struct wlk_process *process;                /* (c) */
  char client_id[WLK_CLIENT_ID_SIZE];         /* (c) */
  wlk_wake_function *wake;                    /* (c) */
  void *wake_data;                            /* (c) */
  uint32_t number;                            /* (c) the end of its client id */
  uint32_t thread_id;                         /* (c) */
  uint32_t thread_name_length;                /* (c) */
  uint16_t thread_name[WLK_THREAD_NAME_MOST]; /* (c) */
  struct wlk_link by_process;                 /* (p) in process->agents */
  uint32_t snapshot_index;                    /* (p) of its client id in the snapshot being made */

  struct wlk_link requests;     /* (t) of by_agent: every request that has not ended */
  struct wlk_resource *spare;   /* (t) made for the next name; NULL, or in no manager */
  struct wlk_pool request_pool; /* (t) */
  struct wlk_pool name_pool;    /* (t) resources with short names */

  struct wlk_mutex mutex;
  struct wlk_link events;       /* (a) of by_event: requests with news, oldest first */
  atomic_bool has_events;       /* (a) whether `events` has any; without: an outdated answer */
  bool woken;                   /* (a) from being told of an event until it takes its events */
  bool terminating;             /* (a) */
  unsigned pins;                /* (a) threads inside, or about to call, `wake` */
  struct wlk_agent *next_wake;  /* of the turn that pinned it to wake it */
  struct wlk_condition changed; /* signalled when the request it blocks for got news; when it is
                                    terminating and lost its last pin */
};

/* What a manager has in a shard.
 *
 * Lock key: (s) the shard's mutex */
struct wlk_part {
  struct wlk_table resources; /* (s) of struct wlk_resource.entry: lock request queue map and held
                                 lock set in one */
  size_t requests;        /* (s) pending and held ones of all resources: the size of a snapshot */
  size_t labels;          /* (s) requests that have a label: likewise */
  size_t name_units;      /* (s) code units in the names of all resources and labels: likewise */
  struct wlk_table marks; /* (s) of struct wlk_mark.entry */
  struct wlk_link marks_by_look; /* (s) the same, those first that were not looked at for longest */
  char apart[64];                /* so that the next part is on other cache lines */
};

/* Lock key: (p) process->mutex  (c) constant */
struct wlk_manager {
  struct wlk_entry entry;            /* in process->managers; its name is the bucket's, in `name` */
  struct wlk_process *process;       /* (c) */
  size_t openings;                   /* (p) how often it is open; it exists as long as not 0 */
  struct wlk_part parts[WLK_SHARDS]; /* each as it says */
  uint16_t name[];                   /* (c) */
};

/* Lock key: (s) the mutex of its shard  (c) constant while it is in a manager */
struct wlk_resource {
  struct wlk_entry entry; /* in part->resources; its name is `name` */
  struct wlk_part *part;  /* (c) of its manager, in its shard */
  struct wlk_link held;   /* (s) of by_resource: locks; one exclusive, or any number shared */
  struct wlk_link queue;  /* (s) of by_resource: pending requests, in the order of queue.h */
  struct wlk_link levels; /* (s) of by_level: who stands for those in the queue that have a priority
                             other than 0, see queue.h */
  struct wlk_declaration *writer; /* (s) of the first request in the queue that is declared and not
                                     held together with just any shared lock (it is exclusive, or
                                     has a weight), from which by_writer leads to the others; NULL
                                     if there is none */
  size_t pending;                 /* (s) requests in `queue` */
  uint32_t limit;                 /* (s) how many units may be held; 0 if there is no limit */
  uint32_t units;                 /* (s) how many are held: the weights of the shared locks */
  uint32_t capacity;              /* (c) code units that fit into `name` */
  bool limit_is_set;              /* (s) whether a shared request has said what the limit is */
  uint8_t place;                  /* (c) in its batch, if it is from a pool */
  uint16_t name[];                /* (c) */
};

/* See mark.h.
 *
 * Lock key: (s) the mutex of its shard  (c) constant while it is in a manager */
struct wlk_mark {
  struct wlk_entry entry;  /* in part->marks; its name is `name` */
  struct wlk_link by_look; /* (s) in part->marks_by_look */
  uint64_t until;          /* (s) wlk_port_now() when it is over; 0 if it was not set */
  uint64_t token;          /* (s) of the last lock that it was made for: no other one sets it */
  uint16_t name[];         /* (c) */
};

enum wlk_state {
  WLK_STATE_PENDING, /* in resource->queue */
  WLK_STATE_HELD,    /* in resource->held */
  WLK_STATE_STOLEN   /* in neither, until its agent took the event or released; also of one that
                        has passed */
};

/* Lock key: (s) the mutex of its shard  (a) agent->mutex  (c) constant  (t) its agent's thread */
struct wlk_request {
  struct wlk_link by_resource; /* (s) in the resource's queue or held list, as `state` says */
  struct wlk_link by_agent;    /* (t) in agent->requests; once ended, in the turn's chain */
  struct wlk_link by_event;    /* (a) in agent->events while `news` is not 0; else alone, or in the
                                  list of what a turn of its own agent granted */
  struct wlk_agent *agent;     /* (c) */
  union {
    struct wlk_resource *resource; /* (s) unless stolen */
    struct {
      uint32_t thread, number; /* (s) if stolen: of the agent that stole it */
    } thief;
  };
  struct wlk_declaration *declaration; /* (c) what else it carries; NULL for nothing */
  uint64_t since;  /* (s) wlk_port_now() when it was made, then when it was granted */
  uint64_t token;  /* (s) once granted: what shard->grants was then */
  uint32_t tag;    /* (c) */
  uint32_t weight; /* (c) units it takes; 0 if it is exclusive or has no limit */
  uint8_t mode;    /* (c) enum wlk_mode */
  uint8_t state;   /* (s) enum wlk_state */
  uint8_t news;    /* (s) and (a) to add to it: bits of enum wlk_news that the agent was not told
                      yet. (a) and (t) to take them away, so with (s) and (t) it can be read */
  uint8_t shard;   /* (c) its number */
  uint8_t place;   /* (c) in its batch */
  bool blocked;    /* (t) whether its agent's thread has blocked for it */
  bool awaited;    /* (s) whether it does now */
  bool passes;     /* (c) whether it holds nothing, and ends when it would be granted */
};

#define WLK_REQUEST_OF(link, member) WLK_ITEM(link, struct wlk_request, member)

/* That a declared request was made inside of a declared lock.
 *
 * Lock key: (p) process->mutex  (c) constant */
struct wlk_nesting {
  struct wlk_link by_lock;       /* (p) in outer->inner while that is held and the request pends */
  struct wlk_declaration *inner; /* (c) the request */
  struct wlk_declaration *outer; /* (c) the lock; void once the request is not pending any more, or
                                    `by_lock` is alone */
};

/* What a request carries beyond its record, in one block with the label's code units behind. There
 * is one if it has a label, a priority other than 0, or declares.
 *
 * Lock key: (p) process->mutex  (s) the mutex of its request's shard  (c) constant */
struct wlk_declaration {
  struct wlk_request *request; /* (c) */
  bool declares;               /* (c) */
  bool pending;                /* (p) whether it declares and is pending */
  uint32_t label_length;       /* (c) code units; 0 for none */
  int32_t priority;            /* (c) */
  uint64_t order;              /* (p) while pending: of those with the same priority, smaller is
                                  ahead in the queue */
  struct wlk_link by_level;    /* (s) in resource->levels if it stands for its level, see queue.h */
  struct wlk_link
      by_writer;         /* (s) and (p) while pending, if exclusive or with a weight: a ring of its
                                  like on its resource, in the queue's order, see
                                  resource->writer */
  struct wlk_link inner; /* (p) of struct wlk_nesting.by_lock: what is pending inside it */

  /* During a search, which has all mutexes but those of agents. */
  uint64_t search;                 /* (p) the last one that found it, pending or held */
  uint64_t goal;                   /* (p) the last one that looked for a way to it */
  struct wlk_declaration *found;   /* (p) pending: found next after this one */
  struct wlk_declaration *waiting; /* (p) pending: whose way led here */
  struct wlk_request *through;     /* (p) pending: the lock that way went through */

  uint32_t nesting_count;       /* (c) */
  struct wlk_nesting nesting[]; /* each as it says */
};

/* The code units in the label of a request; 0 if it has none. */
static inline uint32_t wlk_label_length(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->label_length : 0;
}

static inline int32_t wlk_priority(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->priority : 0;
}

/* Whether a request is part of the search for deadlocks. */
static inline bool wlk_declares(const struct wlk_request *request)
{
  return request->declaration && request->declaration->declares;
}

#endif
