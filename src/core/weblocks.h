/* The public interface of the lock core: sections 2 and 4 of the Web Locks API for the threads of a
 * process, without JavaScript.
 *
 *   process  the lock state of an operating system process: managers and agents
 *   manager  a lock manager (2.2): the resources of one storage bucket
 *   agent    a thread's environment (2.4), which makes requests, holds locks and receives events
 *   request  a lock request (2.5) and, once granted, the lock (2.4)
 *
 * Numbers in brackets are sections of the specification. A request belongs to its agent's thread
 * from wlk_request_a_lock until a call or an event ends it, as documented below.
 *
 * Events report to an agent what other agents did to its requests. The thread that causes the first
 * event calls the agent's wake function, without a mutex of the core. The agent must then take its
 * events; until it has done so, its wake function is not called again. A wake function must not
 * block or call the core. It is not called after wlk_agent_terminate has returned.
 *
 * Releasing, aborting and terminating never fail for lack of memory.
 *
 * Threads: functions about an agent or a request must be called by the agent's own thread; any
 * thread may call the other functions, unless their comment says otherwise.
 *
 * Costs are averages, because names are hashed. A call that ends a request costs O(grants). Copying
 * events, waking agents and resizing tables are not included. The end or grant of a request with
 * `reject_deadlock` adds O(locks inside which it was made), and the end of a lock O(such requests
 * pending inside it). */
#ifndef WLK_WEBLOCKS_H
#define WLK_WEBLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WLK_STATUS_LIST(X)                                                                         \
  X(WLK_OK, "done")                                                                                \
  X(WLK_GRANTED, "the lock is held")                                                               \
  X(WLK_PENDING, "the request waits in the lock request queue")                                    \
  X(WLK_NOT_AVAILABLE, "the lock is not available without waiting")                                \
  X(WLK_STOLEN, "the lock was stolen")                                                             \
  X(WLK_NOT_HELD, "the request was not granted yet")                                               \
  X(WLK_DEADLOCK, "the request would wait for itself")                                             \
  X(WLK_OTHER_LIMIT, "the name is in use with another limit, or with none")                        \
  X(WLK_QUEUE_FULL, "as many requests are pending as this one allows")                             \
  X(WLK_MARKED, "the name of the lock is marked")                                                  \
  X(WLK_NO_MEMORY, "out of memory")                                                                \
  X(WLK_NO_RANDOM, "the system returned no random bytes")                                          \
  X(WLK_NO_RENDEZVOUS, "the dynamic loader does not say which copy was loaded first")              \
  X(WLK_OTHER_VERSION, "another copy with an incompatible core was loaded first")

#define WLK_STATUS_NAME(name, message) name,
enum wlk_status { WLK_STATUS_LIST(WLK_STATUS_NAME) };
#undef WLK_STATUS_NAME

const char *wlk_status_message(enum wlk_status status);

struct wlk_process;
struct wlk_manager;
struct wlk_agent;
struct wlk_request;

/* Section 2.3. */
enum wlk_mode { WLK_EXCLUSIVE, WLK_SHARED };

/* A request has at most one of the options of section 3.2. WLK_PASS and WLK_PASS_IF_AVAILABLE are
 * not in the specification: with them, a request ends when it would be granted. */
enum wlk_option { WLK_WAIT, WLK_IF_AVAILABLE, WLK_STEAL, WLK_PASS, WLK_PASS_IF_AVAILABLE };

static inline bool wlk_option_passes(enum wlk_option option)
{
  return option == WLK_PASS || option == WLK_PASS_IF_AVAILABLE;
}

static inline bool wlk_option_waits(enum wlk_option option)
{
  return option == WLK_WAIT || option == WLK_PASS;
}

/* An event can report several of these. */
enum wlk_news {
  WLK_NEWS_GRANTED = 1, /* the pending request was granted */
  WLK_NEWS_STOLEN = 2,  /* the lock was stolen; the request ends */
  WLK_NEWS_PASSED = 4   /* the request passes and would be granted; it ends */
};

struct wlk_event {
  uint32_t tag;          /* the request's tag, from wlk_request_a_lock */
  uint32_t news;         /* bits of enum wlk_news */
  uint32_t thief_thread; /* if stolen: the thread id of the agent that stole it */
  uint32_t thief_number; /* if stolen: the number at the end of that agent's client id */
  uint32_t thief_pid;    /* if stolen in the host scope: that agent's process id; else 0 */
  uint32_t token_low;    /* if granted: the two halves of the lock's token */
  uint32_t token_high;
};

/* An agent's thread, for snapshots. */
struct wlk_thread {
  uint32_t id;          /* the same for all agents of the thread; no other thread has it */
  const uint16_t *name; /* `name_length` UTF-16 code units; truncated to WLK_THREAD_NAME_MOST */
  uint32_t name_length;
};

