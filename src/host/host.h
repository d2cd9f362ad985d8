/* The locks of all processes of a machine: sections 2 and 4 of the Web Locks API over shared
 * memory, without JavaScript. Users of the host scope include only this header. Parameters that are
 * not explained below mean what they mean in core/weblocks.h. Numbers in brackets are sections of
 * the specification.
 *
 *   bucket   a storage bucket (2.2) that is open in this process. Processes that open the same name
 *            in the same directory share its lock manager
 *   agent    a thread's environment (2.4) at one bucket, which makes requests, holds locks and
 *            receives events
 *   request  a lock request (2.5) and, once granted, the lock (2.4)
 *
 * A request belongs to its agent's thread from wlh_request_a_lock until a call or an event ends it,
 * as documented below; wlh_agent_terminate ends all requests of its agent.
 *
 * Only wlh_wait_for_the_lock, wlh_wait_for_job and wlh_bucket_close wait for another process, each
 * within its limit. If a call cannot enter the tables' critical section within some microseconds,
 * its work is deferred: the helper, a thread of this library, makes sure that it is done, in the
 * order of the calls. If the result is not known yet, the call returns WLH_PENDING, and an event
 * reports the result.
 *
 * When an agent gets its first event, its wake function is called, on any thread and with no lock
 * held. The agent must then take its events; until it has done so, there is no further wake-up. A
 * wake function must not block or call a function of this header. It is not called after
 * wlh_agent_terminate has returned.
 *
 * Releasing, aborting, ending and terminating need no memory, so they cannot run out of it. A
 * process may end at any time, without a call. In a child that was forked without exec, calls with
 * an inherited bucket, agent or request return WLH_LOST, or do nothing. While a bucket is open,
 * this library handles SIGBUS (on macOS also SIGSEGV), and calls the former handler for addresses
 * that are not its own.
 *
 * Threads: functions about an agent or a request must be called by the agent's own thread; any
 * thread may call the other functions. */
#ifndef WLH_HOST_H
#define WLH_HOST_H

#include "../core/weblocks.h"

/* The scopes that messages recommend if this one is not available. */
#define WLH_CLUSTER "web-locks/postgres, web-locks/redis or web-locks/etcd"

/* A status that the core has, too, has the same number. */
enum wlh_status {
  WLH_OK = WLK_OK,
  WLH_GRANTED = WLK_GRANTED,
  WLH_PENDING = WLK_PENDING, /* an event reports the result */
  WLH_NOT_AVAILABLE = WLK_NOT_AVAILABLE,
  WLH_STOLEN = WLK_STOLEN,
  WLH_NOT_HELD = WLK_NOT_HELD,
  WLH_DEADLOCK = WLK_DEADLOCK,
  WLH_OTHER_LIMIT = WLK_OTHER_LIMIT,
  WLH_QUEUE_FULL = WLK_QUEUE_FULL,
  WLH_NO_MEMORY = WLK_NO_MEMORY,
  WLH_UNSUPPORTED = 32, /* locks between processes are not available here */
  WLH_VERSION,          /* another version of the file is in use */
  WLH_FULL,             /* there is no room for more members, requests or names */
  WLH_LOST,             /* the shared file was lost */
  WLH_CLOSED            /* the bucket was closed */
};

struct wlh_bucket;
struct wlh_agent;
struct wlh_request;

/* The news in struct wlk_event, in addition to those of enum wlk_news. Only GRANTED, STOLEN and
 * LOST can be combined. All but GRANTED, SNAPSHOT and READY end the request. */
enum wlh_news {
  WLH_NEWS_NOT_AVAILABLE = 8, /* see WLH_NOT_AVAILABLE */
  WLH_NEWS_OTHER_LIMIT = 16,  /* see WLH_OTHER_LIMIT; `token_low` is the name's limit, 0 for none */
  WLH_NEWS_QUEUE_FULL = 32,   /* see WLH_QUEUE_FULL */
  WLH_NEWS_FAILED = 64, /* the request failed; `token_low` is the status; wlh_bucket_get_failure
                                 says more */
  WLH_NEWS_LOST = 128,  /* the lock is lost with the shared file; the request ends */
  WLH_NEWS_RELEASED =
      256, /* the lock whose wlh_release_the_lock returned WLH_PENDING is released */
  WLH_NEWS_SNAPSHOT = 512, /* the snapshot of wlh_start_snapshot with this `tag` is ready for
                                 wlh_fetch_snapshot */
  WLH_NEWS_READY =
      1024 /* wlh_bucket_open_file or wlh_publish_later with this `tag` is done; `token_low` is the
              status */
};

