/* The functions that the addon exports, each one call of the core, and what they have in common.
 *
 * lib/backend is the only caller. Functions answer with a status number, see `constants` in
 * addon.cc. The ones about one request take its tag from the exchange (environment.h) and leave
 * their status there, and those that can cause events leave them there, too. */
#ifndef WEB_LOCKS_CALLS_H
#define WEB_LOCKS_CALLS_H

#include "environment.h"

/* The number of what JavaScript and the addon agree about: which functions there are, what they
 * take and answer, what the numbers mean. lib/backend/binary.js has it, too, and loads no binary
 * with another one. Raise both with any change to that. Where numbers stand (`kLayout` in addon.cc)
 * is no part of it: JavaScript asks. */
enum : int32_t { AGREEMENT = 9 };

/* What the External of a manager points to. */
struct Opening {
  wlk_manager *manager; /* null once it was closed */
};

/* The arguments of a call, at most `Count`; missing ones are undefined. */
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

  bool open() const { return environment && environment->agent; }

  /* The manager of the first argument; null once it was closed. */
  bool manager(wlk_manager **manager) const
  {
    Opening *opening;
    if (!external(0, &opening)) return false;
    *manager = opening->manager;
    return true;
  }

  /* What an External points to. */
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

/* Answers with a number. */
napi_value answer(napi_env env, int32_t status);

/* Answers a call about one request: leaves the status in the exchange, and returns undefined. */
napi_value leave(Environment *environment, int32_t status);

/* Whether a call about one request can go on; if not, it is answered. `environment` may be null. */
inline bool is_open(Environment *environment)
{
  if (!environment) return false;
  if (environment->agent) return true;
  if (environment->exchange) (void)leave(environment, STATUS_CLOSED);
  return false;
}

/* The environment of a call without arguments: for less than the price of a Call. */
Environment *environment_of(napi_env env);

/* Answers with a snapshot's value, and frees it. */
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