enum { WLK_THREAD_NAME_MOST = 64 };

/* The options of a request beyond the specification. A struct of zeros sets none. */
struct wlk_extra {
  const uint16_t *label; /* `label_length` UTF-16 code units, for snapshots */
  uint32_t label_length;
  bool reject_deadlock;              /* see wlk_request_a_lock */
  struct wlk_request *const *inside; /* with `reject_deadlock`: granted locks of the same agent that
                                        stay until this request has ended; locks that were requested
                                        without `reject_deadlock` are ignored */
  uint32_t inside_count;
  uint32_t limit;       /* of a shared request: how many units of the name may be held; 0 for any */
  uint32_t weight;      /* if there is a limit: the units that the request takes, 1 to `limit` */
  bool bounded;         /* whether `max_pending` applies */
  uint32_t max_pending; /* the request fails if it must wait and this many already wait */
  int32_t priority;     /* a request with a higher priority waits ahead; ignored for a theft */
};

#define WLK_UNITS_MOST UINT32_C(0x7fffffff)

/* Receives the results of a call, and the events of the calling agent. */
struct wlk_events {
  struct wlk_event *items; /* in: memory of the caller for `capacity` events */
  size_t capacity;         /* in */
  size_t count;            /* out: events written; if it equals `capacity`, there may be more */
  uint32_t thief_thread;   /* out, on WLK_STOLEN: see wlk_event */
  uint32_t thief_number;   /* likewise */
  uint32_t thief_pid;      /* likewise */
  uint64_t token; /* out, when a request is granted: the lock's token, greater than that of any
                     earlier lock of the name */
  uint32_t limit; /* out, on WLK_OTHER_LIMIT: the name's limit; 0 for none */
};

/* `data` is from wlk_agent_create. */
typedef void wlk_wake_function(void *data);

/* ---- process ---- */

/* Finds the lock state of this operating system process. It belongs to the first loaded copy of the
 * core, and all copies share it.
 *   process  out: the state; on WLK_OTHER_VERSION it may be used for wlk_process_path only
 *   returns  WLK_OK, WLK_NO_RENDEZVOUS, WLK_OTHER_VERSION */
enum wlk_status wlk_process_join(struct wlk_process **process);

/* Writes the path of a module to `path`, in UTF-8 and truncated to `size` bytes: the module whose
 * core has the state `process`, or the caller's module if `process` is NULL. */
void wlk_process_path(const struct wlk_process *process, char *path, size_t size);

/* Gives freed memory back to the system, if the C library can. Takes milliseconds. */
void wlk_process_trim(void);

/* Returns the milliseconds of a clock that cannot be set and also runs while the machine sleeps;
 * negative if the system has no such clock. Only differences of two results have a meaning. May be
 * called before wlk_process_join. */
double wlk_continuous_now(void);

/* ---- agents ---- */

/* The agent is valid until wlk_agent_terminate.
 *   prefix   beginning of its client id (2.4), ASCII, at most 40 bytes; the core appends a number
 *            that no other agent of the process has
 *   thread   copied
 *   returns  WLK_OK, WLK_NO_MEMORY, WLK_NO_RANDOM */
enum wlk_status wlk_agent_create(
    struct wlk_process *process, const char *prefix, const struct wlk_thread *thread,
    wlk_wake_function *wake, void *data, struct wlk_agent **agent);

/* The result is valid until wlk_agent_terminate. */
const char *wlk_agent_client_id(const struct wlk_agent *agent);

/* Takes events off the agent's event queue, oldest first, in O(events taken).
 *   woken    whether the call answers a wake-up, so that the next event causes another wake-up */
void wlk_agent_take_events(struct wlk_agent *agent, bool woken, struct wlk_events *events);

/* Frees the memory that is kept for the next requests. */
void wlk_agent_trim(struct wlk_agent *agent);

/* Terminates remaining locks and requests (2.6) and frees the agent. Returns only once no other
 * thread runs the agent's wake function or is about to call it.
 *   cost     O(requests of the agent + grants) */
void wlk_agent_terminate(struct wlk_agent *agent);

/* ---- managers ---- */

/* Opens the lock manager of a storage bucket (2.2). Callers that open the same name share it.
 *   bucket   `length` UTF-16 code units, compared one by one; may be NULL if `length` is 0
 *   manager  out: must be closed as often as it was opened
 *   returns  WLK_OK, WLK_NO_MEMORY, WLK_NO_RANDOM */
enum wlk_status wlk_manager_open(
    struct wlk_process *process, const uint16_t *bucket, uint32_t length,
    struct wlk_manager **manager);

