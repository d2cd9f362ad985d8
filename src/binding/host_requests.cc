/* Calls of the host scope about one request, and about the lock state. As in requests.cc, but that
 * any of them may be answered later, by an event: with WLH_PENDING. */
#include "calls.h"
#include "host.h"
#include "values.h"

/* Requests the lock named by the second argument; the rest is in the exchange and in `extra`. */
template <typename AnyCall>
static napi_value host_request_with(napi_env env, const AnyCall &call, const wlk_extra *extra)
{
  Environment *environment = call.environment;
  HostOpening *opening = host_opening(call);
  if (!opening) return answer(env, WLH_CLOSED);
  uint32_t tag = environment->exchange->tag;
  wlk_mode mode = static_cast<wlk_mode>(environment->exchange->mode);
  wlk_option option = static_cast<wlk_option>(environment->exchange->option);
  CodeUnits name;
  if (name.Read(env, call.arguments[1]) != WLK_OK || !environment_reserve(environment, tag))
    return answer(env, WLH_NO_MEMORY);
  HostRequest *request;
  wlk_events *events = environment_events(environment);
  events->count = 0;
  wlh_status status = wlh_request(
      opening->agent, name.data(), name.length(), mode, option, tag, extra, &request, events);
  if (status == WLH_GRANTED || status == WLH_PENDING)
    host_keep(environment, tag, request, status == WLH_PENDING);
  host_publish(environment);
  return answer(env, status);
}

/* hostRequest(opening: External, name: string): status */
napi_value call_host_request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  return host_request_with(env, call, nullptr);
}

/* hostRequestExtra(opening: External, name: string, label: string): status */
napi_value call_host_request_extra(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  wlk_extra extra = {};
  CodeUnits label;
  wlk_status status = read_extra(env, call.environment, call.arguments[2], &label, &extra);
  if (status != WLK_OK) return answer(env, WLH_NO_MEMORY);
  return host_request_with(env, call, &extra);
}

/* hostWait(timeout: number): status
 * As `wait`, but that the answer to a thread in its own way is WLH_DEADLOCK. */
napi_value call_host_wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t timeout;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &timeout), "the timeout"))
    return nullptr;
  uint32_t tag = environment->exchange->tag;
  HostRequest *request = environment_find_host(environment, tag);
  if (!request) return answer(env, WLH_NOT_HELD);
  wlk_events *events = environment_events(environment);
  events->count = 0;
  wlh_status status = wlh_wait(request, timeout, events);
  if (status == WLH_GRANTED)
    environment_granted(environment, tag);
  else if (status != WLH_PENDING)
    environment_forget(environment, tag);
  host_publish(environment);
  return answer(env, status);
}

/* hostRelease(): status
 * WLH_PENDING: an event tells, and the event loop is kept alive until then. */
napi_value call_host_release(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  HostRequest *lock = environment_find_host(environment, tag);
  if (!lock) return answer(env, WLH_NOT_HELD);
  wlk_events *events = environment_events(environment);
  events->count = 0;
  wlh_status status = wlh_release(lock, events);
  if (status == WLH_PENDING)
    environment_set_pending(environment, &environment->slots[tag], true);
  else if (status != WLH_NOT_HELD)
    environment_forget(environment, tag);
  host_publish(environment);
  return answer(env, status);
}

/* hostAbort(): status */
napi_value call_host_abort(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  HostRequest *request = environment_find_host(environment, tag);
  if (!request) return answer(env, WLH_NOT_HELD);
  wlk_events *events = environment_events(environment);
  events->count = 0;
  wlh_status status = wlh_abort(request, events);
  if (status != WLH_GRANTED) environment_forget(environment, tag);
  host_publish(environment);
  return answer(env, status);
}

/* hostEnd(): status
 * Ends what has the tag in the exchange, whatever it is: see wlh_end. */
napi_value call_host_end(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  uint32_t tag = call.environment->exchange->tag;
  HostRequest *request = environment_find_host(call.environment, tag);
  if (request) wlh_end(request);
  environment_forget(call.environment, tag);
  return answer(env, WLH_OK);
}

/* hostSnapshot(opening: External, name: string | undefined, pending: boolean): status
 * WLH_PENDING: an event tells, to the tag in the exchange, that hostTakeSnapshot has it. */
napi_value call_host_snapshot(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  HostOpening *opening = host_opening(call);
  if (!opening) return answer(env, WLH_CLOSED);
  bool pending;
  napi_valuetype type;
  if (!succeeded(env, napi_get_value_bool(env, call.arguments[2], &pending), "reading a boolean") ||
      !succeeded(env, napi_typeof(env, call.arguments[1], &type), "napi_typeof"))
    return nullptr;
  CodeUnits name;
  bool named = type == napi_string;
  uint32_t tag = call.environment->exchange->tag;
  if ((named && name.Read(env, call.arguments[1]) != WLK_OK) ||
      !environment_reserve(call.environment, tag))
    return answer(env, WLH_NO_MEMORY);
  wlh_status status = wlh_snapshot(
      opening->agent, named ? name.data() : nullptr, named ? name.length() : UINT32_MAX, pending,
      tag);
  if (status == WLH_PENDING) host_keep(call.environment, tag, nullptr, true);
  return answer(env, status);
}

/* hostTakeSnapshot(opening: External): snapshot | status
 * The snapshot of the tag in the exchange, as snapshot_value has it with pids. */
napi_value call_host_take_snapshot(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  HostOpening *opening = host_opening(call);
  if (!opening) return answer(env, WLH_CLOSED);
  HostSnapshot *snapshot = nullptr;
  wlh_status status = wlh_take_snapshot(opening->agent, call.environment->exchange->tag, &snapshot);
  if (status != WLH_OK) return answer(env, status);
  napi_value value = snapshot_value(env, &snapshot->base, snapshot->pids);
  wlh_snapshot_free(snapshot);
  return value;
}
