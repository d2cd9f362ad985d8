/* The lock core of web-locks: the Web Locks API, sections 2 and 4, for all threads of a process,
 * without JavaScript.
 *
 * This is the one header that users of the core include.
 *
 *   process  all lock state of an operating system process: the managers, the agents
 *   manager  a lock manager (2.2): the resources of one storage bucket
 *   agent    a thread's environment (2.4): it makes requests, holds locks and is told of events
 *   request  a lock request (2.5) and, once granted, the lock (2.4): one record is both
 *
 * Caveats
 * - An agent is used by one thread, its own. Different agents may be used at the same time.
 * - A request belongs to its agent's thread from wlk_request_a_lock until a call or an event ends
 *   it, as each says below.
 * - An agent is told of what others did to its requests by events. When its first event comes, its
 *   wake function is called, on whatever thread caused the event and without any lock of the core
 *   held. The agent then takes its events. Between wake and take no further wake comes: a wake
 *   carries all events.
 * - A wake function must not block and must not call the core. It is not called after
 *   wlk_agent_terminate returned.
 * - Releasing, aborting and terminating allocate nothing and cannot fail for want of memory.
 *   Resizing a table may, and is then left for later.
 * - Nothing here ever ends the process.
 *
 * Costs are on average over names (their tables hash), and without what any call may have to do
 * besides: copy the events it hands over, wake agents that a call has
 * not come to wake yet, and resize a table, which is paid for by the requests that made it grow or
 * shrink. Where a request that says `reject_deadlock` ends or is granted, O(locks inside which it
 * was made) is added; where a lock ends, O(such requests that are pending inside it). */
#ifndef WLK_WEBLOCKS_H
#define WLK_WEBLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every outcome of a call, each with the sentence that explains it. */
#define WLK_STATUS_LIST(X)                                                                         \
  X(WLK_OK, "done")                                                                                \
  X(WLK_GRANTED, "the lock is held")                                                               \
  X(WLK_PENDING, "the request waits in the lock request queue")                                    \
  X(WLK_NOT_AVAILABLE, "the lock is not available without waiting")                                \
  X(WLK_STOLEN, "the lock was stolen")                                                             \
  X(WLK_NOT_HELD, "the request was not granted yet")                                               \
  X(WLK_DEADLOCK, "who asks for the lock is whom it waits for")                                    \
  X(WLK_OTHER_LIMIT, "the name is in use with another limit, or with none")                        \
  X(WLK_QUEUE_FULL, "as many requests are pending as this one puts up with")                       \
  X(WLK_MARKED, "the name of the lock is marked")                                                  \
  X(WLK_NO_MEMORY, "out of memory")                                                                \
  X(WLK_NO_RANDOM, "the system gave no random bytes")                                              \
  X(WLK_NO_RENDEZVOUS, "the dynamic loader did not tell which copy was loaded first")              \
  X(WLK_OTHER_VERSION, "another copy with an incompatible core was loaded first")

#define WLK_STATUS_NAME(name, message) name,
enum wlk_status { WLK_STATUS_LIST(WLK_STATUS_NAME) };
#undef WLK_STATUS_NAME

/* Returns the sentence for `status`, a constant. */
const char *wlk_status_message(enum wlk_status status);

struct wlk_process;
struct wlk_manager;
struct wlk_agent;
struct wlk_request;

/* A mode (2.3). */
enum wlk_mode { WLK_EXCLUSIVE, WLK_SHARED };

/* How to request (3.2, LockOptions); at most one of them. A request that passes waits in the queue
 * as any other, and never holds the lock: it ends when it would be granted. */
enum wlk_option { WLK_WAIT, WLK_IF_AVAILABLE, WLK_STEAL, WLK_PASS, WLK_PASS_IF_AVAILABLE };

static inline bool wlk_option_passes(enum wlk_option option)
{
  return option == WLK_PASS || option == WLK_PASS_IF_AVAILABLE;
}

static inline bool wlk_option_waits(enum wlk_option option)
{
  return option == WLK_WAIT || option == WLK_PASS;
}

/* What an event says, as bits: one event can say both. */
enum wlk_news {
  WLK_NEWS_GRANTED = 1, /* the request, pending so far, was granted */
  WLK_NEWS_STOLEN = 2,  /* the lock was stolen: with this event the request ends */
  WLK_NEWS_PASSED = 4 /* the request passes, and would have been granted: with this event it ends */
};

