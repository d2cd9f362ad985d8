#include "host.h"
#include "calls.h"
#include "values.h"

#include <cstdlib>
#include <new>

/* ---- tags ---- */

void host_keep(Environment *environment, uint32_t tag, HostRequest *request, bool pending)
{
  Slot *slot = &environment->slots[tag];
  slot->thing = request ? static_cast<void *>(request) : environment;
  slot->kind = request ? SLOT_HOST : SLOT_ERRAND;
  environment->live++;
  environment_set_pending(environment, slot, pending);
}

/* ---- events ---- */

/* With any other news a request ends, or an errand is answered. */
static const uint32_t kNewsOfTheLiving = WLK_NEWS_GRANTED | NEWS_OF_HOST;

static void mark(Environment *environment, wlk_event *event)
{
  event->news |= NEWS_OF_HOST;
  uint32_t tag = event->tag;
  if (tag >= environment->capacity) return;
  Slot *slot = &environment->slots[tag];
  if (!slot->thing || slot->kind == SLOT_CORE) return;
  environment_set_pending(environment, slot, false);
  if (event->news & ~kNewsOfTheLiving) environment_forget(environment, tag);
}

void host_publish(Environment *environment)
{
  if (!environment_publish_answer(environment)) return;
  for (size_t i = 0; i < environment->events.count; i++)
    mark(environment, &environment->events.items[i]);
}

void host_take_events(Environment *environment)
{
  const wlk_events &taken = environment->events;
  if (taken.capacity == 0) return;
  Exchange *exchange = environment->exchange;
  for (HostOpening *opening = environment->hosts; opening; opening = opening->next) {
    wlk_events more = {};
    more.items = taken.items + exchange->event_count;
    more.capacity = taken.capacity - exchange->event_count;
    /* Where there is no room left, JavaScript calls again. */
    if (more.capacity == 0) return;
    wlh_agent_take_events(opening->agent, opening->woken.exchange(false), &more);
    for (size_t i = 0; i < more.count; i++) mark(environment, &more.items[i]);
    exchange->event_count += static_cast<uint32_t>(more.count);
  }
}

/* On any thread. */
static void wake_host(void *data)
{
  HostOpening *opening = static_cast<HostOpening *>(data);
  opening->woken.store(true);
  environment_wake(opening->environment);
}

/* ---- life ---- */

static void shut(HostOpening *opening)
{
  if (!opening->agent) return;
  HostOpening **place = &opening->environment->hosts;
  while (*place != opening) place = &(*place)->next;
  *place = opening->next;
  wlh_agent_terminate(opening->agent);
  opening->agent = nullptr;
  wlh_bucket_close(opening->bucket);
  opening->bucket = nullptr;
}

static void end_hosts(Environment *environment)
{
  while (environment->hosts) shut(environment->hosts);
}

/* On the environment's thread, when the External is collected or the environment ends. */
static void finalize_opening(napi_env, void *data, void *)
{
  HostOpening *opening = static_cast<HostOpening *>(data);
  shut(opening);
  free(opening);
}

/* Makes an opening and its agent. */
static wlh_status open_host(
    Environment *environment, const char *directory, const CodeUnits &name, const char *version,
    const wlk_thread *thread, HostOpening **made)
{
  void *memory = calloc(1, sizeof(HostOpening));
  if (!memory) return WLH_NO_MEMORY;
  HostOpening *opening = new (memory) HostOpening();
  opening->environment = environment;
  wlh_status status =
      wlh_bucket_open(directory, name.data(), name.length(), version, &opening->bucket);
  if (status == WLH_OK) {
    status = wlh_agent_create(opening->bucket, thread, wake_host, opening, &opening->agent);
    if (status != WLH_OK) wlh_bucket_close(opening->bucket);
  }
  if (status != WLH_OK) {
    free(opening);
    return status;
  }
  opening->next = environment->hosts;
  environment->end_hosts = end_hosts;
  environment->hosts = opening;
  *made = opening;
  return WLH_OK;
}

