/* The calls about one request, in either scope. They leave the status in the exchange. */
#include "scope.h"

#include <cstdlib>

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

/* Everything but the name is in the exchange and in `extra`. Returns the cycle on WLK_DEADLOCK. */
napi_value request_with(
    napi_env env, Environment *environment, const Handle *handle, napi_value name_value,
    const wlk_extra *extra)
{
  const Exchange *exchange = environment->exchange;
  uint32_t tag = exchange->tag;
  CodeUnits name;
  if (name.Read(env, name_value) != WLK_OK || !environment_reserve(environment, tag))
    return set_status(environment, WLK_NO_MEMORY);
  const Wanted wanted = {
      name.data(),
      name.length(),
      static_cast<wlk_mode>(exchange->mode),
      static_cast<wlk_option>(exchange->option),
      tag,
      extra};
  void *request;
  wlk_snapshot *cycle = nullptr;
  int32_t status = call_scope<&Scope::request>(
      handle->scope, environment, handle->bucket, wanted, &request, &cycle,
      environment_events(environment));
  if (status == WLK_GRANTED || status == WLK_PENDING)
    environment_keep(environment, tag, handle->scope, request, status == WLK_PENDING);
  environment_publish(environment, handle->scope);
  (void)set_status(environment, status);
  return cycle ? answer_snapshot(env, cycle) : nullptr;
}

/* The effect of a call on the slot of its request. */
enum Outcome : uint8_t {
  STAYS,   /* no change */
  GRANTED, /* JavaScript no longer waits for an event */
  AWAITED, /* JavaScript waits for an event */
  ENDED
};

/* Calls `Act` of the scope for the request whose tag is in the exchange, applies
 * `outcome_of(status)`, and hands the events over. The status is WLK_NOT_HELD if no request has the
 * tag. */
template <auto Act, typename OutcomeOf, typename... Arguments>
napi_value on_request(Environment *environment, OutcomeOf outcome_of, Arguments... arguments)
{
  if (!ensure_open(environment)) return nullptr;
  uint32_t tag = environment->exchange->tag;
  const Slot *slot = environment_find_request(environment, tag);
  if (!slot) return set_status(environment, WLK_NOT_HELD);
  SlotKind kind = slot->kind;
  wlk_events *events = environment_events(environment);
  int32_t status = call_scope<Act>(kind, slot->thing, arguments..., events);
  Outcome outcome = outcome_of(status);
  if (outcome == ENDED)
    environment_forget(environment, tag);
  else if (outcome != STAYS)
    environment_set_pending(environment, tag, outcome == AWAITED);
  environment_publish(environment, kind);
  return set_status(environment, status);
}

Outcome outcome_of_wait(int32_t status)
{
  return status == WLK_GRANTED ? GRANTED : status == WLK_PENDING ? STAYS : ENDED;
}

Outcome outcome_of_release(int32_t status)
{
  return status == WLK_PENDING ? AWAITED : status == WLK_NOT_HELD ? STAYS : ENDED;
}

} // namespace

/* request(handle: External, name: string): undefined
 * Its other arguments are in the exchange. */
napi_value call_request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  const Handle *handle = open_handle(call);
  if (!handle) return set_status(call.environment, WLH_CLOSED);
  return request_with(env, call.environment, handle, call.arguments[1], nullptr);
}

/* requestExtra(handle: External, name: string, label: string, inside: Uint32Array | undefined):
 *   undefined | snapshot
 * The exchange also has limit, weight, maxPending and priority. `inside`, if given, has the tags of
 * the enclosing locks: a request that would close a cycle then fails, and the call returns that
 * cycle. The host scope does not take `inside`. */
napi_value call_request_extra(napi_env env, napi_callback_info info)
{
  Call<4> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  const Handle *handle = open_handle(call);
  if (!handle) return set_status(call.environment, WLH_CLOSED);
  wlk_extra extra = {};
  CodeUnits label;
  Inside inside;
  wlk_status status = label.Read(env, call.arguments[2]);
  if (status == WLK_OK) status = inside.Read(call.environment, call.arguments[3], &extra);
  if (status != WLK_OK) return set_status(call.environment, status);
  extra.label = label.data();
  extra.label_length = label.length();
  SetCounts(*call.environment->exchange, &extra);
  return request_with(env, call.environment, handle, call.arguments[1], &extra);
}

/* wait(timeout: number): undefined | snapshot
 * Blocks the thread until the request is granted, or for `timeout` milliseconds. JavaScript calls
 * `wait` repeatedly with a short timeout, because Node.js can end a worker only between two calls.
 * If the thread would wait for itself, the status is WLK_DEADLOCK; in the scope of the process, the
 * call returns that cycle. */
napi_value call_wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  uint64_t timeout;
  if (!read_time(env, call.arguments[0], &timeout)) return nullptr;
  wlk_snapshot *cycle = nullptr;
  (void)on_request<&Scope::wait>(call.environment, outcome_of_wait, timeout, &cycle);
  return cycle ? answer_snapshot(env, cycle) : nullptr;
}

/* release(): undefined. On WLK_PENDING, the event loop stays alive until the event. */
napi_value call_release(napi_env env, napi_callback_info)
{
  return on_request<&Scope::release>(environment_of(env), outcome_of_release);
}

/* releaseAndMark(keep: number): undefined
 * Works as `release`, and marks the name for `keep` milliseconds, or for ever if negative. */
napi_value call_release_and_mark(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  int64_t time;
  if (!succeeded(env, napi_get_value_int64(env, call.arguments[0], &time), "reading a time"))
    return nullptr;
  uint64_t keep = time < 0 ? UINT64_MAX : static_cast<uint64_t>(time);
  return on_request<&Scope::release_and_mark>(call.environment, outcome_of_release, keep);
}

/* isMarked(): undefined. The status is WLK_MARKED or WLK_OK, unless that is unknown. */
napi_value call_is_marked(napi_env env, napi_callback_info)
{
  auto outcome_of = [](int32_t status) { return status == WLK_STOLEN ? ENDED : STAYS; };
  return on_request<&Scope::is_marked>(environment_of(env), outcome_of);
}

/* publish(text: string): undefined; '' removes what was published. If the status is WLK_PENDING,
 * nothing was done, and hostPublishLater may be called. */
napi_value call_publish(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!ensure_open(call.environment)) return nullptr;
  CodeUnits text;
  wlk_status read = text.Read(env, call.arguments[0]);
  if (read != WLK_OK) return set_status(call.environment, read);
  auto outcome_of = [](int32_t) { return STAYS; };
  return on_request<&Scope::publish>(call.environment, outcome_of, text.data(), text.length());
}

/* abort(): undefined. If the status is WLK_GRANTED, only a release ends the request. */
napi_value call_abort(napi_env env, napi_callback_info)
{
  auto outcome_of = [](int32_t status) { return status == WLK_GRANTED ? STAYS : ENDED; };
  return on_request<&Scope::abort>(environment_of(env), outcome_of);
}

/* end(): undefined. Ends the request in any state. */
napi_value call_end(napi_env env, napi_callback_info)
{
  return on_request<&Scope::end>(environment_of(env), [](int32_t) { return ENDED; });
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