struct wlk_event {
  uint32_t tag;          /* what the agent called the request in wlk_request_a_lock */
  uint32_t news;         /* bits of enum wlk_news */
  uint32_t thief_thread; /* if stolen: the thread of the agent that stole it, and that agent's */
  uint32_t thief_number; /* number, the end of its client id */
  uint32_t thief_pid;    /* in the host scope: and its process; 0 elsewhere */
  uint32_t token_low;    /* if granted: the two halves of the lock's token, see wlk_events */
  uint32_t token_high;
};

/* The thread of an agent, for those who look at snapshots. */
struct wlk_thread {
  uint32_t id; /* any number, the same for all agents of a thread and for no other thread */
  const uint16_t *name; /* `name_length` UTF-16 code units; cut to WLK_THREAD_NAME_MOST */
  uint32_t name_length;
};

enum { WLK_THREAD_NAME_MOST = 64 };

/* What a request can say beyond the specification; 0 in all fields says nothing. */
struct wlk_extra {
  const uint16_t *label; /* `label_length` UTF-16 code units for snapshots; none if that is 0 */
  uint32_t label_length;
  bool reject_deadlock;              /* see wlk_request_a_lock */
  struct wlk_request *const *inside; /* if so: granted locks of the same agent that are not released
                                        before this request has ended; those that did not say
                                        `reject_deadlock` themselves count for nothing */
  uint32_t inside_count;
  uint32_t limit;  /* of a shared request: how many units of the name may be held at a time, at most
                      WLK_UNITS_MOST; 0 for no limit. Means nothing for an exclusive one */
  uint32_t weight; /* if there is a limit: how many of the units it takes, from 1 to `limit` */
  bool bounded;    /* whether it does not wait behind more than `max_pending` - 1 others */
  uint32_t max_pending; /* if so: it is not made if it has to wait and so many wait already */
  int32_t priority;     /* it waits behind all who have as much or more, and ahead of all who have
                           less. Means nothing for a thief */
};

#define WLK_UNITS_MOST UINT32_C(0x7fffffff)

/* Where a call puts the events of the calling agent. */
struct wlk_events {
  struct wlk_event *items; /* in: room for `capacity` events, the caller's */
  size_t capacity;         /* in */
  size_t count;            /* out: how many were written; if `capacity`, there may be more */
  uint32_t thief_thread;   /* out, if the call answers WLK_STOLEN: who stole the lock, as in */
  uint32_t thief_number;   /* wlk_event */
  uint32_t thief_pid;
  uint64_t token; /* out, if the call answers WLK_GRANTED to a request: the lock's token. It is
                     greater than that of any lock which was granted on the name before */
  uint32_t limit; /* out, if the call answers WLK_OTHER_LIMIT: the name's; 0 if it has none */
};

/* Called when an agent has its first event. `data` is what was given with it. */
typedef void wlk_wake_function(void *data);

/* ---- process ---- */

/* Finds the lock state of this operating system process: that of the copy of the core that was
 * loaded first, so that all copies share it.
 *   process  out: the state; on WLK_OTHER_VERSION the one that cannot be shared, good for
 *            wlk_process_path only
 *   returns  WLK_OK, WLK_NO_RENDEZVOUS, WLK_OTHER_VERSION
 *   threads  any */
enum wlk_status wlk_process_join(struct wlk_process **process);

/* Writes the path of the module whose core holds `process` to `path`, `size` bytes, UTF-8, cut if
 * need be. With NULL: the path of the module that is asking. */
void wlk_process_path(const struct wlk_process *process, char *path, size_t size);

/* Gives memory that the core has freed back to the system, as far as the C library can. Worth its
 * milliseconds after a burst of requests. Threads: any. */
void wlk_process_trim(void);

/* Returns milliseconds of a clock that goes on while the machine sleeps, and that nobody sets;
 * negative when the system has none. Only differences mean something. Good at any time, also before
 * wlk_process_join. Threads: any. */
double wlk_continuous_now(void);

/* Makes this process and what it starts from now on a family: see wlk_port_keep_family. For a
 * program that runs another one; good at any time. Threads: one. */
