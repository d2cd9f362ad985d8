/* The functions that the addon exports, and the declarations that they share. Each function makes
 * one call of the core. lib/backend is the only caller. A function returns a status (`kConstants`
 * in addon.cc). A call about one request instead takes the request's tag from the exchange
 * (environment.h) and leaves its status there, and every call leaves its events there. */
#ifndef WEB_LOCKS_CALLS_H
#define WEB_LOCKS_CALLS_H

#include "environment.h"

/* The version of the interface between JavaScript and the addon: which functions there are, their
 * arguments and results, and what the numbers mean. lib/backend/binary.js loads only a binary with
 * the same version; every change of the interface must raise both. Offsets (`kLayout` in addon.cc)
 * are not part of it, because JavaScript reads them from the addon. */
enum : int32_t { AGREEMENT = 12 };

/* The External of a manager points to a ManagerHandle. */
struct ManagerHandle {
  wlk_manager *manager; /* null after closeManager */
};

/* Takes at most `Count` arguments of a call. Missing arguments are undefined. */
template <size_t Count> struct Call {
  Environment *environment;
  napi_value arguments[Count > 0 ? Count : 1];

  Call(napi_env env, napi_callback_info info)
  {
    size_t count = Count;
    void *data = nullptr;
    bool read = succeeded(
        env, napi_get_cb_info(env, info, &count, arguments, nullptr, &data), "napi_get_cb_info");
    environment = read ? static_cast<Environment *>(data) : nullptr;
  }

  bool is_open() const { return environment && environment->agent; }

  /* Sets `*manager` to the manager of the first argument, or to null after closeManager. Returns
   * false if an exception is pending. */
  bool manager(wlk_manager **manager) const
  {
    ManagerHandle *handle;
    if (!external(0, &handle)) return false;
    *manager = handle->manager;
    return true;
  }

  template <typename Thing> bool external(size_t index, Thing **thing) const
  {
    void *data = nullptr;
    bool read = succeeded(
        environment->env, napi_get_value_external(environment->env, arguments[index], &data),
        "reading a manager");
    *thing = static_cast<Thing *>(data);
    return read;
  }
};

napi_value answer(napi_env env, int32_t status);

/* A call about one request leaves its status in the exchange, and returns undefined to
 * JavaScript. */
napi_value set_status(Environment *environment, int32_t status);

/* Returns whether the environment has an agent. If it has none, sets the status of the call to
 * CLOSED. `environment` may be null. */
inline bool ensure_open(Environment *environment)
{
  if (!environment) return false;
  if (environment->agent) return true;
  if (environment->exchange) (void)set_status(environment, STATUS_CLOSED);
  return false;
}

/* Returns the environment of a call without arguments, which is cheaper than making a Call. */
Environment *environment_of(napi_env env);

napi_value answer_snapshot(napi_env env, wlk_snapshot *snapshot);

/* requests.cc */
napi_value call_request(napi_env env, napi_callback_info info);
napi_value call_request_extra(napi_env env, napi_callback_info info);
napi_value call_wait(napi_env env, napi_callback_info info);
napi_value call_release(napi_env env, napi_callback_info info);
napi_value call_is_marked(napi_env env, napi_callback_info info);
napi_value call_release_and_mark(napi_env env, napi_callback_info info);
napi_value call_abort(napi_env env, napi_callback_info info);
napi_value call_undo(napi_env env, napi_callback_info info);

/* host.cc */
napi_value call_host_open(napi_env env, napi_callback_info info);
napi_value call_host_close(napi_env env, napi_callback_info info);
napi_value call_host_client_id(napi_env env, napi_callback_info info);
napi_value call_host_failure(napi_env env, napi_callback_info info);
napi_value call_host_place(napi_env env, napi_callback_info info);
napi_value call_host_ready(napi_env env, napi_callback_info info);

/* host_requests.cc */
napi_value call_host_request(napi_env env, napi_callback_info info);
napi_value call_host_request_extra(napi_env env, napi_callback_info info);
napi_value call_host_wait(napi_env env, napi_callback_info info);
napi_value call_host_release(napi_env env, napi_callback_info info);
napi_value call_host_is_marked(napi_env env, napi_callback_info info);
napi_value call_host_release_and_mark(napi_env env, napi_callback_info info);
napi_value call_host_abort(napi_env env, napi_callback_info info);
napi_value call_host_end(napi_env env, napi_callback_info info);
napi_value call_host_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_wait_for_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_take_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_holders(napi_env env, napi_callback_info info);

/* snapshots.cc */
napi_value call_snapshot(napi_env env, napi_callback_info info);
napi_value call_snapshot_of(napi_env env, napi_callback_info info);

#endif
