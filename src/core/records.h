/* The records: all lock state of a process, as plain structs. Each field has a letter that says
 * which lock guards it; the struct's lock key explains the letters.
 *
 * Invariants of a name. They hold whenever no thread is in a critical section of its shard. Code
 * that changes a queue must keep them, and code that reads it may rely on them. The functions in
 * brackets (check.c) check them in checked builds: check_agent and wlk_check when a test calls
 * wlk_check, the others after each critical section as well. The host scope has the same invariants
 * (src/host/segment/segment.h).
 *
 *   exclusion   Either one exclusive lock is held, or shared locks. Their weights add up to
 *               `units`, which is at most `limit`. [check_held]
 *   idle head   The first request of a queue is not grantable, so a name with waiters is held. Only
 *               a new request, or the end of one, can therefore grant anything: request_a_lock
 *               looks at the new request alone. [check_queue]
 *   order       The order of a queue is that of queue.h. A request leaves the queue when it ends
 *               or, as the head, when it is granted. Only thefts and requests with a higher
 *               priority overtake it. Two places rely on this: wlk_wait_for_the_lock checks only
 *               once whether a thread waits for itself, unless a request with a higher priority
 *               waits; and the search for deadlocks runs once for each request (deadlock.h).
 *               [check_order; check_writers for declared requests; undeclared requests do not
 *               record their age, so their order within a priority is not checked]
 *   tokens      Each grant has a greater token than all earlier grants in the shard, so if two
 *               locks of a name are held together, the later one has the greater token.
 *               [check_tokens]
 *   thefts      A theft ends all held locks; the queue, the limit and the marks stay. The stolen
 *               lock belongs to its agent until the agent receives the event. [check_agent]
 *   limits      The first shared request sets the limit, which all shared requests of the name then
 *               have until the resource is gone. [check_weights]
 *   one place   A pending request is in the queue, a lock in the held list, a stolen lock in
 *               neither; each is in its agent's list until it ends. A resource exists while one of
 *               its lists has entries. [check_resource, wlk_check]
 *   no debts    The critical section that ends a request also grants what became grantable, and
 *               posts the events of granted and stolen requests. [check_queue, check_agent] */
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

/* Every change to a struct of the core, to the meaning of a field, or to its lock must raise this
 * number: copies of the package with the same number share memory. See layout.c. */
#if !defined(WLK_ABI)
#define WLK_ABI UINT32_C(9)
#endif

enum { WLK_SHARDS = 32 };

/* A shard guards the names whose hash selects it (wlk_shard_of). The alignment keeps two shards off
 * the same cache line, so that threads with names in different shards do not slow each other down.
 * Lock key: (s) its mutex */
struct wlk_shard {
  _Alignas(128) struct wlk_mutex mutex;
  uint64_t grants; /* (s) the token of the last granted lock; kept when a resource is freed */
};

/* Lock key: (p) its mutex  (c) constant */
struct wlk_process {
  char magic[16];            /* (c) WLK_MAGIC; must stay in place in every version, with `abi` */
  uint32_t abi;              /* (c) WLK_ABI */
  bool started;              /* (p) whether the fields below are initialised */
  struct wlk_mutex mutex;    /* guards the data that is in no shard */
  uint64_t hash_key[2];      /* set under (p) before the first agent or manager exists; then (c) */
  uint32_t agents_created;   /* (p) */
  struct wlk_link agents;    /* (p) all agents, by `by_process` */
  size_t agent_count;        /* (p) length of `agents` */
  struct wlk_table managers; /* (p) all managers, by bucket name */
  uint64_t searches;         /* (p) number of searches for deadlocks so far */
  uint64_t declared;         /* (p) number of declared requests that have been pending */
  struct wlk_shard shards[WLK_SHARDS];
};

#define WLK_MAGIC "web-locks core"
#define WLK_PROCESS_INIT                                                                           \
  {                                                                                                \
    .magic = WLK_MAGIC, .abi = WLK_ABI, .mutex = WLK_MUTEX_INIT                                    \
  }

/* Tables use the lowest bits of the hash, so the shard is taken from higher bits. */
static inline uint8_t wlk_shard_of(uint64_t hash)
{
  return (uint8_t)((hash >> 32) % WLK_SHARDS);
}

enum { WLK_CLIENT_ID_SIZE = 64 };