/* In events, `thief_thread` and `thief_number` are the two parts of the thief's client id. */

/* ---- buckets ---- */

/* Opens the lock manager of a storage bucket (2.2) in this process. The helper opens the shared
 * file at the first request, snapshot or wlh_bucket_open_file, and again after a loss (WLH_LOST).
 * If that fails, these calls fail, and the next one makes the helper try again.
 *   directory  absolute path of the files, UTF-8; NULL for the default (docs/HOST.md)
 *   name       `length` UTF-16 code units, compared one by one; may be NULL if `length` is 0
 *   version    of the package, ASCII, at most 15 bytes; other processes show it in messages
 *   bucket     out: must be closed as often as it was opened; the threads of the process share it
 *   returns    WLH_OK, WLH_NO_MEMORY (or the system returned no random bytes), WLH_UNSUPPORTED (the
 *              path of the directory cannot be used, or the platform lacks the host scope) */
enum wlh_status wlh_bucket_open(
    const char *directory, const uint16_t *name, uint32_t length, const char *version,
    struct wlh_bucket **bucket);

/* The caller must have terminated its agents. With the last close, this process leaves the tables
 * and closes the shared file. It waits at most 2 ms for the tables' critical section, and then
 * closes the file without leaving: the other processes treat this process as dead. */
void wlh_bucket_close(struct wlh_bucket *bucket);

/* Writes to `text` why opening failed, how the shared file was lost, or why it could not grow,
 * whichever was last: a UTF-8 sentence of at most `size` bytes, or an empty string. It ends with a
 * full stop only if it says what to do. */
void wlh_bucket_get_failure(struct wlh_bucket *bucket, char *text, size_t size);

enum { WLH_PLACE_SIZE = 1100 };

/* Writes to `text` the path of the bucket's directory, which need not exist, in UTF-8 and at most
 * WLH_PLACE_SIZE bytes long. Its last part is a hash of the bucket's name. The file `name` in the
 * directory contains the name, UTF-16 in the machine's byte order; a reader must check its hash. */
void wlh_bucket_get_path(const struct wlh_bucket *bucket, char *text, size_t size);

/* Works as wlh_bucket_get_failure does, for the last wlh_bucket_open that failed on this thread. */
void wlh_get_open_failure(char *text, size_t size);

/* ---- agents ---- */

/* Returns WLH_OK, WLH_NO_MEMORY, WLH_LOST (a forked child). */
enum wlh_status wlh_agent_create(
    struct wlh_bucket *bucket, const struct wlk_thread *thread, wlk_wake_function *wake, void *data,
    struct wlh_agent **agent);

/* Returns a string that is valid until wlh_agent_terminate: the number of the process in the bucket
 * (32 random bits, 8 hexadecimal digits), "-", and the agent's number, from 1. */
const char *wlh_agent_client_id(const struct wlh_agent *agent);

/* Works as wlk_agent_take_events does. */
void wlh_agent_take_events(struct wlh_agent *agent, bool woken, struct wlk_events *events);

/* The event loop of an agent can hear the wake-ups from other processes itself, without the way
 * through the helper thread. If it may from now on, returns a descriptor, which the caller must
 * close, and calls wlh_agent_hear on the agent's thread whenever the descriptor is readable.
 * Otherwise returns -1: the helper hears them, or the event loop does already. */
int wlh_agent_listen(struct wlh_agent *agent);

/* Takes what a wake-up reports, and wakes the agent if that concerns it. Returns false if the event
 * loop must not use the descriptor any more: the helper hears the wake-ups.
 *   works  false if the event loop cannot use the descriptor */
bool wlh_agent_hear(struct wlh_agent *agent, bool works);

/* Terminates remaining locks and requests (2.6) and frees the agent, perhaps later in the helper.
 * Returns only once no other thread is running the wake function. */
