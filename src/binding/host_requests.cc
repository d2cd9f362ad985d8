/* The calls of the host scope about one request, and about the lock state. They work as the calls
 * in requests.cc do, but return their status. On WLH_PENDING, an event reports the result later. */
#include "host.h"
#include "requests.h"

template <typename AnyCall>
static napi_value host_request_with(napi_env env, const AnyCall &call, const wlk_extra *extra)
{
  Environment *environment = call.environment;
  HostHandle *handle = host_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  Wanted wanted;
  if (!wanted.Read(environment, call.arguments[1])) return answer(env, WLH_NO_MEMORY);
  HostRequest *request;
  wlh_status status = wlh_request_a_lock(
      handle->host->agent, wanted.name.data(), wanted.name.length(), wanted.mode, wanted.option,
      wanted.tag, extra, &request, environment_events(environment));
  if (status == WLH_GRANTED || status == WLH_PENDING)
    environment_keep(environment, wanted.tag, SLOT_HOST, request, status == WLH_PENDING);
  environment_publish(environment, SLOT_HOST);
  return answer(env, status);
}

/* hostRequest(handle: External, name: string): status */
napi_value call_host_request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  return host_request_with(env, call, nullptr);
}

/* hostRequestExtra(handle: External, name: string, label: string): status */
napi_value call_host_request_extra(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  wlk_extra extra = {};
  CodeUnits label;
  wlk_status status = read_extra(env, call.environment, call.arguments[2], &label, &extra);
  if (status != WLK_OK) return answer(env, WLH_NO_MEMORY);
  return host_request_with(env, call, &extra);
}

/* hostWait(timeout: number): status
 * Works as `wait`, but returns WLH_DEADLOCK without a cycle if the thread would wait for itself. */
napi_value call_host_wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint64_t timeout;
  if (!read_time(env, call.arguments[0], &timeout)) return nullptr;
  int32_t status = on_request<OfHost>(
      call.environment, [timeout](HostRequest *request, wlk_events *events, Outcome *outcome) {
        wlh_status answer = wlh_wait_for_the_lock(request, timeout, events);
        *outcome = answer == WLH_GRANTED ? GRANTED : answer == WLH_PENDING ? STAYS : ENDED;
        return answer;
      });
  return answer(env, status);
}

/* If `keep` is 0, marks nothing. */
template <typename AnyCall>
static napi_value release_host_lock(napi_env env, const AnyCall &call, uint64_t keep)
{
  int32_t status = on_request<OfHost>(
      call.environment, [keep](HostRequest *lock, wlk_events *events, Outcome *outcome) {
        wlh_status answer = wlh_release_and_mark(lock, keep, events);
        *outcome = answer == WLH_PENDING ? AWAITED : answer == WLH_NOT_HELD ? STAYS : ENDED;
        return answer;
      });
  return answer(env, status);
}

/* hostRelease(): status. On WLH_PENDING, the event loop stays alive until the event. */
napi_value call_host_release(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  return release_host_lock(env, call, 0);
}

/* hostIsMarked(): 1 if the name of the lock was marked when the lock was granted, else 0 */
napi_value call_host_is_marked(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, 0);
  HostRequest *lock = environment_find_host(call.environment, call.environment->exchange->tag);
  return answer(env, lock && wlh_is_marked(lock) ? 1 : 0);
}

/* hostReleaseAndMark(keep: number): status
 * Works as hostRelease, and marks the name for `keep` milliseconds, or for ever if negative. */
napi_value call_host_release_and_mark(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  int64_t keep;
  if (!succeeded(env, napi_get_value_int64(env, call.arguments[0], &keep), "reading a time"))
    return nullptr;
  return release_host_lock(env, call, keep < 0 ? UINT64_MAX : static_cast<uint64_t>(keep));
}

/* hostPublish(text: string): status; '' removes what was published. On WLH_PENDING, nothing was
 * done, and hostPublishLater may be called. */
napi_value call_host_publish(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  CodeUnits text;
  if (text.Read(env, call.arguments[0]) != WLK_OK) return answer(env, WLH_NO_MEMORY);
  int32_t status = on_request<OfHost>(
      call.environment, [&text](HostRequest *lock, wlk_events *events, Outcome *) {
        return wlh_publish(lock, text.data(), text.length(), events);
      });
  return answer(env, status);
}

