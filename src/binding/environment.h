/* One Node environment of one thread, as the core sees it: an agent, and the requests it has made,
 * by number.
 *
 * Each load of the addon into a thread gets a napi_env of its own and with it an environment.
 * JavaScript names a request by a number of its choice (its tag); the environment keeps the core's
 * pointer under that number, so that no number, right or wrong, can make native code touch memory
 * that is not its own. Requests of the host scope (host.h) have tags of the same numbers, and their
 * events come through the same exchange and the same wake-up.
 *
 * Threads: everything here runs on the environment's own thread, but for the wake-up, which any
 * thread may cause: it uses `wake` only, and the core promises not to call it once
 * wlk_agent_terminate returned. `wake` is released after that.
 *
 * Life: made by environment_start; its agent terminated by a cleanup hook of the environment, after
 * which every call is answered with CLOSED; freed with the instance data, the last thing of a
 * napi_env. */
#ifndef WEB_LOCKS_ENVIRONMENT_H
#define WEB_LOCKS_ENVIRONMENT_H

#include <napi.h>

extern "C" {
#include "../core/weblocks.h"
#include "../host/host.h"
}

/* What calls answer, beside the core's status codes. */
enum : int32_t { STATUS_CLOSED = 100 };

struct HostOpening; /* host.h */

/* In C++ the functions of these names hide them. */
using HostRequest = struct wlh_request;
using HostSnapshot = struct wlh_snapshot;

enum SlotKind : uint8_t {
  SLOT_CORE,  /* a wlk_request of the process */
  SLOT_HOST,  /* a HostRequest */
  SLOT_ERRAND /* none: another answer of the host scope is to come */
};

/* What JavaScript knows by a tag. */
struct Slot {
  void *thing;   /* null where there is none; of an errand anything else */
  SlotKind kind; /* of what, where there is something */
  bool pending;  /* whether JavaScript waits to be told: keeps the event loop alive */
};

/* Memory that JavaScript and native code share, an ArrayBuffer of the library's: a number in there
 * costs a call nothing, as an argument it costs a Node-API call of its own.
 *
 * JavaScript takes the events of a call right after it, and then sets `event_count` to 0. It can
 * fail to: where its stack is full, any step of it throws. So a call that finds `event_count` not 0
 * leaves it and the events there as they are and takes no more from the core, and the environment
 * wakes itself: `drain` is called from the event loop, where the stack is empty, until all events
 * are handed over. */
struct Exchange {
  uint32_t event_count; /* out: how many events the call left; in: not 0 if they were not taken */
  uint32_t tag;         /* in: the request that the call is about */
  uint32_t mode;        /* in: of a new request, enum wlk_mode */
  uint32_t option;      /* in: of a new request, enum wlk_option */
  uint32_t thief[2];    /* out, if the call answers WLK_STOLEN: thread and number, see wlk_event */
  uint32_t token[2];    /* out, if the call answers WLK_GRANTED: low and high half of the token */
  uint32_t limit;       /* in, to requestExtra: see wlk_extra; out, if it answers WLK_OTHER_LIMIT */
  uint32_t weight;      /* in, to requestExtra */
  uint32_t max_pending; /* in, to requestExtra: UINT32_MAX for as many as there are */
  uint32_t status;      /* out: of a call about one request */
  wlk_event events[];   /* out */
};

struct Environment {
  napi_env env;
  wlk_process *process;
  wlk_agent *agent;                 /* null before environment_start and after the cleanup hook */
  napi_threadsafe_function wake;    /* runs the library's drain function on this thread */
  Slot *slots;                      /* by tag */
  uint32_t capacity;                /* of `slots` */
  uint32_t live;                    /* slots with a request */
  uint32_t pending;                 /* slots that are pending: while not 0, the event loop lives */
  napi_ref buffer;                  /* keeps the memory of `exchange` */
  Exchange *exchange;               /* null before environment_start */
  size_t room;                      /* how many events fit into `exchange` */
  wlk_events events;                /* those of `exchange`, during a call */
  bool waking;                      /* whether it has woken itself, until `drain` is called */
  HostOpening *hosts;               /* those that are open, see host.h */
  void (*end_hosts)(Environment *); /* terminates their agents; null if there never was one */
};

/* Makes the agent. `wake_up` is called, on this thread, when there are events to drain.
 * Returns WLK_OK if done, the core's status if it failed; where Node-API fails, WLK_NO_MEMORY with
 * an exception pending. */
wlk_status environment_start(
    Environment *environment, const char *client_prefix, const wlk_thread *thread,
    napi_value wake_up, napi_value buffer);

/* Makes room for a request with this tag. False when out of memory, or if the tag is taken. */
bool environment_reserve(Environment *environment, uint32_t tag);

/* Keeps a request that WLK_GRANTED or WLK_PENDING answered. */
void environment_keep(Environment *environment, uint32_t tag, wlk_request *request, bool pending);

/* Returns the core's request with this tag, or null. */
wlk_request *environment_find(const Environment *environment, uint32_t tag);

/* Returns the request of the host scope with this tag, or null. */
HostRequest *environment_find_host(const Environment *environment, uint32_t tag);

/* Sets whether JavaScript waits to be told of this one. */
void environment_set_pending(Environment *environment, Slot *slot, bool pending);

/* Notes that a pending request was granted by a call. */
void environment_granted(Environment *environment, uint32_t tag);

/* Forgets what has this tag, and ended by a call; does nothing if there is none. */
void environment_forget(Environment *environment, uint32_t tag);

/* Returns where a core call is to put its events. */
wlk_events *environment_events(Environment *environment);

/* Leaves for JavaScript what the last call answered beside its status, and the number of its
 * events. Returns false if it could take none: then the environment has woken itself. */
bool environment_publish_answer(Environment *environment);

/* Publishes the events that the last call put there: their number for JavaScript, and what they
 * mean for `slots`. To be called after every core call that was given environment_events. */
void environment_publish(Environment *environment);

/* Ends the request with this tag, if there is one, whatever it is, and forgets it; events about it
 * that JavaScript has not taken say nothing any more. Takes no events; the environment is woken, so
 * that JavaScript does the rest with an empty stack. Runs no JavaScript and throws nothing. */
void environment_undo(Environment *environment, uint32_t tag);

/* Frees the environment. Its agent was terminated. */
void environment_free(Environment *environment);

/* Has the library's drain function called on the environment's thread. On any thread, until the
 * cleanup hook is done. */
void environment_wake(Environment *environment);

/* Whether a Node-API call succeeded. A call that failed with an exception pending leaves it
 * pending. One that failed because the environment is ending (a worker is being terminated) is let
 * through: nothing more can run there, so there is nobody to tell. Any other failure throws an
 * Error that names `what`. */
bool succeeded(napi_env env, napi_status status, const char *what);

#endif