void wlk_keep_family(bool ends_with_us);

/* Ends all of it but this process, and returns when they have ended; on Windows only. */
void wlk_end_family(void);

/* ---- agents ---- */

/* Makes an agent.
 *   prefix   beginning of its client id (2.4), ASCII, at most 40 bytes; the core appends a number,
 *            so that no two agents of the process have the same
 *   thread   the thread it is for; copied
 *   wake     see above
 *   agent    out: the agent, the caller's thread's until wlk_agent_terminate
 *   returns  WLK_OK, WLK_NO_MEMORY, WLK_NO_RANDOM
 *   threads  any; the agent belongs to the thread that uses it */
enum wlk_status wlk_agent_create(
    struct wlk_process *process, const char *prefix, const struct wlk_thread *thread,
    wlk_wake_function *wake, void *data, struct wlk_agent **agent);

/* Returns the agent's client id, a string that lives as long as the agent. Threads: the agent's
 * own. */
const char *wlk_agent_client_id(const struct wlk_agent *agent);

/* Takes events off the agent's event queue, oldest first.
 *   woken    whether this is the answer to the wake function: then the next event wakes again
 *   threads  the agent's own
 *   cost     O(events taken) */
void wlk_agent_take_events(struct wlk_agent *agent, bool woken, struct wlk_events *events);

/* Gives back the memory that the agent keeps for its next requests. Threads: the agent's own. */
void wlk_agent_trim(struct wlk_agent *agent);

/* Terminates remaining locks and requests (2.6) and frees the agent. Its requests are aborted, its
 * locks released, its events dropped; all its request pointers are void. Returns when no other
 * thread is inside its wake function, or about to call it.
 *   threads  the agent's own
 *   cost     O(requests of the agent + grants) */
void wlk_agent_terminate(struct wlk_agent *agent);

/* ---- managers ---- */

/* Opens the lock manager of a storage bucket (2.2); all who open the same name share it while it is
 * open anywhere.
 *   bucket   `length` UTF-16 code units, compared one by one; may be NULL when `length` is 0
 *   manager  out: to be closed once for each time it was opened
 *   returns  WLK_OK, WLK_NO_MEMORY, WLK_NO_RANDOM
 *   threads  any */
enum wlk_status wlk_manager_open(
    struct wlk_process *process, const uint16_t *bucket, uint32_t length,
    struct wlk_manager **manager);

/* Closes what wlk_manager_open returned; the last close frees it. The requests that were made
 * through this opening must have ended. Threads: any. */
void wlk_manager_close(struct wlk_manager *manager);

/* ---- locks ---- */

struct wlk_snapshot;

