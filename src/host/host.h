/* The locks of all processes of a machine: the Web Locks API, sections 2 and 4, over shared memory,
 * without JavaScript.
 *
 * This is the one header that users of the host scope include. It is used like core/weblocks.h, and
 * shares its events, extras, modes and options.
 *
 *   bucket   a storage bucket (2.2), open in this process. All processes that open the same name in
 *            the same directory share its lock manager
 *   agent    a thread's environment (2.4) at one bucket: it makes requests, holds locks and is told
 *            of events
 *   request  a lock request (2.5) and, once granted, the lock (2.4): one record is both
 *
 * Caveats
 * - An agent is used by one thread, its own. Different agents may be used at the same time.
 * - A call never waits for another process (but wlh_wait, wlh_wait_for_errand and wlh_bucket_close,
 *   each for as long as it says). It does its work if the tables can be entered within some
 *   microseconds; else a thread of ours, the helper, does it, in the order of the calls. The answer
 *   is then WLH_PENDING, and an event tells.
 * - A request belongs to its agent's thread from wlh_request until a call or an event ends it, as
 *   each says below. wlh_agent_terminate ends all.
 * - When an agent's first event comes, its wake function is called, on any thread and without any
 *   lock held. The agent then takes its events. Between wake and take no further wake comes. A wake
 *   function must not block and must not call anything here. It is not called after
 *   wlh_agent_terminate returned.
 * - Releasing, aborting, ending and terminating cannot fail for want of memory.
 * - Nothing here keeps the process alive or ends it; a process may end at any time, without a call.
 *   In a child that was forked without exec every call answers WLH_LOST.
 * - SIGBUS: while a bucket is open there is a handler of ours, which calls the former one for
 *   addresses that are not ours. */
#ifndef WLH_HOST_H
#define WLH_HOST_H

#include "../core/weblocks.h"

/* What to use where this scope cannot be. */
#define WLH_CLUSTER "web-locks/postgres, web-locks/redis and web-locks/etcd"

/* Every outcome of a call, each with the sentence that explains it. */
#define WLH_STATUS_LIST(X)                                                                         \
  X(WLH_OK, "done")                                                                                \
  X(WLH_GRANTED, "the lock is held")                                                               \
  X(WLH_PENDING, "an event will tell")                                                             \
  X(WLH_NOT_AVAILABLE, "the lock is not available without waiting")                                \
  X(WLH_STOLEN, "the lock was stolen")                                                             \
  X(WLH_NOT_HELD, "the request was not granted yet")                                               \
  X(WLH_DEADLOCK, "the thread would wait for itself")                                              \
  X(WLH_OTHER_LIMIT, "the name is in use with another limit, or with none")                        \
  X(WLH_QUEUE_FULL, "as many requests are pending as this one puts up with")                       \
  X(WLH_NO_MEMORY, "out of memory")                                                                \
  X(WLH_UNSUPPORTED, "locks between processes are not available here")                             \
  X(WLH_VERSION, "another version of the file is in use")                                          \
  X(WLH_FULL, "there is no room for more members, requests or names")                              \
  X(WLH_LOST, "the shared file was lost")                                                          \
  X(WLH_CLOSED, "the bucket was closed")

#define WLH_STATUS_NAME(name, message) name,
enum wlh_status { WLH_STATUS_LIST(WLH_STATUS_NAME) };
#undef WLH_STATUS_NAME

/* Returns the sentence for `status`, a constant. */
const char *wlh_status_message(enum wlh_status status);

struct wlh_bucket;
struct wlh_agent;
struct wlh_request;

/* What an event (struct wlk_event) says besides enum wlk_news. Only GRANTED, STOLEN and LOST can
 * come together with another bit. All but GRANTED, SNAPSHOT and READY end the
 * request. */
