/* A scope is where locks are: the process (process.cc, over the core) or the machine (host.cc, over
 * the host scope). Each implements `Scope`, so that the calls about buckets and requests exist
 * once. The statuses of both have the same numbers (host.h of the host scope). */
#ifndef WEB_LOCKS_SCOPE_H
#define WEB_LOCKS_SCOPE_H

#include "calls.h"
#include "values.h"

/* A new request. */
struct Wanted {
  const uint16_t *name;
  uint32_t length;
  wlk_mode mode;
  wlk_option option;
  uint32_t tag;
  const wlk_extra *extra; /* may be null */
};

/* `bucket` is the bucket of a Handle; `request` and `lock` are pointers that a slot keeps. The
 * functions return statuses and leave events in `events`, as the functions in weblocks.h do. */
struct Scope {
  void (*close)(void *bucket);
  napi_value (*holders)(napi_env env, void *bucket, const CodeUnits &name); /* snapshot | status */
  int32_t (*request)(
      Environment *environment, void *bucket, const Wanted &wanted, void **request,
      wlk_snapshot **cycle, wlk_events *events);
  /* On WLK_DEADLOCK, `*cycle` may stay null. */
  int32_t (*wait)(void *request, uint64_t timeout, wlk_snapshot **cycle, wlk_events *events);
  /* On WLK_PENDING, an event reports the release. */
  int32_t (*release)(void *lock, wlk_events *events);
  int32_t (*release_and_mark)(void *lock, uint64_t keep, wlk_events *events);
  int32_t (*is_marked)(void *lock, wlk_events *events); /* WLK_MARKED, WLK_OK or a failure */
  /* On WLK_PENDING, nothing was done, because that would have to wait. */
  int32_t (*publish)(void *lock, const uint16_t *text, uint32_t length, wlk_events *events);
  /* Returns WLK_GRANTED if `release` must end the request; otherwise it ended. */
  int32_t (*abort)(void *request, wlk_events *events);
  /* Ends a request in any state, and returns WLK_OK. */
  int32_t (*end)(void *request, wlk_events *events);
};

extern const Scope kProcessScope, kHostScope;

/* The target of a bucket's External. Its requests have ended when the External is collected,
 * because JavaScript keeps the External while it has a request, or because the cleanup hook of the
 * environment ran first. */
struct Handle {
  SlotKind scope; /* SLOT_CORE or SLOT_HOST */
  void *bucket;   /* a wlk_manager or a HostAgent; null once closed */
};

/* Calls a function of a scope. The compiler sees which one, and inlines it. */
template <auto Function, typename... Arguments>
auto call_scope(SlotKind scope, Arguments &&...arguments)
{
  return scope == SLOT_CORE ? (kProcessScope.*Function)(arguments...)
                            : (kHostScope.*Function)(arguments...);
}

/* Returns an External that owns `bucket`. If that fails, closes the bucket, and returns a status,
 * or null with an exception pending. */
napi_value make_handle(napi_env env, SlotKind scope, void *bucket);

/* Returns null if the handle is closed, the environment has ended or, with an exception pending,
 * the first argument is no External. */
template <typename AnyCall> Handle *open_handle(const AnyCall &call)
{
  if (!call.is_open()) return nullptr;
  void *data = nullptr;
  napi_env env = call.environment->env;
  if (!succeeded(env, napi_get_value_external(env, call.arguments[0], &data), "reading a handle"))
    return nullptr;
  Handle *handle = static_cast<Handle *>(data);
  return handle->bucket ? handle : nullptr;
}

/* Adapts a function about a request of a scope, or a bucket, to its type in `Scope`. */
template <typename Thing, auto Function, typename... Arguments>
int32_t adapted(void *thing, Arguments... arguments)
{
  return Function(static_cast<Thing *>(thing), arguments...);
}

#endif