void wlh_agent_terminate(struct wlh_agent *agent);

/* Opens the shared file.
 *   returns  WLH_OK  it is open already: no event follows
 *            WLH_PENDING  WLH_NEWS_READY follows
 *            WLH_NO_MEMORY, WLH_FULL (no thread can be started), WLH_LOST (a forked child) */
enum wlh_status wlh_bucket_open_file(struct wlh_agent *agent, uint32_t tag);

/* ---- locks ---- */

/* Requests a lock (4.1).
 *   extra    a label is truncated to 4,096 code units; `reject_deadlock` makes the call return
 *            WLH_UNSUPPORTED
 *   returns  WLH_GRANTED  the lock is held, and no event reports that again
 *            WLH_PENDING  it waits in the lock request queue, or for the tables' critical section;
 *                         an event reports every result that this call could have returned
 *            WLH_OK, WLH_NOT_AVAILABLE, WLH_OTHER_LIMIT, WLH_QUEUE_FULL  as in weblocks.h
 *            WLH_NO_MEMORY, WLH_FULL  nothing was changed. FULL: the name is longer than 32,768
 *                                     code units, or no thread can be started
 *            WLH_LOST  this is a forked child
 *   cost     O(length); for a theft also O(locks held on the name), with a priority also
 *            O(different priorities in the queue). The call also does the work that this process
 *            deferred earlier. Before a refusal, it makes a system call for each process that holds
 *            the name or waits for it, until a living process justifies the refusal */
enum wlh_status wlh_request_a_lock(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, enum wlk_mode mode,
    enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlh_request **request, struct wlk_events *events);

/* Blocks the calling thread until the result of a request is known or the time is over; other
 * events of the agent queue up meanwhile.
 *   timeout  in milliseconds
 *   events   out: `thief_*`, `token`, `limit` if the result has them; on WLH_PENDING the agent's
 *            events stay in its queue
 *   returns  WLH_GRANTED  the lock is held, and no event reports that again
 *            WLH_PENDING  the time is over and nothing has changed
 *            WLH_DEADLOCK  the calling thread itself holds the name, or has a request for it that
 *                          goes first, so it would wait for itself; the request ended. Each call
 *                          checks again, because requests with a higher priority can overtake
 *            or a result of wlh_request_a_lock, or WLH_STOLEN: the request ended */
enum wlh_status wlh_wait_for_the_lock(
    struct wlh_request *request, uint64_t timeout, struct wlk_events *events);

/* Releases a lock (4.2) and grants what became grantable.
 *   returns  WLH_OK  it is released, and the request ended
 *            WLH_STOLEN, WLH_LOST  it had been stolen or lost; the request ended
 *            WLH_PENDING  one event follows, RELEASED, STOLEN or LOST, and ends the request. Until
 *                         then only wlh_end_the_request may be called for it
 *            WLH_NOT_HELD  it is pending; nothing was changed */
enum wlh_status wlh_release_the_lock(struct wlh_request *lock, struct wlk_events *events);

/* Whether the name had a mark of wlh_release_and_mark when the lock was granted; false if the lock
 * is not held. While it is held, no other thread or process can mark the name. */
bool wlh_is_marked(struct wlh_request *lock);

/* Releases as wlh_release_the_lock does and, in the same critical section, marks the name for
 * `keep` milliseconds of a clock that also runs while the machine sleeps. The mark outlives all
 * processes, but not a reboot of the machine. With UINT64_MAX, the mark lasts as long as the file.
 * If the process dies during the call, the name may or may not be marked. Thefts and later
 * locks do not remove the mark.
 *   lock     exclusive
 *   returns  as wlh_release_the_lock; the name is marked only if the result is WLH_OK, or the event
 *            is RELEASED */
enum wlh_status wlh_release_and_mark(
    struct wlh_request *lock, uint64_t keep, struct wlk_events *events);

/* Sets the text that snapshots tell of a lock, until the lock ends.
 *   lock     granted
 *   text     `length` UTF-16 code units, at most 4,096, copied; with 0 the lock has none any more
 *   events   out: the agent's events, which can report the end of the lock
 *   returns  WLH_OK
 *            The other results change nothing:
 *            WLH_PENDING  the tables' critical section cannot be entered now, or they must grow;
 *                         the caller may call wlh_publish_later
 *            WLH_STOLEN, WLH_NOT_HELD, WLH_LOST  it was stolen or lost; an event reports it, or
 *                         wlh_release_the_lock */
