/* The scope of the process: the lock core. */
#include "scope.h"

namespace {

void close_manager(void *manager)
{
  wlk_manager_close(static_cast<wlk_manager *>(manager));
}

/* Converts the snapshot and frees it, or returns the status. */
napi_value answer_state(napi_env env, wlk_status status, wlk_snapshot *state)
{
  return status == WLK_OK ? answer_snapshot(env, state) : answer(env, status);
}

napi_value holders(napi_env env, void *manager, const CodeUnits &name)
{
  wlk_snapshot *state = nullptr;
  wlk_status status = wlk_snapshot_a_name(
      static_cast<wlk_manager *>(manager), name.data(), name.length(), false, &state);
  return answer_state(env, status, state);
}

int32_t request(
    Environment *environment, void *manager, const Wanted &wanted, void **made,
    wlk_snapshot **cycle, wlk_events *events)
{
  wlk_request *request = nullptr;
  wlk_status status = wlk_request_a_lock(
      environment->agent, static_cast<wlk_manager *>(manager), wanted.name, wanted.length,
      wanted.mode, wanted.option, wanted.tag, wanted.extra, &request, cycle, events);
  *made = request;
  return status;
}

int32_t publish(void *lock, const uint16_t *text, uint32_t length, wlk_events *)
{
  return wlk_publish(static_cast<wlk_request *>(lock), text, length);
}

/* A lock that was stolen stays, as a held one does. */
int32_t abort_the_request(void *request, wlk_events *events)
{
  wlk_status status = wlk_abort_the_request(static_cast<wlk_request *>(request), events);
  return status == WLK_STOLEN ? WLK_GRANTED : status;
}

/* Takes events, so that what this grants to the same thread needs no wake-up. */
int32_t end(void *request, wlk_events *events)
{
  if (abort_the_request(request, events) != WLK_OK)
    (void)wlk_release_the_lock(static_cast<wlk_request *>(request), events);
  return WLK_OK;
}

} // namespace

const Scope kProcessScope = {
    close_manager,
    holders,
    request,
    adapted<wlk_request, wlk_wait_for_the_lock>,
    adapted<wlk_request, wlk_release_the_lock>,
    adapted<wlk_request, wlk_release_and_mark>,
    adapted<wlk_request, wlk_prepare_mark>,
    publish,
    abort_the_request,
    end,
};

/* openManager(bucket: string): External | status */
napi_value call_open_manager(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  CodeUnits bucket;
  wlk_manager *manager = nullptr;
  wlk_status status = bucket.Read(env, call.arguments[0]);
  if (status == WLK_OK)
    status = wlk_manager_open(call.environment->process, bucket.data(), bucket.length(), &manager);
  return status == WLK_OK ? make_handle(env, SLOT_CORE, manager) : answer(env, status);
}

/* snapshot(handle: External, name: string | undefined): snapshot | status
 * Returns the state of one name or of all; see values.h. */
napi_value call_snapshot(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  Handle *handle = open_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  CodeUnits name;
  bool named;
  if (!name.ReadOptional(env, call.arguments[1], &named)) return answer(env, WLK_NO_MEMORY);
  wlk_manager *manager = static_cast<wlk_manager *>(handle->bucket);
  wlk_snapshot *state = nullptr;
  wlk_status status = named ? wlk_snapshot_a_name(manager, name.data(), name.length(), true, &state)
                            : wlk_snapshot_the_lock_state(manager, &state);
  return answer_state(env, status, state);
}