/* Lock key: (a) its mutex  (p) process->mutex  (c) constant  (t) only its own thread */
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
  uint32_t snapshot_index; /* (p) index of its client in the snapshot that is being made */

  struct wlk_link requests;     /* (t) every request that has not ended, by `by_agent` */
  struct wlk_resource *spare;   /* (t) for the next new name, in no manager; or NULL */
  struct wlk_pool request_pool; /* (t) */
  struct wlk_pool name_pool;    /* (t) for resources with short names */

  struct wlk_mutex mutex;
  struct wlk_link events;      /* (a) requests with events, oldest first, by `by_event` */
  atomic_bool has_events;      /* (a) whether `events` is not empty; may be outdated without (a) */
  bool woken;                  /* (a) true from a wake-up until the agent takes its events */
  bool terminating;            /* (a) */
  unsigned pins;               /* (a) threads that are in `wake`, or about to call it */
  struct wlk_agent *next_wake; /* used only by the critical section that pinned the agent */
  /* Signalled when the request that the agent blocks for gets an event, and when the last pin is
   * removed. */
  struct wlk_condition changed;
};

/* The resources and marks of a manager in one shard. Lock key: (s) the shard's mutex */
struct wlk_part {
  struct wlk_table resources;    /* (s) struct wlk_resource, by name */
  size_t requests;               /* (s) number of requests and locks, for the size of a snapshot */
  size_t texts;                  /* (s) number of labels and of what is published, likewise */
  size_t name_units;             /* (s) code units in all names and these texts, likewise */
  struct wlk_table marks;        /* (s) struct wlk_mark, by name */
  struct wlk_link marks_by_look; /* (s) all marks; the first was checked longest ago */
  char apart[64];                /* keeps the next part on other cache lines */
};

/* Lock key: (p) process->mutex  (c) constant */
struct wlk_manager {
  struct wlk_entry entry;      /* in process->managers, guarded by the process's mutex */
  struct wlk_process *process; /* (c) */
  size_t open_count;           /* (p) opens minus closes; at 0 the manager is freed */
  struct wlk_part parts[WLK_SHARDS];
  uint16_t name[]; /* (c) */
};

/* Lock key: (s) the mutex of its shard  (c) constant while it is in a manager */
struct wlk_resource {
  struct wlk_entry entry; /* in part->resources */
  struct wlk_part *part;  /* (c) the part of its manager for its shard */
  struct wlk_link held;   /* (s) one exclusive lock, or shared locks, by `by_resource` */
  struct wlk_link queue;  /* (s) pending requests in the order of queue.h, by `by_resource` */
  struct wlk_link levels; /* (s) requests that represent levels (see queue.h), by `by_level` */
  struct wlk_declaration *writer; /* (s) NULL, or the first declared request in the queue that
                                     excludes some shared lock (it is exclusive or has a weight);
                                     by_writer leads to the others */
  size_t pending;                 /* (s) length of `queue` */
  uint32_t limit;                 /* (s) how many units may be held; 0 for no limit */
  uint32_t units;                 /* (s) how many units are held */
  uint32_t capacity;              /* (c) code units that fit into `name` */
  bool limit_is_set;              /* (s) whether a shared request has set the limit */
  uint8_t place;                  /* (c) its index in its batch, if it is from a pool */
  uint16_t name[];                /* (c) */
};

/* See mark.h. Lock key: (s) the mutex of its shard  (c) constant while it is in a manager */
struct wlk_mark {
  struct wlk_entry entry;  /* in part->marks */
  struct wlk_link by_look; /* (s) in part->marks_by_look */
  uint64_t until;          /* (s) the wlk_port_now() time when it ends; 0 if it was not set */
  uint64_t token;          /* (s) the token of the lock that may set it */
  uint16_t name[];         /* (c) */
};

enum wlk_state {
  WLK_STATE_PENDING, /* in resource->queue */
  WLK_STATE_HELD,    /* in resource->held */
  WLK_STATE_REVOKED  /* stolen or passed, until its agent takes the event or ends it */
};