/* The last close frees the manager. The caller's requests in the manager must have ended. */
void wlk_manager_close(struct wlk_manager *manager);

/* ---- locks ---- */

struct wlk_snapshot;

/* Requests a lock (4.1).
 *   manager  must stay open until the request has ended
 *   name     `length` UTF-16 code units, copied; may be NULL if `length` is 0
 *   tag      any number; events about this request have it
 *   extra    copied; may be NULL
 *   cycle    out, on WLK_DEADLOCK: the cycle, for wlk_snapshot_free. May be NULL without
 *            `reject_deadlock`
 *   request  out, on WLK_GRANTED and WLK_PENDING: the request
 *   events   out: events of the agent (a theft may end locks of the same agent)
 *   returns  WLK_GRANTED  the lock is held, and no event reports that again
 *            WLK_PENDING  an event will report the grant
 *            The other results change nothing:
 *            WLK_OK  the request passes, and would be granted
 *            WLK_NOT_AVAILABLE  the request does not wait, and is not grantable
 *            WLK_DEADLOCK  the request would wait and close a cycle
 *            WLK_OTHER_LIMIT  the name has another limit
 *            WLK_QUEUE_FULL  the request would wait, and `max_pending` requests already wait
 *            WLK_NO_MEMORY
 *   cost     O(length + different priorities other than 0 in the queue of the name). A theft adds
 *            O(locks held on the name). `reject_deadlock` adds O(locks inside which the request is
 *            made + requests with `reject_deadlock` and a lower priority in the queue). The search
 *            for a deadlock adds, for each request that it reaches, O(locks held on its name) and,
 *            if that name has a limit, O(requests with `reject_deadlock` ahead of it)
 *
 * Limits. The first shared request of a name sets the name's limit, or sets none. Until nobody
 * holds the name or waits for it, shared requests with another limit are refused. Shared locks are
 * held together while their weights add up to at most the limit. The queue keeps its order: if a
 * request does not fit, later requests wait, even if they would fit.
 *
 * Priorities. A request waits after all requests with the same or a higher priority, and ahead of
 * all requests with a lower priority. It takes no lock away. If it would be the first of the queue,
 * and can be held together with the locks that are held, it is granted at once.
 *
 * Deadlocks. With `reject_deadlock`, a request declares that the locks `inside` which it is made
 * stay until it has ended. It is refused if it, or a declared request that it would overtake, could
 * then never be granted (deadlock.h). In the snapshot `cycle`, requests alternate with the locks
 * that they wait for, beginning with the new request; the last lock closes the cycle. */
enum wlk_status wlk_request_a_lock(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length,
    enum wlk_mode mode, enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlk_request **request, struct wlk_snapshot **cycle, struct wlk_events *events);

/* Blocks the calling thread until a request is granted or the time is over. Nothing else ends the
 * wait, so a thread that has other work must wait in slices.
 *   request  wlk_request_a_lock must have returned WLK_PENDING for it, and no event about it may
 *            have been taken
 *   timeout  in milliseconds, or WLK_FOREVER
 *   cycle    out, on WLK_DEADLOCK: the request and the lock or request that it waits for; for
 *            wlk_snapshot_free
 *   events   out: events of the agent, none about this request; none on WLK_PENDING
 *   returns  WLK_GRANTED  the lock is held, and no event reports that again
 *            WLK_PENDING  the time is over and nothing has changed
 *            WLK_OK  the request passes, and would be granted; it ended
 *            WLK_STOLEN  the lock was granted and stolen; the request ended
 *            WLK_DEADLOCK  at once: the request waits, directly or through another request, for a
 *                          lock or an earlier request of the calling thread, which cannot end it
 *                          while it blocks; the request ended
 *            WLK_NO_MEMORY  a deadlock, but no memory for the cycle; the request ended
 *   cost     O(locks held on the name + requests ahead) in the first call for a request, and while
 *            a request with a higher priority waits; otherwise O(1) */
enum wlk_status wlk_wait_for_the_lock(
    struct wlk_request *request, uint64_t timeout, struct wlk_snapshot **cycle,
    struct wlk_events *events);

#define WLK_FOREVER UINT64_MAX

/* Releases a lock (4.2), grants what became grantable, and ends the request.
 *   lock     must be granted; if the agent has not taken the event of the grant yet, the event is
 *            dropped
 *   events   out: events of the request's agent, including grants by this call
 *   returns  WLK_OK
 *            WLK_STOLEN  the lock had been stolen; the request has also ended
 *            WLK_NOT_HELD  the request is pending; nothing was changed */
enum wlk_status wlk_release_the_lock(struct wlk_request *lock, struct wlk_events *events);