enum wlh_news {
  WLH_NEWS_NOT_AVAILABLE = 8, /* as the status */
  WLH_NEWS_OTHER_LIMIT = 16,  /* as the status; `token_low` is the name's limit, 0 for none */
  WLH_NEWS_QUEUE_FULL = 32,   /* as the status */
  WLH_NEWS_FAILED = 64,       /* it could not be made or was lost while it was pending; `token_low`
                                 is the status, wlh_bucket_failure says more */
  WLH_NEWS_LOST = 128,        /* the lock is lost with the shared file; with this event it ends */
  WLH_NEWS_RELEASED = 256,    /* the lock whose wlh_release answered WLH_PENDING is released */
  WLH_NEWS_SNAPSHOT = 512,    /* `tag` is that of a wlh_snapshot: wlh_take_snapshot has it */
  WLH_NEWS_READY = 1024       /* `tag` is that of a wlh_bucket_ready; `token_low` is the status */
};

/* In events and in struct wlk_events, `thief_thread` and `thief_number` are the two parts of the
 * thief's client id, see wlh_agent_client_id. */

/* ---- buckets ---- */

/* Opens the lock manager of a storage bucket (2.2) in this process. The shared file is opened on
 * the helper at the first request or wlh_bucket_ready; a failure to do so fails the requests made
 * so far, and the next one tries again. It does so, too, after a loss (WLH_LOST).
 *   directory  where the files are, an absolute path, UTF-8; NULL for the default, docs/HOST.md
 *   name       `length` UTF-16 code units, compared one by one; may be NULL when `length` is 0
 *   version    of the package, ASCII, at most 15 bytes, to show to others
 *   bucket     out: to be closed once for each time it was opened; all threads of the process that
 *              open the same one share it
 *   returns    WLH_OK, WLH_NO_MEMORY, WLH_UNSUPPORTED (no random bytes, or the platform has no host
 *              scope: then nothing else has happened)
 *   threads    any */
enum wlh_status wlh_bucket_open(
    const char *directory, const uint16_t *name, uint32_t length, const char *version,
    struct wlh_bucket **bucket);

/* Closes what wlh_bucket_open returned. The agents that were made through this opening must have
 * been terminated. The last close leaves the shared file; it waits for those inside of it for at
 * most 2 ms, then lets the others see us go as if we had died. Threads: any, also one that is about
 * to end. */
void wlh_bucket_close(struct wlh_bucket *bucket);

/* Writes why opening failed the last time, how the shared file was lost, or why it could not grow,
 * whichever came last, to `text`: a sentence of at most `size` bytes with the path, the system's
 * error or the other version in it, UTF-8; an empty string if nothing failed. Only if it says what
 * to do, too, it ends with a full stop. Threads: any. */
void wlh_bucket_failure(struct wlh_bucket *bucket, char *text, size_t size);

enum { WLH_PLACE_SIZE = 1100 };

/* Writes the path of the bucket's directory to `text`, WLH_PLACE_SIZE bytes, UTF-8, whether or not
 * it is there. The last part is a hash of the bucket's name. In the directory is a file `name` with
 * that name, UTF-16 in the order of the machine's bytes: who reads it has to compare the hash.
 * Threads: any. */
void wlh_bucket_place(const struct wlh_bucket *bucket, char *text, size_t size);

/* As wlh_bucket_failure, of the last wlh_bucket_open that failed on this thread. */
void wlh_open_failure(char *text, size_t size);

/* ---- agents ---- */

/* Makes an agent of a bucket.
 *   thread   the thread it is for; copied
 *   wake     see above
 *   agent    out: the agent, its thread's until wlh_agent_terminate
 *   returns  WLH_OK, WLH_NO_MEMORY
 *   threads  any; the agent belongs to the thread that uses it */
enum wlh_status wlh_agent_create(
    struct wlh_bucket *bucket, const struct wlk_thread *thread, wlk_wake_function *wake, void *data,
    struct wlh_agent **agent);

/* Returns the agent's client id, a string that lives as long as the agent: a number of the process
 * at the bucket (32 random bits, 8 hexadecimal digits), "-", and a number of the agent, from 1. In
 * events these are `thief_thread` and `thief_number`. Threads: the agent's own. */
const char *wlh_agent_client_id(const struct wlh_agent *agent);

/* Takes events off the agent's event queue, oldest first. A request ends with its event as enum
 * wlh_news says.
 *   woken    whether this is the answer to the wake function: then the next event wakes again
 *   threads  the agent's own
 *   cost     O(events taken) */
