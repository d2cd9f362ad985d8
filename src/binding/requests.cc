/* Calls about one request. All but `undo` leave their status in the exchange. */
#include "calls.h"
#include "values.h"

#include <cstdlib>

/* Requests the lock named by `name_value`; the rest is in the exchange and in `extra`. */
static napi_value request_with(
    napi_env env, Environment *environment, wlk_manager *manager, napi_value name_value,
    const wlk_extra *extra)
{
  uint32_t tag = environment->exchange->tag;
  wlk_mode mode = static_cast<wlk_mode>(environment->exchange->mode);
  wlk_option option = static_cast<wlk_option>(environment->exchange->option);
  CodeUnits name;
  wlk_status status = name.Read(env, name_value);
  if (status == WLK_OK && !environment_reserve(environment, tag)) status = WLK_NO_MEMORY;
  if (status != WLK_OK) return leave(environment, status);

  wlk_request *request;
  wlk_snapshot *cycle = nullptr;
  status = wlk_request_a_lock(
      environment->agent, manager, name.data(), name.length(), mode, option, tag, extra, &request,
      &cycle, environment_events(environment));
  if (status == WLK_GRANTED || status == WLK_PENDING)
    environment_keep(environment, tag, request, status == WLK_PENDING);
  environment_publish(environment);
  (void)leave(environment, status);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : nullptr;
}

/* request(manager: External, name: string): undefined; the rest is in the exchange */
napi_value call_request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!is_open(call.environment)) return nullptr;
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
  return request_with(env, call.environment, manager, call.arguments[1], nullptr);
}

namespace {

/* What `requestExtra` was given as its last argument, as requests. */
class Inside {
public:
  Inside() = default;
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  ~Inside() { free(requests_); }

  /* Finds the requests with the tags in `value`, a Uint32Array; those that ended are left out. */
  wlk_status Read(const Environment *environment, napi_value value, wlk_extra *extra)
  {
    napi_typedarray_type type;
    size_t length = 0;
    void *data = nullptr;
    if (napi_get_typedarray_info(
            environment->env, value, &type, &length, &data, nullptr, nullptr) != napi_ok ||
        type != napi_uint32_array)
      return WLK_OK;
    extra->reject_deadlock = true;
    requests_ = static_cast<wlk_request **>(calloc(length + 1, sizeof *requests_));
    if (!requests_) return WLK_NO_MEMORY;
    const uint32_t *tags = static_cast<const uint32_t *>(data);
    for (size_t i = 0; i < length; i++) {
      wlk_request *lock = environment_find(environment, tags[i]);
      if (lock) requests_[extra->inside_count++] = lock;
    }
    extra->inside = requests_;
    return WLK_OK;
  }

private:
  wlk_request **requests_ = nullptr;
};

/* Whatever numbers there are, they come out as the core takes them. */
void SetCounts(const Exchange &exchange, wlk_extra *extra)
{
  extra->limit = exchange.limit < WLK_UNITS_MOST ? exchange.limit : WLK_UNITS_MOST;
  extra->weight = exchange.weight < extra->limit ? exchange.weight : extra->limit;
  if (extra->weight == 0) extra->weight = extra->limit > 0;
  extra->bounded = exchange.max_pending != UINT32_MAX;
  extra->max_pending = exchange.max_pending;
}

} // namespace

wlk_status read_extra(
    napi_env env, const Environment *environment, napi_value value, CodeUnits *label,
    wlk_extra *extra)
{
  wlk_status status = label->Read(env, value);
  if (status != WLK_OK) return status;
  extra->label = label->data();
  extra->label_length = label->length();
  SetCounts(*environment->exchange, extra);
  return WLK_OK;
}

/* requestExtra(manager: External, name: string, label: string, inside: Uint32Array | undefined):
 *   undefined | snapshot
 * As `request`; `inside`, the tags of locks, declares a request that rejects deadlocks: the answer
 * to one that closes a cycle is that cycle. The counts are in the exchange. */
