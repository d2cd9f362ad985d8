/* The addon's table of functions and constants, and the calls about agents and events. */
#include "calls.h"
#include "host.h"
#include "process_group.h"
#include "values.h"

#include <cstdio>
#include <cstdlib>

#if defined(WLK_CHECKS)
extern "C" long wlk_live_blocks(void); /* src/core/alloc.h is not for C++. */
#endif

napi_value answer(napi_env env, int32_t status)
{
  napi_value value;
  return succeeded(env, napi_create_int32(env, status, &value), "napi_create_int32") ? value
                                                                                     : nullptr;
}

napi_value set_status(Environment *environment, int32_t status)
{
  environment->exchange->status = static_cast<uint32_t>(status);
  return nullptr;
}

Environment *environment_of(napi_env env)
{
  void *data = nullptr;
  bool read = succeeded(env, napi_get_instance_data(env, &data), "napi_get_instance_data");
  return read ? static_cast<Environment *>(data) : nullptr;
}

namespace {

/* start(clientPrefix: string, threadId: number, threadName: string, exchange: ArrayBuffer,
 *   drain: () => void): string | status
 * Returns the client id of the agent that it creates for this environment. */
napi_value start(napi_env env, napi_callback_info info)
{
  Call<5> call(env, info);
  if (!call.environment) return nullptr;
  if (call.environment->agent) {
    (void)napi_throw_error(
        env, "ERR_WEB_LOCKS_STARTED",
        "web-locks: the addon has already been started in this thread. This is a bug in web-locks; "
        "please report it.");
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
  if (!succeeded(
          env, napi_get_value_uint32(env, call.arguments[1], &thread.id), "reading the thread id"))
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

/* drain(woken: boolean): status
 * Takes the events of the core and of the host scope into the exchange, as many as fit. */
napi_value drain(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  bool woken;
  if (!succeeded(env, napi_get_value_bool(env, call.arguments[0], &woken), "reading a boolean"))
    return nullptr;
  wlk_agent_take_events(call.environment->agent, woken, environment_events(call.environment));
  environment_publish(call.environment, SLOT_CORE);
  if (call.environment->hosts) host_take_events(call.environment);
  return answer(env, WLK_OK);
}

/* continuousNow(): number of milliseconds, see wlk_continuous_now. This call and the next four need
 * no agent. */
napi_value continuous_now(napi_env env, napi_callback_info)
{
  napi_value value;
  return succeeded(env, napi_create_double(env, wlk_continuous_now(), &value), "napi_create_double")
             ? value
             : nullptr;
}

/* keepProcessGroup(endsWithUs: boolean): undefined; see process_group.h */
napi_value call_keep_process_group(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  bool ends_with_us;
  if (succeeded(
          env, napi_get_value_bool(env, call.arguments[0], &ends_with_us), "reading a boolean"))
    keep_process_group(ends_with_us);
  return nullptr;
}

/* endProcessGroup(): undefined; see process_group.h */
napi_value call_end_process_group(napi_env, napi_callback_info)
{
  end_process_group();
  return nullptr;
}

/* watchChild(child: number): undefined; see process_group.h */
napi_value call_watch_child(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  int32_t child;
  if (succeeded(env, napi_get_value_int32(env, call.arguments[0], &child), "reading a number"))
    watch_child(child);
  return nullptr;
}

/* signalOfChild(): number; see signal_that_ended_child */
napi_value call_signal_of_child(napi_env env, napi_callback_info)
{
  return answer(env, signal_that_ended_child());
}

#if defined(WLK_CHECKS)
/* liveBlocks(): number. First frees the memory that this thread keeps for its next requests. */
napi_value live_blocks(napi_env env, napi_callback_info info)
{
  Call<0> call(env, info);
  if (call.is_open()) wlk_agent_trim(call.environment->agent);
  return answer(env, static_cast<int32_t>(wlk_live_blocks()));
}
#endif

struct Function {
  const char *name;
  napi_callback callback;
};

const Function kFunctions[] = {
    {"start", start},
    {"openManager", call_open_manager},
    {"close", call_close},
    {"request", call_request},
    {"requestExtra", call_request_extra},
    {"wait", call_wait},
    {"release", call_release},
    {"isMarked", call_is_marked},
    {"releaseAndMark", call_release_and_mark},
    {"publish", call_publish},
    {"abort", call_abort},
    {"end", call_end},
    {"undo", call_undo},
    {"snapshot", call_snapshot},
    {"holders", call_holders},
    {"hostOpen", call_host_open},
    {"hostClientId", call_host_client_id},
    {"hostFailure", call_host_failure},
    {"hostPlace", call_host_place},
    {"hostReady", call_host_ready},
    {"hostPublishLater", call_host_publish_later},
    {"hostSnapshot", call_host_snapshot},
    {"hostWaitForSnapshot", call_host_wait_for_snapshot},
    {"hostTakeSnapshot", call_host_take_snapshot},
    {"hostEndJob", call_host_end_job},
    {"drain", drain},
    {"continuousNow", continuous_now},
    {"keepProcessGroup", call_keep_process_group},
    {"endProcessGroup", call_end_process_group},
    {"watchChild", call_watch_child},
    {"signalOfChild", call_signal_of_child},
#if defined(WLK_CHECKS)
    {"liveBlocks", live_blocks},
#endif
};

struct Constant {
  const char *name;
  int32_t value;
};

const Constant kConstants[] = {
    {"OK", WLK_OK},
    {"GRANTED", WLK_GRANTED},
    {"PENDING", WLK_PENDING},
    {"NOT_AVAILABLE", WLK_NOT_AVAILABLE},
    {"STOLEN", WLK_STOLEN},
    {"NOT_HELD", WLK_NOT_HELD},
    {"DEADLOCK", WLK_DEADLOCK},
    {"OTHER_LIMIT", WLK_OTHER_LIMIT},
    {"QUEUE_FULL", WLK_QUEUE_FULL},
    {"MARKED", WLK_MARKED},
    {"NO_MEMORY", WLK_NO_MEMORY},
    {"UNSUPPORTED", WLH_UNSUPPORTED},
    {"VERSION", WLH_VERSION},
    {"FULL", WLH_FULL},
    {"LOST", WLH_LOST},
    {"BUCKET_CLOSED", WLH_CLOSED},
    {"CLOSED", STATUS_CLOSED},
    {"EXCLUSIVE", WLK_EXCLUSIVE},
    {"SHARED", WLK_SHARED},
    {"WAIT", WLK_WAIT},
    {"IF_AVAILABLE", WLK_IF_AVAILABLE},
    {"STEAL", WLK_STEAL},
    {"PASS", WLK_PASS},
    {"PASS_IF_AVAILABLE", WLK_PASS_IF_AVAILABLE},
    {"NEWS_GRANTED", WLK_NEWS_GRANTED},
    {"NEWS_STOLEN", WLK_NEWS_STOLEN},
    {"NEWS_PASSED", WLK_NEWS_PASSED},
    {"NEWS_NOT_AVAILABLE", WLH_NEWS_NOT_AVAILABLE},
    {"NEWS_OTHER_LIMIT", WLH_NEWS_OTHER_LIMIT},
    {"NEWS_QUEUE_FULL", WLH_NEWS_QUEUE_FULL},
    {"NEWS_FAILED", WLH_NEWS_FAILED},
    {"NEWS_LOST", WLH_NEWS_LOST},
    {"NEWS_RELEASED", WLH_NEWS_RELEASED},
    {"NEWS_SNAPSHOT", WLH_NEWS_SNAPSHOT},
    {"NEWS_READY", WLH_NEWS_READY},
    {"NEWS_OF_HOST", NEWS_OF_HOST},
    {"AGREEMENT", AGREEMENT},
};

/* Offsets and sizes, counted in 32-bit numbers. JavaScript reads them from this table. */
#define PLACE(type, field) static_cast<int32_t>(offsetof(type, field) / sizeof(uint32_t))
#define SIZE(type)         static_cast<int32_t>(sizeof(type) / sizeof(uint32_t))

const Constant kLayout[] = {
    {"EXCHANGE_EVENT_COUNT", PLACE(Exchange, event_count)},
    {"EXCHANGE_TAG", PLACE(Exchange, tag)},
    {"EXCHANGE_MODE", PLACE(Exchange, mode)},
    {"EXCHANGE_OPTION", PLACE(Exchange, option)},
    {"EXCHANGE_THIEF", PLACE(Exchange, thief)},
    {"EXCHANGE_TOKEN", PLACE(Exchange, token)},
    {"EXCHANGE_LIMIT", PLACE(Exchange, limit)},
    {"EXCHANGE_WEIGHT", PLACE(Exchange, weight)},
    {"EXCHANGE_MAX_PENDING", PLACE(Exchange, max_pending)},
    {"EXCHANGE_PRIORITY", PLACE(Exchange, priority)},
    {"EXCHANGE_STATUS", PLACE(Exchange, status)},
    {"EXCHANGE_EVENTS", PLACE(Exchange, events)},
    {"EVENT_TAG", PLACE(wlk_event, tag)},
    {"EVENT_NEWS", PLACE(wlk_event, news)},
    {"EVENT_THIEF", PLACE(wlk_event, thief_thread)},
    {"EVENT_TOKEN", PLACE(wlk_event, token_low)},
    {"EVENT_SIZE", SIZE(wlk_event)},
    {"INFO_NAME", PLACE(wlk_lock_info, name)},
    {"INFO_CLIENT", PLACE(wlk_lock_info, client)},
    {"INFO_MODE", PLACE(wlk_lock_info, mode)},
    {"INFO_HELD", PLACE(wlk_lock_info, held)},
    {"INFO_LABEL", PLACE(wlk_lock_info, label)},
    {"INFO_DATA", PLACE(wlk_lock_info, data)},
    {"INFO_LIMIT", PLACE(wlk_lock_info, limit)},
    {"INFO_WEIGHT", PLACE(wlk_lock_info, weight)},
    {"INFO_PRIORITY", PLACE(wlk_lock_info, priority)},
    {"INFO_AGE", PLACE(wlk_lock_info, age_low)},
    {"INFO_TOKEN", PLACE(wlk_lock_info, token_low)},
    {"INFO_SIZE", SIZE(wlk_lock_info)},
};

/* Of fields that belong together, JavaScript gets only the offset of the first one. */
static_assert(
    PLACE(wlk_event, thief_number) == PLACE(wlk_event, thief_thread) + 1 &&
        PLACE(wlk_event, thief_pid) == PLACE(wlk_event, thief_thread) + 2 &&
        PLACE(wlk_event, token_high) == PLACE(wlk_event, token_low) + 1 &&
        PLACE(wlk_lock_info, token_high) == PLACE(wlk_lock_info, token_low) + 1 &&
        PLACE(wlk_lock_info, age_high) == PLACE(wlk_lock_info, age_low) + 1,
    "the halves of a token or of an age, and who is a thief, are next to each other");

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

template <size_t Count>
bool define_constants(napi_env env, napi_value exports, const Constant (&constants)[Count])
{
  for (const Constant &constant : constants) {
    napi_value value = answer(env, constant.value);
    if (!value || !succeeded(
                      env, napi_set_named_property(env, exports, constant.name, value),
                      "napi_set_named_property"))
      return false;
  }
  return true;
}

void throw_cannot_join(napi_env env, wlk_status status, const wlk_process *other)
{
  char own_path[1024], other_path[1024], message[2400];
  wlk_process_path(nullptr, own_path, sizeof own_path);
  wlk_process_path(other, other_path, sizeof other_path);
  if (status == WLK_OTHER_VERSION)
    (void)snprintf(
        message, sizeof message,
        "web-locks: this process loads two incompatible versions of the package: %s was loaded "
        "first, and %s cannot share its locks. Install a single version of web-locks.",
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
  bool defined = define_functions(env, exports, environment) &&
                 define_constants(env, exports, kConstants) &&
                 define_constants(env, exports, kLayout);
  (void)defined; /* If false, an exception is pending. */
  return exports;
}

} // namespace

NODE_API_MODULE(NODE_GYP_MODULE_NAME, Init)