void wlh_agent_take_events(struct wlh_agent *agent, bool woken, struct wlk_events *events);

/* Terminates remaining locks and requests (2.6) and gives the agent up: aborts, releases, drops
 * events; all its request pointers are void. Where others are inside the tables, the helper does
 * the rest afterwards. Returns when no other thread is inside its wake function.
 *   threads  the agent's own */
void wlh_agent_terminate(struct wlh_agent *agent);

/* Has the shared file opened if it is not, and tells when it is.
 *   tag      for the event
 *   returns  WLH_OK  it is open: no event comes
 *            WLH_PENDING  an event WLH_NEWS_READY tells
 *            WLH_NO_MEMORY, WLH_FULL (no thread can be started), WLH_LOST (a forked child)
 *   threads  the agent's own */
enum wlh_status wlh_bucket_ready(struct wlh_agent *agent, uint32_t tag);

/* ---- locks ---- */

/* Requests a lock (4.1).
 *   name     `length` UTF-16 code units; may be NULL when `length` is 0; copied
 *   tag      any number; events about this request carry it
 *   extra    what else it says, copied; NULL for nothing. Of a label at most 4,096 code units are
 *            kept. `reject_deadlock` is answered with WLH_UNSUPPORTED
 *   request  out, on WLH_GRANTED and WLH_PENDING: the request; unset otherwise
 *   events   out: events of the agent (a steal may end locks of its own)
 *   returns  WLH_GRANTED  the lock is held now; no event tells it again
 *            WLH_PENDING  an event will tell: it waits in the lock request queue, or for its turn
 *            to enter the tables. Then the event may say anything that this call could have
 *            answered
 *            WLH_OK  as in weblocks.h: it passes
 *            WLH_NOT_AVAILABLE, WLH_OTHER_LIMIT, WLH_QUEUE_FULL  as in weblocks.h
 *            WLH_NO_MEMORY, WLH_FULL  nothing was changed. FULL: the name is longer than 32,768
 *            code units, or no thread can be started
 *            WLH_LOST  this is a forked child
 *   threads  the agent's own
 *   cost     O(length), a steal O(locks held on the name), with a priority O(other priorities that
 *            wait); with WLK_IF_AVAILABLE, if it is not to
 *            be had, a system call for each process that holds it until one lives; and
 *            whatever this process had put off before */
enum wlh_status wlh_request(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, enum wlk_mode mode,
    enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlh_request **request, struct wlk_events *events);

/* Blocks the calling thread until a request is answered, for a while, so a caller that has to hear
 * of anything else waits in slices. Other events of the agent queue up meanwhile.
 *   request  answered with WLH_PENDING; no event about it was taken
 *   timeout  milliseconds; WLK_FOREVER for no limit
 *   events   out: `thief_*`, `token`, `limit` with the answers that have them; with WLH_PENDING the
 *            agent's events are left
 *   returns  WLH_GRANTED  the lock is held; no event tells it again
 *            WLH_PENDING  the time is over; nothing was changed, to be called again or aborted
 *            WLH_DEADLOCK  once the tables could be entered: the calling thread itself holds the
 *            name, or is ahead in its queue, through this bucket, in a way that it would wait for
 *            itself; the request ended. Each call asks anew: others that have more priority, and
 *            that wait for the thread, can get ahead of the request later
 *            and anything that wlh_request answers, or WLH_STOLEN: the request ended
 *   threads  the agent's own, and only while nothing else of that thread has to go on */
enum wlh_status wlh_wait(struct wlh_request *request, uint64_t timeout, struct wlk_events *events);

/* Releases a lock (4.2) and grants what became grantable.
 *   lock     granted; whether the agent took the event yet does not matter, it is dropped if not
 *   events   out: events of the agent, the grants this call made among them
 *   returns  WLH_OK  it is released and ended
 *            WLH_STOLEN, WLH_LOST  it had been stolen or lost before; the request ended
 *            WLH_PENDING  it is being released: one event tells, RELEASED, STOLEN or LOST, and ends
 *            it. Until then only wlh_end may be called for it
 *            WLH_NOT_HELD  it is still pending: nothing was changed
 *   threads  the agent's own */