/* Finds out whether wlk_release_and_mark has marked the name of a lock for a time that is not over.
 * If not, prepares a mark for this lock.
 *   lock     granted, exclusive
 *   events   out: the thief, on WLK_STOLEN; no events
 *   returns  WLK_MARKED
 *            WLK_OK  the name is not marked; wlk_release_and_mark may be called
 *            WLK_STOLEN  the lock had been stolen; the request ended
 *            WLK_NOT_HELD, WLK_NO_MEMORY  nothing was changed
 *   cost     O(length of the name) */
enum wlk_status wlk_prepare_mark(struct wlk_request *lock, struct wlk_events *events);

/* Releases as wlk_release_the_lock does and, in the same critical section, marks the name for
 * `keep` milliseconds or until nobody has the manager open. Thefts and later locks do not remove
 * the mark.
 *   lock     wlk_prepare_mark must have returned WLK_OK for it
 *   returns  as wlk_release_the_lock; nothing is marked unless WLK_OK
 *            WLK_NO_MEMORY  wlk_prepare_mark was not called; the lock was released */
enum wlk_status wlk_release_and_mark(
    struct wlk_request *lock, uint64_t keep, struct wlk_events *events);

/* Sets the text that snapshots tell of a lock, until the lock ends.
 *   lock     granted
 *   text     `length` UTF-16 code units, copied; with 0 the lock has none any more
 *   returns  WLK_OK
 *            The other results change nothing:
 *            WLK_STOLEN  the lock was stolen; an event reports it, or wlk_release_the_lock
 *            WLK_NOT_HELD  the request is pending
 *            WLK_NO_MEMORY
 *   cost     O(length) */
enum wlk_status wlk_publish(struct wlk_request *lock, const uint16_t *text, uint32_t length);

/* Aborts a request (4.3) and grants what became grantable.
 *   events   out: as for wlk_release_the_lock; none unless WLK_OK
 *   returns  WLK_OK  the request was pending, or has passed; it ended
 *            WLK_GRANTED, WLK_STOLEN  nothing was changed; wlk_release_the_lock ends it */
enum wlk_status wlk_abort_the_request(struct wlk_request *request, struct wlk_events *events);

/* Ends a request in one critical section, whether it is pending, held or stolen. Never fails. Takes
 * no events, but wakes the agent if it has any. */
void wlk_end_the_request(struct wlk_request *request);

/* ---- snapshots ---- */

struct wlk_lock_info {
  uint32_t name;   /* index into `names` */
  uint32_t client; /* index into `clients` */
  uint32_t mode;   /* enum wlk_mode */
  uint32_t held;   /* 1 for a lock, 0 for a pending request */
  uint32_t label;  /* index into `names`, or WLK_NO_TEXT */
  uint32_t data;   /* what the lock has published: likewise */
  uint32_t limit;  /* of a shared lock or request: the limit of its name; 0 for none */
  uint32_t weight; /* the units that it takes, if there is a limit; else 0 */
  int32_t priority;
  uint32_t age_low; /* the two halves of the milliseconds since the grant or, if pending, since the
                       request; a few milliseconds off */
  uint32_t age_high;
  uint32_t token_low; /* of a lock: the two halves of its token; else 0 */
  uint32_t token_high;
};

#define WLK_NO_TEXT UINT32_MAX

struct wlk_name {
  const uint16_t *units; /* UTF-16 code units, not terminated */
  uint32_t length;       /* of `units` */
};

struct wlk_client {
  const char *id; /* client id, ASCII, NUL-terminated */
  struct wlk_name thread;
  uint32_t thread_id;
};

/* All pointers point into the snapshot's own memory. */
struct wlk_snapshot {
  struct wlk_lock_info *locks; /* of each resource: the held locks, then its queue in order */
  struct wlk_name *names;      /* names of resources, labels, and what locks have published */
  struct wlk_client *clients;  /* all agents; for one name, only those that it needs */
  size_t lock_count;
  size_t name_count;
  size_t client_count;
};

/* Snapshots the lock state (4.5) of a manager: all agents, at one moment.
 *   snapshot out: for wlk_snapshot_free
 *   returns  WLK_OK, WLK_NO_MEMORY
 *   cost     O(locks and requests of the manager + agents) */
enum wlk_status wlk_snapshot_the_lock_state(
    struct wlk_manager *manager, struct wlk_snapshot **snapshot);

/* Snapshots one name in the same way, with the agents that have locks or requests of that name.
 *   pending  whether the snapshot includes the queue
 *   cost     O(length + locks held on the name + requests included) */
enum wlk_status wlk_snapshot_a_name(
    struct wlk_manager *manager, const uint16_t *name, uint32_t length, bool pending,
    struct wlk_snapshot **snapshot);

/* Does nothing for NULL. */
void wlk_snapshot_free(struct wlk_snapshot *snapshot);

#endif
