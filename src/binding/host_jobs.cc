/* The jobs of the host scope. A job begins with a call that returns WLH_PENDING; an event with the
 * tag that the exchange had in that call completes it. */
#include "host.h"

/* Calls `start` with the tag of the new job; it returns the status. */
template <typename Start>
static napi_value start_job(Environment *environment, HostClient *client, Start start)
{
  uint32_t tag = environment->exchange->tag;
  if (!environment_reserve(environment, tag)) return answer(environment->env, WLH_NO_MEMORY);
  wlh_status status = start(tag);
  if (status == WLH_PENDING) environment_keep(environment, tag, SLOT_JOB, client, true);
  return answer(environment->env, status);
}

/* hostReady(handle: External): status. Opens the bucket's file. */
napi_value call_host_ready(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  HostAgent *host = host_of(call);
  if (!host) return answer(env, WLH_CLOSED);
  return start_job(call.environment, host->agent, [host](uint32_t tag) {
    return wlh_bucket_open_file(host->agent, tag);
  });
}

/* hostPublishLater(lock: number, text: string): status; `lock` is the tag of the lock. */
napi_value call_host_publish_later(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint32_t lock_tag;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &lock_tag), "reading a tag"))
    return nullptr;
  HostRequest *lock = environment_find_host(call.environment, lock_tag);
  if (!lock) return answer(env, WLH_NOT_HELD);
  CodeUnits text;
  if (text.Read(env, call.arguments[1]) != WLK_OK) return answer(env, WLH_NO_MEMORY);
  return start_job(call.environment, wlh_agent_of(lock), [lock, &text](uint32_t tag) {
    return wlh_publish_later(lock, text.data(), text.length(), tag);
  });
}

/* hostSnapshot(handle: External, name: string | undefined): status
 * Begins a snapshot of one name or of all, which hostTakeSnapshot returns after the event. */
napi_value call_host_snapshot(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  HostAgent *host = host_of(call);
  if (!host) return answer(env, WLH_CLOSED);
  CodeUnits name;
  bool named;
  if (!name.ReadOptional(env, call.arguments[1], &named)) return answer(env, WLH_NO_MEMORY);
  return start_job(call.environment, host->agent, [host, named, &name](uint32_t tag) {
    return wlh_start_snapshot(
        host->agent, named ? name.data() : nullptr, named ? name.length() : UINT32_MAX, true, tag);
  });
}

/* hostWaitForSnapshot(handle: External, timeout: number): status
 * Blocks until the snapshot with the tag in the exchange is ready, at most for `timeout` ms. */
napi_value call_host_wait_for_snapshot(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  HostAgent *host = host_of(call);
  if (!host) return answer(env, WLH_CLOSED);
  uint64_t timeout;
  if (!read_time(env, call.arguments[1], &timeout)) return nullptr;
  wlh_wait_for_job(
      host->agent, call.environment->exchange->tag, timeout, environment_events(call.environment));
  environment_publish(call.environment, SLOT_HOST);
  return answer(env, WLH_OK);
}

/* hostTakeSnapshot(handle: External): snapshot | status */
napi_value call_host_take_snapshot(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  HostAgent *host = host_of(call);
  if (!host) return answer(env, WLH_CLOSED);
  HostSnapshot *snapshot = nullptr;
  wlh_status status = wlh_fetch_snapshot(host->agent, call.environment->exchange->tag, &snapshot);
  return answer_host_snapshot(env, status, snapshot);
}

/* hostEndJob(): status. Cancels the job with the tag in the exchange. */
napi_value call_host_end_job(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint32_t tag = call.environment->exchange->tag;
  HostClient *client = environment_find_job(call.environment, tag);
  if (client) {
    wlh_cancel_job(client, tag);
    environment_forget(call.environment, tag);
  }
  return answer(env, WLH_OK);
}
