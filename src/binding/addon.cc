/* The addon's functions, each one call of the core, and the table that exports them.
 *
 * lib/native.js is the only caller. Functions answer with a status number, see `constants`; the
 * ones about one request take its tag from the exchange (environment.h), and those that can cause
 * events (all but the two about snapshots and managers) leave them there. */
#include "environment.h"
#include "values.h"

#include <cstdio>
#include <cstdlib>

#if defined(WLK_CHECKS)
extern "C" long wlk_live_blocks(void); /* src/core/check.h, which is not for C++ */
#endif

namespace {

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

  bool manager(size_t index, wlk_manager **manager) const
  {
    void *data = nullptr;
    bool read = succeeded(
        environment->env, napi_get_value_external(environment->env, arguments[index], &data),
        "reading a manager");
    *manager = static_cast<wlk_manager *>(data);
    return read;
  }
};

napi_value answer(napi_env env, int32_t status)
{
  napi_value value;
  return succeeded(env, napi_create_int32(env, status, &value), "napi_create_int32") ? value
                                                                                     : nullptr;
}

/* start(clientPrefix: string, threadId: number, threadName: string, exchange: ArrayBuffer,
 *   drain: () => void): string | status
 * Makes the agent of this environment; answers its client id. */
napi_value start(napi_env env, napi_callback_info info)
{
  Call<5> call(env, info);
  if (!call.environment) return nullptr;
  if (call.environment->agent) {
    (void)napi_throw_error(env, "ERR_WEB_LOCKS_STARTED", "web-locks: started already");
    return nullptr;
  }
  char prefix[64];
  if (!succeeded(
          env, napi_get_value_string_latin1(env, call.arguments[0], prefix, sizeof prefix, nullptr),
          "reading the client prefix"))
    return nullptr;
  wlk_thread thread = {0, nullptr, 0};
  CodeUnits name;
  wlk_status status = name.Read(env, call.arguments[2]);
  if (status != WLK_OK) return answer(env, status);
  thread.name = name.data();
  thread.name_length = name.length();
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[1], &thread.id), "the thread id"))
    return nullptr;
  status =
      environment_start(call.environment, prefix, &thread, call.arguments[4], call.arguments[3]);
  if (status != WLK_OK) return answer(env, status);
  napi_value client_id;
  const char *id = wlk_agent_client_id(call.environment->agent);
  return succeeded(
             env, napi_create_string_latin1(env, id, NAPI_AUTO_LENGTH, &client_id),
             "napi_create_string_latin1")
             ? client_id
             : nullptr;
}

/* On the environment's thread, when the manager's External is collected or the environment ends. By
 * then the agent's requests on it have ended: JavaScript keeps the External while it has one, and
 * the cleanup hook comes first. */
void close_manager(napi_env, void *data, void *)
{
  wlk_manager_close(static_cast<wlk_manager *>(data));
}

/* openManager(bucket: string): External | status */
napi_value open_manager(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  CodeUnits bucket;
  wlk_status status = bucket.Read(env, call.arguments[0]);
  wlk_manager *manager = nullptr;
  if (status == WLK_OK)
    status = wlk_manager_open(call.environment->process, bucket.data(), bucket.length(), &manager);
  if (status != WLK_OK) return answer(env, status);
  napi_value external;
  if (succeeded(
          env, napi_create_external(env, manager, close_manager, nullptr, &external),
          "napi_create_external"))
    return external;
  wlk_manager_close(manager);
  return nullptr;
}

/* Answers with a snapshot's value, and frees it. */
napi_value answer_snapshot(napi_env env, wlk_snapshot *snapshot)
{
  napi_value value = snapshot_value(env, snapshot);
  wlk_snapshot_free(snapshot);
  return value;
}

/* Requests the lock named by `name_value`; the rest is in the exchange and in `extra`. */
napi_value request_with(
    napi_env env, Environment *environment, wlk_manager *manager, napi_value name_value,
    const wlk_extra *extra)
{
  uint32_t tag = environment->exchange->tag;
  wlk_mode mode = static_cast<wlk_mode>(environment->exchange->mode);
  wlk_option option = static_cast<wlk_option>(environment->exchange->option);
  CodeUnits name;
  wlk_status status = name.Read(env, name_value);
  if (status == WLK_OK && !environment_reserve(environment, tag)) status = WLK_NO_MEMORY;
  if (status != WLK_OK) return answer(env, status);

  wlk_request *request;
  wlk_snapshot *cycle = nullptr;
  status = wlk_request_a_lock(
      environment->agent, manager, name.data(), name.length(), mode, option, tag, extra, &request,
      &cycle, environment_events(environment));
  if (status == WLK_GRANTED || status == WLK_PENDING)
    environment_keep(environment, tag, request, status == WLK_PENDING);
  environment_publish(environment);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : answer(env, status);
}