enum wlh_status wlh_publish(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, struct wlk_events *events);

/* Does the same as soon as the critical section can be entered, in the order of all operations of
 * this process that wait for that. The call returns as wlh_start_snapshot does. On WLH_PENDING,
 * WLH_NEWS_READY follows: its status is WLH_OK, WLH_NOT_HELD (the lock has ended), WLH_FULL or
 * another one with which the file could not be opened. */
enum wlh_status wlh_publish_later(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, uint32_t tag);

/* The agent that made the request. */
struct wlh_agent *wlh_agent_of(const struct wlh_request *request);

/* Aborts a request (4.3) and grants what became grantable.
 *   returns  WLH_OK  it was pending, or has passed; the request ended. If the tables' critical
 *                    section cannot be entered now, other processes see the abort a little later
 *            WLH_GRANTED  nothing was changed; wlh_release_the_lock ends it
 *            WLH_STOLEN, WLH_LOST or another result that its event would report: the request ended.
 *            WLH_STOLEN sets `thief_*` */
enum wlh_status wlh_abort_the_request(struct wlh_request *request, struct wlk_events *events);

/* Ends a request in any state. Never fails, and takes no events: an agent that has any is woken. */
void wlh_end_the_request(struct wlh_request *request);

/* ---- snapshots ---- */

/* A snapshot of the core with additions. Ages are measured by a clock that all processes share. */
struct wlh_snapshot {
  struct wlk_snapshot base; /* `clients` are the agents, of all processes, whose locks and requests
                               the snapshot contains */
  uint64_t *tokens;         /* one for each lock; 0 for a pending request */
  uint32_t *pids;           /* one for each client, in the namespace of its process */
};

/* Snapshots the lock state (4.5) of all living processes at one moment. On WLH_PENDING, an event
 * WLH_NEWS_SNAPSHOT follows.
 *   name     `length` UTF-16 code units: only this name is included; NULL with the length
 *            UINT32_MAX: all names are
 *   pending  for one name: whether to include the requests that wait
 *   returns  WLH_PENDING, WLH_NO_MEMORY, WLH_FULL (no thread can be started), WLH_LOST (a forked
 *            child) */
enum wlh_status wlh_start_snapshot(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, bool pending, uint32_t tag);

/* Finds the holders of a name for messages, without waiting, because it reads the tables outside
 * their critical section. The result may lack a lock that is granted or released meanwhile, and may
 * contain a lock of a process that has just died.
 *   snapshot out, on WLH_OK: the held locks, for wlh_snapshot_free
 *   returns  WLH_OK, WLH_NO_MEMORY, WLH_LOST (the file is not open or damaged, or another process
 *            kept changing these locks)
 *   cost     O(length + locks held on the name) */
enum wlh_status wlh_find_holders(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, struct wlh_snapshot **snapshot);

/* Blocks the calling thread until the event of a wlh_start_snapshot or wlh_bucket_open_file has
 * come, or the time is over, and takes the agent's events.
 *   tag      of a call whose event was not taken. If there is none, this call does not block
 *   timeout  in milliseconds
 *   events   out: the event is not among them if the time is over, or the capacity was too small */
void wlh_wait_for_job(
    struct wlh_agent *agent, uint32_t tag, uint64_t timeout, struct wlk_events *events);

/* Hands out the snapshot of an event WLH_NEWS_SNAPSHOT, for wlh_snapshot_free, and ends its job.
 * Returns WLH_OK, WLH_NO_MEMORY, or why the bucket could not be opened. */
enum wlh_status wlh_fetch_snapshot(
    struct wlh_agent *agent, uint32_t tag, struct wlh_snapshot **snapshot);

/* Cancels a wlh_start_snapshot, a wlh_bucket_open_file or a wlh_publish_later: no event follows,
 * and a snapshot that was not taken is freed. Does nothing if no such call has this tag. */
void wlh_cancel_job(struct wlh_agent *agent, uint32_t tag);

void wlh_snapshot_free(struct wlh_snapshot *snapshot);

#endif
