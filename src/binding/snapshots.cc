#include "calls.h"
#include "values.h"

napi_value answer_snapshot(napi_env env, wlk_snapshot *snapshot)
{
  napi_value value = snapshot_value(env, snapshot);
  wlk_snapshot_free(snapshot);
  return value;
}

/* snapshot(manager: External): snapshot | status; see values.h */
napi_value call_snapshot(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(&manager)) return nullptr;
  if (!manager) return answer(env, STATUS_CLOSED);
  wlk_snapshot *state;
  wlk_status status = wlk_snapshot_the_lock_state(manager, &state);
  return status == WLK_OK ? answer_snapshot(env, state) : answer(env, status);
}

/* snapshotOf(manager: External, name: string, pending: boolean): snapshot | status; see
 * wlk_snapshot_a_name */
napi_value call_snapshot_of(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(&manager)) return nullptr;
  if (!manager) return answer(env, STATUS_CLOSED);
  bool pending;
  if (!succeeded(env, napi_get_value_bool(env, call.arguments[2], &pending), "reading a boolean"))
    return nullptr;
  CodeUnits name;
  wlk_snapshot *state = nullptr;
  wlk_status status = name.Read(env, call.arguments[1]);
  if (status == WLK_OK)
    status = wlk_snapshot_a_name(manager, name.data(), name.length(), pending, &state);
  return status == WLK_OK ? answer_snapshot(env, state) : answer(env, status);
}