/* hostPublishLater(lock: number, text: string): status
 * `lock` is the tag of the lock. On WLH_PENDING, an event with the tag in the exchange follows. */
napi_value call_host_publish_later(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint32_t lock_tag;
  uint32_t tag = call.environment->exchange->tag;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &lock_tag), "reading a tag"))
    return nullptr;
  HostRequest *lock = environment_find_host(call.environment, lock_tag);
  if (!lock) return answer(env, WLH_NOT_HELD);
  CodeUnits text;
  if (text.Read(env, call.arguments[1]) != WLK_OK || !environment_reserve(call.environment, tag))
    return answer(env, WLH_NO_MEMORY);
  wlh_status status = wlh_publish_later(lock, text.data(), text.length(), tag);
  if (status == WLH_PENDING)
    environment_keep(call.environment, tag, SLOT_JOB, wlh_agent_of(lock), true);
  return answer(env, status);
}

/* hostAbort(): status. Aborts the request with the tag in the exchange. */
napi_value call_host_abort(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  int32_t status = on_request<OfHost>(
      call.environment, [](HostRequest *request, wlk_events *events, Outcome *outcome) {
        wlh_status answer = wlh_abort_the_request(request, events);
        *outcome = answer == WLH_GRANTED ? STAYS : ENDED;
        return answer;
      });
  return answer(env, status);
}

/* hostEnd(): status. Ends the request or job with the tag in the exchange. */
napi_value call_host_end(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint32_t tag = call.environment->exchange->tag;
  HostRequest *request = environment_find_host(call.environment, tag);
  if (request) wlh_end_the_request(request);
  if (HostClient *client = environment_find_job(call.environment, tag)) wlh_cancel_job(client, tag);
  environment_forget(call.environment, tag);
  return answer(env, WLH_OK);
}

/* hostSnapshot(handle: External, name: string | undefined, pending: boolean): status
 * On WLH_PENDING, hostTakeSnapshot may be called after an event with the tag in the exchange. */
napi_value call_host_snapshot(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  HostHandle *handle = host_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
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
  wlh_status status = wlh_start_snapshot(
      handle->host->agent, named ? name.data() : nullptr, named ? name.length() : UINT32_MAX,
      pending, tag);
  if (status == WLH_PENDING)
    environment_keep(call.environment, tag, SLOT_JOB, handle->host->agent, true);
  return answer(env, status);
}

/* hostWaitForSnapshot(handle: External, timeout: number): status
 * Blocks until the snapshot with the tag in the exchange is ready, at most for `timeout` ms. */
napi_value call_host_wait_for_snapshot(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  HostHandle *handle = host_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  uint64_t timeout;
  if (!read_time(env, call.arguments[1], &timeout)) return nullptr;
  wlh_wait_for_job(
      handle->host->agent, call.environment->exchange->tag, timeout,
      environment_events(call.environment));
  environment_publish(call.environment, SLOT_HOST);
  return answer(env, WLH_OK);
}

/* hostTakeSnapshot(handle: External): snapshot | status; see snapshot_value with pids */
napi_value call_host_take_snapshot(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  HostHandle *handle = host_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  HostSnapshot *snapshot = nullptr;
  wlh_status status =
      wlh_fetch_snapshot(handle->host->agent, call.environment->exchange->tag, &snapshot);
  if (status != WLH_OK) return answer(env, status);
  napi_value value = snapshot_value(env, &snapshot->base, snapshot->pids);
  wlh_snapshot_free(snapshot);
  return value;
}

/* hostHolders(handle: External, name: string): snapshot | status; see wlh_find_holders */
napi_value call_host_holders(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  HostHandle *handle = host_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  CodeUnits name;
  if (name.Read(env, call.arguments[1]) != WLK_OK) return answer(env, WLH_NO_MEMORY);
  HostSnapshot *snapshot = nullptr;
  wlh_status status = wlh_find_holders(handle->host->agent, name.data(), name.length(), &snapshot);
  if (status != WLH_OK) return answer(env, status);
  napi_value value = snapshot_value(env, &snapshot->base, snapshot->pids);
  wlh_snapshot_free(snapshot);
  return value;
}