enum wlh_status wlh_release(struct wlh_request *lock, struct wlk_events *events);

/* Aborts a request (4.3) and grants what became grantable.
 *   events   out: events of the agent; none unless WLH_OK
 *   returns  WLH_OK  it was pending, or has passed; the request ended, and if the tables cannot be
 *            entered now, the others will see that a little later
 *            WLH_GRANTED  the grant came first: nothing was changed, wlh_release is to end it
 *            WLH_STOLEN, WLH_LOST and whatever else an event was to say: it came first; the request
 *            ended. WLH_STOLEN sets `thief_*`
 *   threads  the agent's own */
enum wlh_status wlh_abort(struct wlh_request *request, struct wlk_events *events);

/* Ends a request whatever it is: aborts it if it is pending, releases its lock if it is held, takes
 * note if it was stolen. Never fails, tells nothing and takes no events: if the agent has any, it
 * is woken.
 *   threads  the agent's own */
void wlh_end(struct wlh_request *request);

/* ---- snapshots ---- */

/* A snapshot of this scope: that of the core, and beside it what is not in it. Ages are measured by
 * a clock that all processes have in common. */
struct wlh_snapshot {
  struct wlk_snapshot base; /* `clients`: all agents of all processes that have made a request, or
                               those that the snapshot needs */
  uint64_t *tokens;         /* of base.locks, each; 0 for a pending request */
  uint32_t *pids;           /* of base.clients, each: its process, in that process's namespace */
};

/* Has the lock state (4.5) snapshotted: of all processes, at one moment, without those that have
 * died. Always answered by an event WLH_NEWS_SNAPSHOT.
 *   name     `length` UTF-16 code units: only what is on this name, and its agents; NULL with the
 *            length UINT32_MAX: everything
 *   pending  of one name: whether with the requests that wait, not only the locks that are held
 *   tag      for the event
 *   returns  WLH_PENDING, WLH_NO_MEMORY, WLH_FULL (no thread can be started), WLH_LOST (a forked
 *            child)
 *   threads  the agent's own */
enum wlh_status wlh_snapshot(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, bool pending, uint32_t tag);

/* Tells at once who holds a name, for messages: by a look at the tables from outside, which neither
 * a process that stands still inside them nor a busy machine delays. So a lock can be missing that
 * is granted or released meanwhile, and one be there whose process has just died.
 *   snapshot out, if WLH_OK: the locks that are held; to be freed with wlh_snapshot_free
 *   returns  WLH_OK, WLH_NO_MEMORY, WLH_LOST (the file is not open, it is damaged, or another
 *            process was changing just these locks at each look)
 *   threads  the agent's own
 *   cost     O(length + locks held on the name) */
enum wlh_status wlh_holders(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, struct wlh_snapshot **snapshot);

/* Blocks the calling thread until there is an event of a wlh_snapshot, for a while, and takes the
 * events that the agent has then.
 *   tag      of a wlh_snapshot whose event was not taken; without one it does not block
 *   timeout  milliseconds
 *   events   out: without that event, the time is over or there was no room for it
 *   threads  the agent's own, and only while nothing else of that thread has to go on */
void wlh_wait_for_errand(
    struct wlh_agent *agent, uint32_t tag, uint64_t timeout, struct wlk_events *events);

/* Takes the snapshot that an event WLH_NEWS_SNAPSHOT told of.
 *   snapshot out: to be freed with wlh_snapshot_free
 *   returns  WLH_OK, WLH_NO_MEMORY, or why the bucket could not be opened
 *   threads  the agent's own */
enum wlh_status wlh_take_snapshot(
    struct wlh_agent *agent, uint32_t tag, struct wlh_snapshot **snapshot);

/* Ends a wlh_snapshot or a wlh_bucket_ready whose answer nobody wants any more: no event tells of
 * it, and a snapshot that was told of and not taken is freed. Does nothing if there is none with
 * this tag. Threads: the agent's own. */
void wlh_end_errand(struct wlh_agent *agent, uint32_t tag);

/* Frees a snapshot; NULL is allowed. */
void wlh_snapshot_free(struct wlh_snapshot *snapshot);

#endif
