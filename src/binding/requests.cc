/* The calls about one request. A call that does not return its status leaves it in the exchange. */
#include "requests.h"

#include <cstdlib>

/* Everything but the name is in the exchange and in `extra`. Leaves the status in the exchange, and
 * returns the cycle on WLK_DEADLOCK, else undefined. */
static napi_value request_with(
    napi_env env, Environment *environment, wlk_manager *manager, napi_value name,
    const wlk_extra *extra)
{
  Wanted wanted;
  if (!wanted.Read(environment, name)) return set_status(environment, WLK_NO_MEMORY);
  wlk_request *request;
  wlk_snapshot *cycle = nullptr;
  wlk_status status = wlk_request_a_lock(
      environment->agent, manager, wanted.name.data(), wanted.name.length(), wanted.mode,
      wanted.option, wanted.tag, extra, &request, &cycle, environment_events(environment));
  if (status == WLK_GRANTED || status == WLK_PENDING)
    environment_keep(environment, wanted.tag, SLOT_CORE, request, status == WLK_PENDING);
  environment_publish(environment, SLOT_CORE);
  (void)set_status(environment, status);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : nullptr;
}

/* request(manager: External, name: string): undefined
 * Its other arguments and the status are in the exchange. */
napi_value call_request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  wlk_manager *manager;
  if (!call.manager(&manager)) return nullptr;
  if (!manager) return set_status(call.environment, STATUS_CLOSED);
  return request_with(env, call.environment, manager, call.arguments[1], nullptr);
}

namespace {

class Inside {
public:
  Inside() = default;
  Inside(const Inside &) = delete;
  Inside &operator=(const Inside &) = delete;
  ~Inside() { free(requests_); }

  /* Sets `inside` and `reject_deadlock` from `value`, a Uint32Array of tags; any other value sets
   * nothing. Requests that have ended are skipped. */
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

/* Limits the numbers from JavaScript to the range that the core requires. */
void SetCounts(const Exchange &exchange, wlk_extra *extra)
{
  extra->limit = exchange.limit < WLK_UNITS_MOST ? exchange.limit : WLK_UNITS_MOST;
  extra->weight = exchange.weight < extra->limit ? exchange.weight : extra->limit;
  if (extra->weight == 0) extra->weight = extra->limit > 0;
  extra->bounded = exchange.max_pending != UINT32_MAX;
  extra->max_pending = exchange.max_pending;
  extra->priority = exchange.priority;
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
 * The exchange also has limit, weight, maxPending and priority. `inside`, if given, has the tags of
 * the enclosing locks: a request that would close a cycle then fails, and the call returns that
 * cycle. */
napi_value call_request_extra(napi_env env, napi_callback_info info)
{
  Call<4> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  wlk_manager *manager;
  if (!call.manager(&manager)) return nullptr;
  if (!manager) return set_status(call.environment, STATUS_CLOSED);
  wlk_extra extra = {};
  CodeUnits label;
  Inside inside;
  wlk_status status = read_extra(env, call.environment, call.arguments[2], &label, &extra);
  if (status == WLK_OK) status = inside.Read(call.environment, call.arguments[3], &extra);
  if (status != WLK_OK) return set_status(call.environment, status);
  return request_with(env, call.environment, manager, call.arguments[1], &extra);
}

/* wait(timeout: number): undefined | snapshot
 * Blocks the thread until the request is granted, or for `timeout` milliseconds. JavaScript calls
 * `wait` repeatedly with a short timeout, because Node.js can end a worker only between two calls.
 * If the thread would wait for itself, returns that cycle. */
napi_value call_wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  Environment *environment = call.environment;
  uint64_t timeout;
  if (!read_time(env, call.arguments[0], &timeout)) return nullptr;
  wlk_snapshot *cycle = nullptr;
  int32_t status = on_request<OfProcess>(
      environment, [timeout, &cycle](wlk_request *request, wlk_events *events, Outcome *outcome) {
        wlk_status answer = wlk_wait_for_the_lock(request, timeout, &cycle, events);
        *outcome = answer == WLK_GRANTED ? GRANTED : answer == WLK_PENDING ? STAYS : ENDED;
        return answer;
      });
  (void)set_status(environment, status);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : nullptr;
}

/* release(): undefined. The tag of the lock and the status are in the exchange. */
napi_value call_release(napi_env env, napi_callback_info)
{
  Environment *environment = environment_of(env);
  if (!ensure_open(environment)) return nullptr;
  int32_t status = on_request<OfProcess>(
      environment, [](wlk_request *lock, wlk_events *events, Outcome *outcome) {
        wlk_status answer = wlk_release_the_lock(lock, events);
        *outcome = answer == WLK_NOT_HELD ? STAYS : ENDED;
        return answer;
      });
  return set_status(environment, status);
}

/* isMarked(): status; see wlk_prepare_mark */
napi_value call_is_marked(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  int32_t status = on_request<OfProcess>(
      call.environment, [](wlk_request *lock, wlk_events *events, Outcome *outcome) {
        wlk_status answer = wlk_prepare_mark(lock, events);
        *outcome = answer == WLK_STOLEN ? ENDED : STAYS;
        return answer;
      });
  return answer(env, status);
}

/* releaseAndMark(keep: number): status; `keep` in milliseconds */
napi_value call_release_and_mark(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint64_t keep;
  if (!read_time(env, call.arguments[0], &keep)) return nullptr;
  int32_t status = on_request<OfProcess>(
      call.environment, [keep](wlk_request *lock, wlk_events *events, Outcome *outcome) {
        wlk_status answer = wlk_release_and_mark(lock, keep, events);
        *outcome = answer == WLK_NOT_HELD ? STAYS : ENDED;
        return answer;
      });
  return answer(env, status);
}

/* publish(text: string): status; '' removes what was published. */
napi_value call_publish(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  CodeUnits text;
  wlk_status read = text.Read(env, call.arguments[0]);
  if (read != WLK_OK) return answer(env, read);
  int32_t status = on_request<OfProcess>(
      call.environment, [&text](wlk_request *lock, wlk_events *events, Outcome *) {
        events->count = 0;
        return wlk_publish(lock, text.data(), text.length());
      });
  return answer(env, status);
}

/* abort(): undefined. The tag of the request and the status are in the exchange. */
napi_value call_abort(napi_env env, napi_callback_info)
{
  Environment *environment = environment_of(env);
  if (!ensure_open(environment)) return nullptr;
  int32_t status = on_request<OfProcess>(
      environment, [](wlk_request *request, wlk_events *events, Outcome *outcome) {
        wlk_status answer = wlk_abort_the_request(request, events);
        *outcome = answer == WLK_OK ? ENDED : STAYS;
        return answer;
      });
  return set_status(environment, status);
}

/* undo(tag: number): status; see environment_undo. The tag need not be in use. */
napi_value call_undo(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  uint32_t tag;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &tag), "reading a tag"))
    return nullptr;
  environment_undo(call.environment, tag);
  return answer(env, WLK_OK);
}