/* Requests a lock (4.1).
 *   agent    whose request it is; the calling thread's
 *   manager  open until the request ended
 *   name     `length` UTF-16 code units; may be NULL when `length` is 0. The core copies it
 *   tag      any number; events about this request carry it
 *   extra    what else it says, copied; NULL for nothing
 *   cycle    out, on WLK_DEADLOCK: the cycle, to be freed with wlk_snapshot_free. May be NULL if
 *            `extra` does not say `reject_deadlock`
 *   request  out, on WLK_GRANTED and WLK_PENDING: the request; unset otherwise
 *   events   out: events of the agent (a steal may end locks of its own)
 *   returns  WLK_GRANTED  the lock is held now; no event tells it again
 *            WLK_PENDING  an event will tell
 *            WLK_OK  it passes, and nobody is in its way; nothing was changed
 *            WLK_NOT_AVAILABLE  it is not grantable, and does not wait; nothing was changed
 *            WLK_DEADLOCK  nothing was changed: the request would have to wait, and closes a cycle
 *            WLK_OTHER_LIMIT  nothing was changed: see below
 *            WLK_QUEUE_FULL  nothing was changed: it would have to wait, and `max_pending` others
 *            wait already
 *            WLK_NO_MEMORY  nothing was changed
 *   cost     O(length + priorities other than 0 that wait on the name), whatever else is pending; a
 *            steal O(locks held on the name); with `reject_deadlock` O(locks inside which it is
 *            made + such requests on the name that have less priority) and, if it has to wait, for
 *            each such request that the search reaches O(locks held on its name) and, if that name
 *            has a limit, O(requests with `reject_deadlock` ahead of it)
 *
 * Limits. The first shared request on a name that nobody holds or waits for otherwise than
 * exclusively says what the name's limit is: its own, or none. It stays so until nobody holds the
 * name or waits for it; meanwhile shared requests with another limit are refused. Shared locks are
 * held together as long as their weights do not add up to more than the limit. The queue keeps its
 * order: what would fit waits behind what does not.
 *
 * Priorities. A request waits behind all that have its priority or more, and ahead of all that have
 * less. It takes no lock away. Nothing else is different: who would be the first of the queue, and
 * can be held together with the locks that are held, is granted at once.
 *
 * Deadlocks. A request that says `reject_deadlock` declares that the locks `inside` which it is
 * made are not released before it has ended. While pending it waits for each lock held on its name
 * that cannot be held together with it (one is exclusive, or their weights exceed the limit), for
 * those locks of its name that it is made inside of if all of them together leave it no room, and
 * for those that a declared request ahead of it in the queue waits for because it cannot be held
 * together with them; and each of those locks waits for the declared requests that were made
 * inside it. If following that leads from the new request back to a lock it was made inside of, or
 * inside of which a declared request waits that it would get ahead of by its priority, none of them
 * can ever be granted: the new one, which closes the cycle, is not made. The snapshot `cycle` has,
 * in turn, the request and a lock that it waits for, the request that this lock waits for and a
 * lock that waits for, and so on; the last lock is one that the first request, or the one that it
 * would get ahead of, was made inside of. */
enum wlk_status wlk_request_a_lock(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length,
    enum wlk_mode mode, enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlk_request **request, struct wlk_snapshot **cycle, struct wlk_events *events);

/* Blocks the calling thread until a request is granted, for a while: nothing but a grant and the
 * end of the time lets it go on, so who has to hear of anything else waits in slices.
 *   request  answered with WLK_PENDING; no event about it was taken
 *   timeout  milliseconds; WLK_FOREVER for no limit
 *   cycle    out, on WLK_DEADLOCK: the request, and the one lock or request that it waits for; to
 *            be freed with wlk_snapshot_free
 *   events   out: events of the agent, none about this request; none if WLK_PENDING
 *   returns  WLK_GRANTED  the lock is held; no event tells it again
 *            WLK_PENDING  the time is over; nothing was changed, to be called again or aborted
 *            WLK_STOLEN  it was granted and stolen; the request ended
 *            WLK_DEADLOCK  at once: the calling thread has a lock or a request ahead of it that it
 *            waits for, itself or behind somebody's, and ends neither while it blocks; the request
 *            ended
 *            WLK_NO_MEMORY  WLK_DEADLOCK, and there is none to say so; the request ended
 *   threads  the agent's own, and only while nothing else of that thread has to go on
 *   cost     the first time O(locks held on the name + requests ahead), and again as long as
 *            somebody with more priority waits; then O(1), without the time it sleeps */
enum wlk_status wlk_wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_snapshot **cycle,
    struct wlk_events *events);

#define WLK_FOREVER UINT64_MAX

/* Releases a lock (4.2) and grants what became grantable. Ends the request.
 *   lock     granted; whether the agent took the event yet does not matter, it is dropped if not
 *   events   out: events of the request's agent, the grants this call made among them
 *   returns  WLK_OK
 *            WLK_STOLEN  it had been stolen before: nothing was released; the request ended too
 *            WLK_NOT_HELD  it is still pending: nothing was changed, the request did not end
 *   threads  the agent's own
 *   cost     O(grants) */
enum wlk_status wlk_release_the_lock(struct wlk_request *lock, struct wlk_events *events);

/* Asks whether the name of a lock is marked: wlk_release_and_mark has marked it in this manager,
 * and that is not over. If it is not, makes the memory for a mark by this lock.
 *   lock     granted, exclusive
 *   events   out: who stole it, if WLK_STOLEN; no events
 *   returns  WLK_MARKED
 *            WLK_OK  it is not marked; wlk_release_and_mark may be called
 *            WLK_STOLEN  it had been stolen; the request ended
 *            WLK_NOT_HELD, WLK_NO_MEMORY  nothing was changed
 *   threads  the agent's own
 *   cost     O(length of the name) */