/* request(manager: External, name: string): status; the rest is in the exchange */
napi_value request(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
  return request_with(env, call.environment, manager, call.arguments[1], nullptr);
}

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

/* requestExtra(manager: External, name: string, label: string, inside: Uint32Array | undefined):
 *   status | snapshot
 * As `request`; `inside`, the tags of locks, declares a request that rejects deadlocks: the answer
 * to one that closes a cycle is that cycle. The counts are in the exchange. */
napi_value request_extra(napi_env env, napi_callback_info info)
{
  Call<4> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
  wlk_extra extra = {};
  CodeUnits label;
  Inside inside;
  wlk_status status = label.Read(env, call.arguments[2]);
  if (status == WLK_OK) status = inside.Read(call.environment, call.arguments[3], &extra);
  if (status != WLK_OK) return answer(env, status);
  extra.label = label.data();
  extra.label_length = label.length();
  SetCounts(*call.environment->exchange, &extra);
  return request_with(env, call.environment, manager, call.arguments[1], &extra);
}

/* wait(timeout: number): status | snapshot
 * Blocks the thread until the request is granted, for so many milliseconds: JavaScript calls it
 * again then, if it is to. In between the engine can end the thread. The answer to a request that
 * the thread itself is in the way of is that cycle. */
napi_value wait(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t timeout;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &timeout), "the timeout"))
    return nullptr;
  uint32_t tag = environment->exchange->tag;
  wlk_request *request = environment_find(environment, tag);
  if (!request) return answer(env, WLK_NOT_HELD);
  wlk_snapshot *cycle = nullptr;
  wlk_status status =
      wlk_wait_for_the_lock(request, timeout, &cycle, environment_events(environment));
  if (status == WLK_GRANTED)
    environment_granted(environment, tag);
  else if (status != WLK_PENDING)
    environment_forget(environment, tag);
  environment_publish(environment);
  return status == WLK_DEADLOCK ? answer_snapshot(env, cycle) : answer(env, status);
}

/* release(): status */
napi_value release(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  wlk_request *lock = environment_find(environment, tag);
  if (!lock) return answer(env, WLK_NOT_HELD);
  wlk_status status = wlk_release_the_lock(lock, environment_events(environment));
  if (status != WLK_NOT_HELD) environment_forget(environment, tag);
  environment_publish(environment);
  return answer(env, status);
}

/* abort(): status */
napi_value abort_request(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  Environment *environment = call.environment;
  uint32_t tag = environment->exchange->tag;
  wlk_request *request = environment_find(environment, tag);
  if (!request) return answer(env, WLK_NOT_HELD);
  wlk_status status = wlk_abort_the_request(request, environment_events(environment));
  if (status == WLK_OK) environment_forget(environment, tag);
  environment_publish(environment);
  return answer(env, status);
}

/* undo(tag: number): status
 * Ends a request whatever it is, see environment_undo: for JavaScript whose stack was full when it
 * was about to take note of a request. A tag of nothing is fine. */
napi_value undo(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  uint32_t tag;
  if (!succeeded(env, napi_get_value_uint32(env, call.arguments[0], &tag), "reading a tag"))
    return nullptr;
  environment_undo(call.environment, tag);
  return answer(env, WLK_OK);
}

/* drain(woken: boolean): status */
napi_value drain(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  bool woken;
  if (!succeeded(env, napi_get_value_bool(env, call.arguments[0], &woken), "reading a boolean"))
    return nullptr;
  wlk_agent_take_events(call.environment->agent, woken, environment_events(call.environment));
  environment_publish(call.environment);
  return answer(env, WLK_OK);
}

/* snapshot(manager: External): snapshot | status; see values.h */
napi_value snapshot(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
  wlk_snapshot *state;
  wlk_status status = wlk_snapshot_the_lock_state(manager, &state);
  return status == WLK_OK ? answer_snapshot(env, state) : answer(env, status);
}

/* snapshotOf(manager: External, name: string, pending: boolean): snapshot | status
 * What is on one name: the locks held and, if asked for, the requests that wait. */
