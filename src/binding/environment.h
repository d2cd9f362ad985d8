/* One Node environment of one thread: an agent of the core, and its requests by tag. Each load of
 * the addon into a thread gets its own napi_env, and with it an environment. JavaScript chooses the
 * tag of a request, and the environment maps it to the core's pointer, so no number from JavaScript
 * can make native code touch foreign memory. Requests of the host scope (host.h) share the tags,
 * the exchange and the wake-up.
 *
 * Threads: everything runs on the environment's thread, except environment_wake, which uses `wake`
 * only.
 *
 * Lifetime: environment_start creates the agent. A cleanup hook of the environment terminates the
 * agent, after which nothing calls the wake-up, and releases `wake`; from then on, calls return
 * CLOSED. The environment itself is freed last, with the instance data. */
#ifndef WEB_LOCKS_ENVIRONMENT_H
#define WEB_LOCKS_ENVIRONMENT_H

#include <napi.h>

extern "C" {
#include "../core/weblocks.h"
#include "../host/host.h"
}

enum : int32_t { STATUS_CLOSED = 100 };

struct HostAgent; /* host.h */

using HostRequest = struct wlh_request;
using HostSnapshot = struct wlh_snapshot;
using HostClient = struct wlh_agent;

enum SlotKind : uint8_t {
  SLOT_CORE, /* a wlk_request of the process */
  SLOT_HOST, /* a HostRequest */
  SLOT_JOB   /* another job of the host scope, which an event completes */
};

/* Marks events of the host scope. It must differ from every bit of enum wlh_news. */
enum : uint32_t { NEWS_OF_HOST = 1u << 30 };

/* The request or job that JavaScript knows by a tag. */
struct Slot {
  void *thing; /* null if the slot is empty; for a job, the wlh_agent that has the job */
  SlotKind kind;
  bool pending; /* whether JavaScript waits for an event, which keeps the event loop alive */
};

/* An ArrayBuffer that JavaScript and native code share: reading a number from an argument instead
 * would cost a Node-API call.
 *
 * JavaScript takes the events after each call, and then sets `event_count` to 0. If the JavaScript
 * stack overflows, the events stay. So a call that finds `event_count` not 0 leaves the events in
 * place, takes no more events from the core, and wakes the environment: the event loop then calls
 * `drain`, with an empty stack, until all events are taken. */
struct Exchange {
  uint32_t event_count; /* out: events of the call; in: not 0 if JavaScript has not taken them */
  uint32_t tag;         /* in: the tag of the request */
  uint32_t mode;        /* in, for a new request: enum wlk_mode */
  uint32_t option;      /* in, for a new request: enum wlk_option */
  uint32_t thief[3];    /* out, on WLK_STOLEN: thread, number and pid of wlk_event */
  uint32_t token[2];    /* out, on WLK_GRANTED: low and high half of the token */
  uint32_t limit;       /* in, for requestExtra: see wlk_extra; out, on WLK_OTHER_LIMIT */
  uint32_t weight;      /* in, for requestExtra */
  uint32_t max_pending; /* in, for requestExtra: UINT32_MAX for no limit */
  int32_t priority;     /* in, for requestExtra */
  uint32_t status;      /* out: the status of a call that does not return it */
  wlk_event events[];   /* out */
};

struct Environment {
  napi_env env;
  wlk_process *process;
  wlk_agent *agent;              /* null before environment_start, and after the cleanup hook */
  napi_threadsafe_function wake; /* runs the library's drain function on this thread */
  Slot *slots;                   /* by tag */
  uint32_t capacity;             /* of `slots` */
  uint32_t live;                 /* slots in use */
  uint32_t pending;   /* pending slots, plus 1 if `waking`; unless 0, the event loop stays alive */
  napi_ref buffer;    /* keeps the memory of `exchange` */
  Exchange *exchange; /* null before environment_start */
  size_t room;        /* the number of events that fit into `exchange` */
  wlk_events events;  /* points into `exchange`, during a call */
  bool waking;        /* whether the environment woke itself and `drain` has not run yet */
  HostAgent *hosts;   /* the agents of the host scope, see host.h */
  void (*end_hosts)(Environment *); /* terminates `hosts`; null before the first one exists */
};

/* Creates the agent, whose wake-ups call the JavaScript function `wake_up` on this thread. Returns
 * the core's status; if Node-API fails, WLK_NO_MEMORY with an exception pending. */
wlk_status environment_start(
    Environment *environment, const char *client_prefix, const wlk_thread *thread,
    napi_value wake_up, napi_value buffer);

/* Makes room for the slot of a tag, and changes nothing else. Returns false if out of memory, or if
 * the tag is in use. */
bool environment_reserve(Environment *environment, uint32_t tag);

/* Fills the slot of a reserved tag. While the slot is pending, the event loop stays alive. */
void environment_keep(
    Environment *environment, uint32_t tag, SlotKind kind, void *thing, bool pending);

/* The four functions return null if the tag belongs to another kind or to nothing. */
const Slot *environment_find_request(const Environment *environment, uint32_t tag);

wlk_request *environment_find(const Environment *environment, uint32_t tag);

HostRequest *environment_find_host(const Environment *environment, uint32_t tag);

/* Returns the agent of a job that is not complete yet. */
HostClient *environment_find_job(const Environment *environment, uint32_t tag);

/* The tag must be in use. The event loop stays alive while its slot is pending. */
void environment_set_pending(Environment *environment, uint32_t tag, bool pending);

/* Empties the slot, if the tag is in use. With the last one, the array is freed if it has grown. */
void environment_forget(Environment *environment, uint32_t tag);

/* Returns where a call of the core or of the host scope puts its events. Its capacity is 0 until
 * JavaScript has taken the events of the previous call. */
wlk_events *environment_events(Environment *environment);

/* Hands the results and events of a call over to JavaScript, and updates `slots`. If the capacity
 * for events was 0, schedules a call of `drain` for them. Every call that uses environment_events
 * must end with this function.
 *   scope   SLOT_CORE for a call of the core, SLOT_HOST for a call of the host scope */
void environment_publish(Environment *environment, SlotKind scope);

/* Updates `slots` for an event: its slot is no longer pending and, if the request or job has ended,
 * becomes empty. Marks an event of the host scope with NEWS_OF_HOST. */
void environment_note(Environment *environment, wlk_event *event, SlotKind scope);

/* Ends the request with this tag, if there is one, in any state, and clears its events that
 * JavaScript has not taken. Wakes the environment, so that JavaScript takes the other events with
 * an empty stack. Runs no JavaScript and throws nothing. */
void environment_undo(Environment *environment, uint32_t tag);

/* The environment's agent must have been terminated. */
void environment_free(Environment *environment);

/* Schedules a call of the library's drain function on the environment's thread. Threads: any, until
 * the cleanup hook has terminated the agents. */
void environment_wake(Environment *environment);

/* Returns whether a Node-API call succeeded. If it failed, throws an Error that names `what`,
 * unless an exception is pending, or the environment is ending (a worker is being terminated). */
bool succeeded(napi_env env, napi_status status, const char *what);

#endif