enum wlk_status wlk_is_marked(struct wlk_request *lock, struct wlk_events *events);

/* As wlk_release_the_lock; in the same turn the name is marked for `keep` milliseconds, or until
 * nobody has the manager open any more. A theft does not take a mark away, and later locks do not.
 *   lock     also: wlk_is_marked has answered WLK_OK
 *   returns  as wlk_release_the_lock; WLK_STOLEN, WLK_NOT_HELD: nothing was marked
 *            WLK_NO_MEMORY  wlk_is_marked was not asked: released, and not marked */
enum wlk_status wlk_release_and_mark(
    struct wlk_request *lock, uint64_t keep, struct wlk_events *events);

/* Aborts a request (4.3) and grants what became grantable.
 *   events   out: as for wlk_release_the_lock; none unless WLK_OK
 *   returns  WLK_OK  it was pending, or has passed; the request ended
 *            WLK_GRANTED, WLK_STOLEN  the grant came first: nothing was changed,
 *            wlk_release_the_lock is to end it
 *   threads  the agent's own
 *   cost     O(grants) */
enum wlk_status wlk_abort_the_request(struct wlk_request *request, struct wlk_events *events);

/* Ends a request whatever it is, in one turn: aborts it if it is pending, releases its lock if it
 * is held, takes note if it was stolen. Never fails. It takes no events: if the agent has any, of
 * this call or from before, it is woken.
 *   threads  the agent's own
 *   cost     O(grants) */
void wlk_end_the_request(struct wlk_request *request);

/* ---- snapshots ---- */

/* One lock or request of a snapshot, in numbers. */
struct wlk_lock_info {
  uint32_t name;    /* index into `names` */
  uint32_t client;  /* index into `clients` */
  uint32_t mode;    /* enum wlk_mode */
  uint32_t held;    /* 1 for a lock, 0 for a pending request */
  uint32_t label;   /* index into `names`; WLK_NO_LABEL if it has none */
  uint32_t limit;   /* of a shared one: the limit of its name; 0 for none */
  uint32_t weight;  /* if there is a limit: how many units it takes; else 0 */
  int32_t priority; /* that of the request */
  uint32_t age_low; /* milliseconds since it was granted or, if pending, requested: the two halves.
                      As exact as the system's cheapest clock: a few milliseconds */
  uint32_t age_high;
  uint32_t token_low; /* of a lock: the two halves of its token; else 0 */
  uint32_t token_high;
};

#define WLK_NO_LABEL UINT32_MAX

struct wlk_name {
  const uint16_t *units; /* UTF-16 code units, not terminated */
  uint32_t length;       /* of `units` */
};

struct wlk_client {
  const char *id;         /* client id, ASCII, NUL-terminated */
  struct wlk_name thread; /* name of the thread */
  uint32_t thread_id;
};

/* All pointers point into the snapshot's own memory. */
struct wlk_snapshot {
  struct wlk_lock_info *locks; /* by resource: the held ones, then the queue in its order */
  struct wlk_name *names;      /* each resource name once, and labels */
  struct wlk_client *clients;  /* all agents, or those that the snapshot needs */
  size_t lock_count;
  size_t name_count;
  size_t client_count;
};

/* Snapshots the lock state (4.5) of a manager: of all agents, at one moment.
 *   snapshot out: to be freed with wlk_snapshot_free
 *   returns  WLK_OK, WLK_NO_MEMORY
 *   threads  any
 *   cost     O(locks and requests of the manager + agents) */
enum wlk_status wlk_snapshot_the_lock_state(
    struct wlk_manager *manager, struct wlk_snapshot **snapshot);

/* Snapshots what is on one name; otherwise the same. Has only the agents whose locks and requests
 * it has.
 *   pending  whether with the requests that wait, not only the locks that are held
 *   cost     O(length + locks held on the name + requests that it has) */
enum wlk_status wlk_snapshot_a_name(
    struct wlk_manager *manager, const uint16_t *name, uint32_t length, bool pending,
    struct wlk_snapshot **snapshot);

/* Frees a snapshot; NULL is allowed. */
void wlk_snapshot_free(struct wlk_snapshot *snapshot);

#endif