/* Reads a string of any length as UTF-8, to be freed; null if that fails. */
static char *read_utf8(napi_env env, napi_value value)
{
  size_t length = 0;
  if (napi_get_value_string_utf8(env, value, nullptr, 0, &length) != napi_ok) return nullptr;
  char *text = static_cast<char *>(malloc(length + 1));
  if (text && napi_get_value_string_utf8(env, value, text, length + 1, &length) == napi_ok)
    return text;
  free(text);
  return nullptr;
}

/* hostOpen(name: string, version: string, threadId: number, threadName: string, directory: string):
 *   External | status
 * An empty directory is the default one. */
napi_value call_host_open(napi_env env, napi_callback_info info)
{
  Call<5> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  char version[16];
  wlk_thread thread = {0, nullptr, 0};
  if (!succeeded(
          env,
          napi_get_value_string_latin1(env, call.arguments[1], version, sizeof version, nullptr),
          "reading the version") ||
      !succeeded(env, napi_get_value_uint32(env, call.arguments[2], &thread.id), "the thread id"))
    return nullptr;
  CodeUnits name, thread_name;
  if (name.Read(env, call.arguments[0]) != WLK_OK ||
      thread_name.Read(env, call.arguments[3]) != WLK_OK)
    return answer(env, WLH_NO_MEMORY);
  thread.name = thread_name.data();
  thread.name_length = thread_name.length();
  char *directory = read_utf8(env, call.arguments[4]);
  if (!directory) return answer(env, WLH_NO_MEMORY);
  HostOpening *opening = nullptr;
  wlh_status status = open_host(
      call.environment, *directory ? directory : nullptr, name, version, &thread, &opening);
  free(directory);
  if (status != WLH_OK) return answer(env, status);
  napi_value external;
  if (succeeded(
          env, napi_create_external(env, opening, finalize_opening, nullptr, &external),
          "napi_create_external"))
    return external;
  finalize_opening(env, opening, nullptr);
  return nullptr;
}

/* hostClose(opening: External): status
 * JavaScript has no requests on it any more. */
napi_value call_host_close(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  HostOpening *opening = host_opening(call);
  if (opening) shut(opening);
  return answer(env, WLH_OK);
}

static napi_value text_value(napi_env env, const char *text)
{
  napi_value value;
  return succeeded(
             env, napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &value),
             "napi_create_string_utf8")
             ? value
             : nullptr;
}

/* hostClientId(opening: External): string | status */
napi_value call_host_client_id(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  HostOpening *opening = host_opening(call);
  return opening ? text_value(env, wlh_agent_client_id(opening->agent)) : answer(env, WLH_CLOSED);
}

/* hostFailure(opening: External | undefined): string
 * Why it could not be opened or how it was lost; without an opening, why hostOpen failed. */
napi_value call_host_failure(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  napi_valuetype type;
  if (!succeeded(env, napi_typeof(env, call.arguments[0], &type), "napi_typeof")) return nullptr;
  char text[2000] = "";
  HostOpening *opening = type == napi_external ? host_opening(call) : nullptr;
  if (opening)
    wlh_bucket_failure(opening->bucket, text, sizeof text);
  else
    wlh_open_failure(text, sizeof text);
  return text_value(env, text);
}

/* hostReady(opening: External): status
 * WLH_PENDING: an event tells, to the tag in the exchange. */
napi_value call_host_ready(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.open()) return answer(env, STATUS_CLOSED);
  HostOpening *opening = host_opening(call);
  if (!opening) return answer(env, WLH_CLOSED);
  uint32_t tag = call.environment->exchange->tag;
  if (!environment_reserve(call.environment, tag)) return answer(env, WLH_NO_MEMORY);
  wlh_status status = wlh_bucket_ready(opening->agent, tag);
  if (status == WLH_PENDING) host_keep(call.environment, tag, nullptr, true);
  return answer(env, status);
}