/* Lock key: (s) the mutex of its shard  (a) agent->mutex  (c) constant  (t) its agent's thread */
struct wlk_request {
  struct wlk_link by_resource; /* (s) in the resource's queue or held list, by `state` */
  struct wlk_link by_agent;    /* (t) in agent->requests; after the end, in the chain of the
                                  critical section */
  struct wlk_link by_event;    /* (a) in agent->events while `news` is not 0; else in no list, or in
                                  `granted` of its agent's critical section */
  struct wlk_agent *agent;     /* (c) */
  union {
    struct wlk_resource *resource; /* (s) unless stolen or passed */
    struct {
      uint32_t thread, number; /* (s) if stolen: the agent that stole it */
    } thief;
  };
  struct wlk_declaration *declaration; /* or NULL; only wlk_publish changes it: written under (s) by
                                          its agent's thread, which may read it without */
  uint64_t since;  /* (s) wlk_port_now() of the request or, once it is granted, of the grant */
  uint64_t token;  /* (s) the lock's token; 0 while pending */
  uint32_t tag;    /* (c) */
  uint32_t weight; /* (c) units it takes; 0 if it is exclusive or has no limit */
  uint8_t mode;    /* (c) enum wlk_mode */
  uint8_t state;   /* (s) enum wlk_state */
  uint8_t news;    /* bits of enum wlk_news not yet delivered: set under (s) and (a), cleared under
                      (a) and (t) */
  uint8_t shard;   /* (c) its number */
  uint8_t place;   /* (c) its index in its batch */
  bool blocked;    /* (t) whether its thread has blocked for it */
  bool awaited;    /* (s) whether its thread blocks for it now */
  bool passes;     /* (c) whether it ends when it would be granted */
};

#define WLK_REQUEST_OF(link, member) WLK_ITEM(link, struct wlk_request, member)

/* Links a declared request to a declared lock inside which it was made.
 * Lock key: (p) process->mutex  (c) constant */
struct wlk_nesting {
  struct wlk_link by_lock;       /* (p) in outer->inner while the lock is held and the request is
                                    pending */
  struct wlk_declaration *inner; /* (c) the request */
  struct wlk_declaration *outer; /* (c) the lock; dangling once `by_lock` is in no list */
};

/* The text that the holder of a lock has published. Lock key: (c) constant */
struct wlk_data {
  uint32_t length;  /* (c) of `units`, greater than 0 */
  uint16_t units[]; /* (c) */
};

/* Further data of a request that has a label or a priority other than 0, that declares, or whose
 * lock publishes. The code units of the label follow in the same block of memory.
 * Lock key: (p) process->mutex  (s) the mutex of its request's shard  (c) constant */
struct wlk_declaration {
  struct wlk_request *request; /* (c) */
  bool declares;               /* (c) whether it is part of the search for deadlocks */
  bool pending;                /* (p) whether it declares and is pending */
  uint32_t label_length;       /* (c) in code units; 0 for no label */
  int32_t priority;            /* (c) */
  struct wlk_data *data;       /* (s) or NULL */
  uint64_t order;              /* (p) while pending: orders requests of one priority */
  struct wlk_link by_level;    /* (s) in resource->levels, if it represents its level */
  struct wlk_link by_writer;   /* written under (s) and (p): the ring of resource->writer */
  struct wlk_link inner;       /* (p) the requests pending inside it, by wlk_nesting.by_lock */

  /* The state of a search for deadlocks. The searching thread holds all mutexes but the agents'. */
  uint64_t search;                 /* (p) the last search that reached it */
  uint64_t goal;                   /* (p) the last search that looked for a path to it */
  struct wlk_declaration *found;   /* (p) the request that the search reached next */
  struct wlk_declaration *waiting; /* (p) the request from which the search reached this one */
  struct wlk_request *through;     /* (p) the lock between them: `waiting` waits for it */

  uint32_t nesting_count; /* (c) */
  struct wlk_nesting nesting[];
};

static inline uint32_t wlk_label_length(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->label_length : 0;
}

static inline uint32_t wlk_data_length(const struct wlk_request *request)
{
  return request->declaration && request->declaration->data ? request->declaration->data->length
                                                            : 0;
}

/* The label, and what was published. */
static inline uint32_t wlk_text_count(const struct wlk_request *request)
{
  return (wlk_label_length(request) > 0) + (wlk_data_length(request) > 0);
}

static inline size_t wlk_text_units(const struct wlk_request *request)
{
  return (size_t)wlk_label_length(request) + wlk_data_length(request);
}

static inline int32_t wlk_priority(const struct wlk_request *request)
{
  return request->declaration ? request->declaration->priority : 0;
}

static inline bool wlk_declares(const struct wlk_request *request)
{
  return request->declaration && request->declaration->declares;
}

#endif
