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

struct HostAgent; /* host.h */

/* In C++ the functions of these names hide them. */
using HostRequest = struct wlh_request;
using HostSnapshot = struct wlh_snapshot;
using HostClient = struct wlh_agent;

enum SlotKind : uint8_t {
  SLOT_CORE,  /* a wlk_request of the process */
  SLOT_HOST,  /* a HostRequest */
  SLOT_ERRAND /* none: another answer of the host scope is to come */
};

/* A bit that is in the news of every event of the host scope, and is none of enum wlh_news. */
enum : uint32_t { NEWS_OF_HOST = 1u << 30 };

/* What JavaScript knows by a tag. */
struct Slot {
  void *thing;   /* null where there is none; of an errand the wlh_agent that it was given to */
  SlotKind kind; /* of what, where there is something */
  bool pending;  /* whether JavaScript waits to be told: keeps the event loop alive */
};

/* Memory that JavaScript and native code share, an ArrayBuffer of the library's: a number in there
 * costs a call nothing, as an argument it costs a Node-API call of its own. JavaScript knows where
 * what is by `kLayout` in addon.cc.
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
  uint32_t thief[3]; /* out, if the call answers WLK_STOLEN: thread, number and pid of wlk_event */
  uint32_t token[2]; /* out, if the call answers WLK_GRANTED: low and high half of the token */
  uint32_t limit;    /* in, to requestExtra: see wlk_extra; out, if it answers WLK_OTHER_LIMIT */
  uint32_t weight;   /* in, to requestExtra */
  uint32_t max_pending; /* in, to requestExtra: UINT32_MAX for as many as there are */
  int32_t priority;     /* in, to requestExtra */
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
  uint32_t pending;                 /* slots pending, and `waking`: while not 0, the loop lives */
  napi_ref buffer;                  /* keeps the memory of `exchange` */
  Exchange *exchange;               /* null before environment_start */
  size_t room;                      /* how many events fit into `exchange` */
  wlk_events events;                /* those of `exchange`, during a call */
  bool waking;                      /* whether it has woken itself, until `drain` is called */
  HostAgent *hosts;                 /* of the host scope, see host.h */
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

/* Keeps what has this tag from now on: `thing` as in struct Slot. The event loop lives while it is
 * pending. */
void environment_keep(
    Environment *environment, uint32_t tag, SlotKind kind, void *thing, bool pending);

/* Returns the core's request with this tag, or null. */
wlk_request *environment_find(const Environment *environment, uint32_t tag);

/* Returns the request of the host scope with this tag, or null. */
HostRequest *environment_find_host(const Environment *environment, uint32_t tag);

/* Returns the agent that has the errand with this tag, which was not told yet; or null. */
HostClient *environment_find_errand(const Environment *environment, uint32_t tag);

/* Sets whether JavaScript waits to be told of what has this tag. */
void environment_set_pending(Environment *environment, uint32_t tag, bool pending);

/* Forgets what has this tag, and ended by a call; does nothing if there is none. */
void environment_forget(Environment *environment, uint32_t tag);

/* Returns where a call of the core or of the host scope is to put its events. There is no room
 * while JavaScript has not taken the last ones. */
wlk_events *environment_events(Environment *environment);

/* Hands over what a call left in environment_events: first what it answered beside its status, then
 * its events, and notes what they mean for `slots`. Where there was no room for events, it sees to
 * it that JavaScript is called for them. To be called after every call that was given
 * environment_events.
 *   scope   whose call it was: SLOT_CORE or SLOT_HOST */
void environment_publish(Environment *environment, SlotKind scope);

/* Notes what an event means for `slots`; one of the host scope is marked with NEWS_OF_HOST. */
void environment_note(Environment *environment, wlk_event *event, SlotKind scope);

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