napi_value call_request_extra(napi_env env, napi_callback_info info)
{
  Call<4> call(env, info);
  if (!is_open(call.environment)) return nullptr;
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
  wlk_extra extra = {};
  CodeUnits label;
  Inside inside;
  wlk_status status = read_extra(env, call.environment, call.arguments[2], &label, &extra);
  if (status == WLK_OK) status = inside.Read(call.environment, call.arguments[3], &extra);
  if (status != WLK_OK) return leave(call.environment, status);
  return request_with(env, call.environment, manager, call.arguments[1], &extra);
}

/* wait(timeout: number): undefined | snapshot
 * Blocks the thread until the request is granted, for so many milliseconds: JavaScript calls it
 * again then, if it is to. In between the engine can end the thread. The answer to a request that
 * the thread itself is in the way of is that cycle. */
napi_value call_wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!is_open(call.environment)) return nullptr;
  Environment *environment = call.environment;
  uint32_t timeout;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &timeout), "the timeout"))
    return nullptr;
  uint32_t tag = environment->exchange->tag;
  wlk_request *request = environment_find(environment, tag);
  if (!request) return leave(environment, WLK_NOT_HELD);
  wlk_snapshot *cycle = nullptr;
  wlk_status status =
      wlk_wait_for_the_lock(request, timeout, &cycle, environment_events(environment));
  if (status == WLK_GRANTED)
    environment_granted(environment, tag);
  else if (status != WLK_PENDING)
    environment_forget(environment, tag);
  environment_publish(environment);
  (void)leave(environment, status);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : nullptr;
}

/* release(): undefined */
napi_value call_release(napi_env env, napi_callback_info)
{
  Environment *environment = environment_of(env);
  if (!is_open(environment)) return nullptr;
  uint32_t tag = environment->exchange->tag;
  wlk_request *lock = environment_find(environment, tag);
  if (!lock) return leave(environment, WLK_NOT_HELD);
  wlk_status status = wlk_release_the_lock(lock, environment_events(environment));
  if (status != WLK_NOT_HELD) environment_forget(environment, tag);
  environment_publish(environment);
  return leave(environment, status);
}

/* isMarked(): status */
napi_value call_is_marked(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  wlk_request *lock = environment_find(environment, tag);
  if (!lock) return answer(env, WLK_NOT_HELD);
  wlk_status status = wlk_is_marked(lock, environment_events(environment));
  if (status == WLK_STOLEN) environment_forget(environment, tag);
  environment_publish(environment);
  return answer(env, status);
}

/* releaseAndMark(keep: number): status; `keep` in milliseconds */
napi_value call_release_and_mark(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  wlk_request *lock = environment_find(environment, tag);
  if (!lock) return answer(env, WLK_NOT_HELD);
  int64_t keep;
  if (!succeeded(env, napi_get_value_int64(env, call.arguments[0], &keep), "reading a time"))
    return nullptr;
  wlk_status status = wlk_release_and_mark(
      lock, keep > 0 ? static_cast<uint64_t>(keep) : 0, environment_events(environment));
  if (status != WLK_NOT_HELD) environment_forget(environment, tag);
  environment_publish(environment);
  return answer(env, status);
}

/* abort(): undefined */
napi_value call_abort(napi_env env, napi_callback_info)
{
  Environment *environment = environment_of(env);
  if (!is_open(environment)) return nullptr;
  uint32_t tag = environment->exchange->tag;
  wlk_request *request = environment_find(environment, tag);
  if (!request) return leave(environment, WLK_NOT_HELD);
  wlk_status status = wlk_abort_the_request(request, environment_events(environment));
  if (status == WLK_OK) environment_forget(environment, tag);
  environment_publish(environment);
  return leave(environment, status);
}

/* undo(tag: number): status
 * Ends a request whatever it is, see environment_undo: for JavaScript whose stack was full when it
 * was about to take note of a request. A tag of nothing is fine. */
napi_value call_undo(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  uint32_t tag;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &tag), "reading a tag"))
    return nullptr;
  environment_undo(call.environment, tag);
  return answer(env, WLK_OK);
}