napi_value snapshot_of(napi_env env, napi_callback_info info)
{
  Call<3> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  wlk_manager *manager;
  if (!call.manager(0, &manager)) return nullptr;
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

#if defined(WLK_CHECKS)
/* liveBlocks(): number. For tests, in checked builds only. */
napi_value live_blocks(napi_env env, napi_callback_info)
{
  return answer(env, static_cast<int32_t>(wlk_live_blocks()));
}
#endif

struct Function {
  const char *name;
  napi_callback callback;
};

const Function kFunctions[] = {
    {"start", start},
    {"openManager", open_manager},
    {"request", request},
    {"requestExtra", request_extra},
    {"wait", wait},
    {"release", release},
    {"abort", abort_request},
    {"undo", undo},
    {"drain", drain},
    {"snapshot", snapshot},
    {"snapshotOf", snapshot_of},
#if defined(WLK_CHECKS)
    {"liveBlocks", live_blocks},
#endif
};

struct Constant {
  const char *name;
  int32_t value;
};

/* The numbers that JavaScript and the core exchange. */
const Constant kConstants[] = {
#define STATUS(name, message) {#name, name},
    WLK_STATUS_LIST(STATUS)
#undef STATUS
        {"CLOSED", STATUS_CLOSED},
    {"WLK_EXCLUSIVE", WLK_EXCLUSIVE},
    {"WLK_SHARED", WLK_SHARED},
    {"WLK_WAIT", WLK_WAIT},
    {"WLK_IF_AVAILABLE", WLK_IF_AVAILABLE},
    {"WLK_STEAL", WLK_STEAL},
    {"WLK_NEWS_GRANTED", WLK_NEWS_GRANTED},
    {"WLK_NEWS_STOLEN", WLK_NEWS_STOLEN},
};

bool define_functions(napi_env env, napi_value exports, Environment *environment)
{
  for (const Function &function : kFunctions) {
    napi_value value;
    if (!succeeded(
            env,
            napi_create_function(
                env, function.name, NAPI_AUTO_LENGTH, function.callback, environment, &value),
            "napi_create_function") ||
        !succeeded(
            env, napi_set_named_property(env, exports, function.name, value),
            "napi_set_named_property"))
      return false;
  }
  return true;
}

bool define_constants(napi_env env, napi_value exports)
{
  for (const Constant &constant : kConstants) {
    napi_value value = answer(env, constant.value);
    if (!value || !succeeded(
                      env, napi_set_named_property(env, exports, constant.name, value),
                      "napi_set_named_property"))
      return false;
  }
  return true;
}

/* Throws why the lock state of this process cannot be shared. */
void throw_cannot_join(napi_env env, wlk_status status, const wlk_process *other)
{
  char own_path[1024], other_path[1024], message[2400];
  wlk_process_path(nullptr, own_path, sizeof own_path);
  wlk_process_path(other, other_path, sizeof other_path);
  if (status == WLK_OTHER_VERSION)
    (void)snprintf(
        message, sizeof message,
        "web-locks: two copies of the package with incompatible cores are loaded into this "
        "process: %s was loaded first, %s cannot share its locks. Install one version of "
        "web-locks.",
        other_path, own_path);
  else
    (void)snprintf(
        message, sizeof message, "web-locks: %s (%s)", wlk_status_message(status), own_path);
  (void)succeeded(
      env, napi_throw_error(env, "ERR_WEB_LOCKS_INCOMPATIBLE", message), "napi_throw_error");
}

void free_environment(napi_env, void *data, void *)
{
  environment_free(static_cast<Environment *>(data));
}

Napi::Object Init(Napi::Env env, Napi::Object exports)
{
  wlk_process *process = nullptr;
  wlk_status status = wlk_process_join(&process);
  if (status != WLK_OK) {
    throw_cannot_join(env, status, process);
    return exports;
  }
  Environment *environment = static_cast<Environment *>(calloc(1, sizeof *environment));
  if (!environment) {
    (void)napi_throw_error(env, "ERR_WEB_LOCKS_NO_MEMORY", "web-locks: out of memory");
    return exports;
  }
  environment->env = env;
  environment->process = process;
  if (!succeeded(
          env, napi_set_instance_data(env, environment, free_environment, nullptr),
          "napi_set_instance_data")) {
    environment_free(environment);
    return exports;
  }
  if (define_functions(env, exports, environment)) (void)define_constants(env, exports);
  return exports;
}

} // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
