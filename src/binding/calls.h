/* The functions that the addon exports to lib/backend (addon.js has their signatures), and the
 * declarations that they share. A call about one request takes the request's tag from the exchange
 * (environment.h), and leaves its status there (`kConstants` in addon.cc); most others return their
 * status. Every call leaves its events in the exchange. */
#ifndef WEB_LOCKS_CALLS_H
#define WEB_LOCKS_CALLS_H

#include "environment.h"

/* The version of the interface between JavaScript and the addon: every change of functions, of
 * their arguments and results, and of the meaning of numbers must raise it, and the one in
 * lib/backend/binary.js. So must a new field of the exchange. Its offset (`kLayout` in addon.cc) is
 * not part of the interface, because JavaScript reads it from the addon. */
enum : int32_t { AGREEMENT = 16 };

/* The environment and arguments of a call. Missing arguments are undefined. */
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

  /* Returns whether the environment has an agent. */
  bool is_open() const { return environment && environment->agent; }
};

/* Returns the status as a JavaScript number, or null with an exception pending. */
napi_value answer(napi_env env, int32_t status);

/* Leaves the status of a call in the exchange. Returns null: undefined for JavaScript. */
napi_value set_status(Environment *environment, int32_t status);

/* If the environment has no agent, returns false, and sets the status to CLOSED. `environment` may
 * be null. */
inline bool ensure_open(Environment *environment)
{
  if (!environment) return false;
  if (environment->agent) return true;
  if (environment->exchange) (void)set_status(environment, STATUS_CLOSED);
  return false;
}

/* For calls without arguments; cheaper than making a Call. */
Environment *environment_of(napi_env env);

/* scope.cc */
napi_value call_close(napi_env env, napi_callback_info info);
napi_value call_holders(napi_env env, napi_callback_info info);

/* requests.cc */
napi_value call_request(napi_env env, napi_callback_info info);
napi_value call_request_extra(napi_env env, napi_callback_info info);
napi_value call_wait(napi_env env, napi_callback_info info);
napi_value call_release(napi_env env, napi_callback_info info);
napi_value call_is_marked(napi_env env, napi_callback_info info);
napi_value call_release_and_mark(napi_env env, napi_callback_info info);
napi_value call_publish(napi_env env, napi_callback_info info);
napi_value call_abort(napi_env env, napi_callback_info info);
napi_value call_end(napi_env env, napi_callback_info info);
napi_value call_undo(napi_env env, napi_callback_info info);

/* process.cc */
napi_value call_open_manager(napi_env env, napi_callback_info info);
napi_value call_snapshot(napi_env env, napi_callback_info info);

/* host.cc */
napi_value call_host_open(napi_env env, napi_callback_info info);
napi_value call_host_client_id(napi_env env, napi_callback_info info);
napi_value call_host_failure(napi_env env, napi_callback_info info);
napi_value call_host_place(napi_env env, napi_callback_info info);

/* host_jobs.cc */
napi_value call_host_ready(napi_env env, napi_callback_info info);
napi_value call_host_publish_later(napi_env env, napi_callback_info info);
napi_value call_host_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_wait_for_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_take_snapshot(napi_env env, napi_callback_info info);
napi_value call_host_end_job(napi_env env, napi_callback_info info);

#endif
