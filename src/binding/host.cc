/* The scope of the machine: the host scope. */
#include "host.h"

#include <cstdlib>
#include <new>

#if defined(__linux__)
#include <unistd.h>

/* Functions of libuv 1, whose ABI is stable; the headers of Node-API have none of them. They are
 * weak because runtimes without libuv load the addon, too. */
#pragma weak napi_get_uv_event_loop
#define WEAK __attribute__((weak))
extern "C" {
WEAK unsigned uv_version(void);
WEAK size_t uv_handle_size(int type);
WEAK void *uv_handle_get_data(const void *handle);
WEAK void uv_handle_set_data(void *handle, void *data);
WEAK int uv_poll_init(uv_loop_s *loop, void *poll, int descriptor);
WEAK int uv_poll_start(
    void *poll, int events, void (*callback)(void *poll, int status, int events));
WEAK void uv_unref(void *handle);
WEAK void uv_close(void *handle, void (*callback)(void *handle));
}

enum { UV_POLL = 8, UV_READABLE = 1 };

/* At the end of an environment, Node.js runs the event loop until the thread-safe function `wake`
 * is closed, which is after this handle. */
static void close_ear(HostAgent *host)
{
  if (!host->ear) return;
  uv_close(host->ear, free);
  (void)close(host->heard);
  host->ear = nullptr;
}

static void on_wake_up(void *ear, int status, int)
{
  HostAgent *host = static_cast<HostAgent *>(uv_handle_get_data(ear));
  if (!wlh_agent_hear(host->agent, status == 0)) close_ear(host);
}

/* Takes the descriptor. Returns false if the event loop cannot wait for it. */
static bool open_ear(HostAgent *host, int descriptor)
{
  uv_loop_s *loop = nullptr;
  void *ear = calloc(1, uv_handle_size(UV_POLL));
  if (!ear || napi_get_uv_event_loop(host->environment->env, &loop) != napi_ok ||
      uv_poll_init(loop, ear, descriptor) != 0) {
    free(ear);
    (void)close(descriptor);
    return false;
  }
  host->ear = ear;
  host->heard = descriptor;
  uv_handle_set_data(ear, host);
  uv_unref(ear);
  if (uv_poll_start(ear, UV_READABLE, on_wake_up) == 0) return true;
  close_ear(host);
  return false;
}

/* If it may, the event loop hears wake-ups itself from now on. */
static void listen(HostAgent *host)
{
  if (!host->has_loop) return;
  int descriptor = wlh_agent_listen(host->agent);
  if (descriptor < 0) return;
  close_ear(host);
  if (!open_ear(host, descriptor)) (void)wlh_agent_hear(host->agent, false);
}

static bool has_libuv()
{
  return napi_get_uv_event_loop && uv_version && uv_version() >> 16 == 1;
}
#else
static void close_ear(HostAgent *) {}

static void listen(HostAgent *) {}

static bool has_libuv()
{
  return false;
}
#endif

void host_take_events(Environment *environment)
{
  const wlk_events &taken = environment->events;
  if (taken.capacity == 0) return; /* JavaScript has not taken the previous events. */
  Exchange *exchange = environment->exchange;
  for (HostAgent *host = environment->hosts; host; host = host->next) {
    wlk_events more = {};
    more.items = taken.items + exchange->event_count;
    more.capacity = taken.capacity - exchange->event_count;
    if (more.capacity == 0) return; /* JavaScript will call `drain` again. */
    wlh_agent_take_events(host->agent, host->woken.exchange(false), &more);
    for (size_t i = 0; i < more.count; i++)
      environment_note(environment, &more.items[i], SLOT_HOST);
    exchange->event_count += static_cast<uint32_t>(more.count);
  }
}

/* Runs on any thread. */
static void wake_host(void *data)
{
  HostAgent *host = static_cast<HostAgent *>(data);
  host->woken.store(true);
  environment_wake(host->environment);
}

/* Terminates the agent and closes its bucket, once. The HostAgent is not freed. */
static void end_host(HostAgent *host)
{
  if (!host->agent) return;
  HostAgent **place = &host->environment->hosts;
  while (*place != host) place = &(*place)->next;
  *place = host->next;
  close_ear(host);
  wlh_agent_terminate(host->agent);
  host->agent = nullptr;
  wlh_bucket_close(host->bucket);
  host->bucket = nullptr;
}

/* The last handle of a HostAgent ends and frees it. */
static void close_host(void *bucket)
{
  HostAgent *host = static_cast<HostAgent *>(bucket);
  if (--host->handle_count > 0) return;
  end_host(host);
  free(host);
}

static void end_hosts(Environment *environment)
{
  while (environment->hosts) end_host(environment->hosts);
}

/* Sets `*status`. Returns null on failure. */
static HostAgent *make_host(
    Environment *environment, wlh_bucket *bucket, const wlk_thread *thread, wlh_status *status)
{
  void *memory = calloc(1, sizeof(HostAgent));
  *status = WLH_NO_MEMORY;
  if (!memory) return nullptr;
  HostAgent *host = new (memory) HostAgent();
  host->environment = environment;
  host->bucket = bucket;
  *status = wlh_agent_create(bucket, thread, wake_host, host, &host->agent);
  if (*status != WLH_OK) {
    free(host);
    return nullptr;
  }
  host->next = environment->hosts;
  environment->end_hosts = end_hosts;
  environment->hosts = host;
  return host;
}

static HostAgent *find_host(const Environment *environment, const wlh_bucket *bucket)
{
  HostAgent *host = environment->hosts;
  while (host && host->bucket != bucket) host = host->next;
  return host;
}

napi_value answer_host_snapshot(napi_env env, wlh_status status, HostSnapshot *snapshot)
{
  if (status != WLH_OK) return answer(env, status);
  napi_value value = snapshot_value(env, &snapshot->base, snapshot->pids);
  wlh_snapshot_free(snapshot);
  return value;
}

static napi_value host_holders(napi_env env, void *bucket, const CodeUnits &name)
{
  HostSnapshot *snapshot = nullptr;
  wlh_status status = wlh_find_holders(
      static_cast<HostAgent *>(bucket)->agent, name.data(), name.length(), &snapshot);
  return answer_host_snapshot(env, status, snapshot);
}

static int32_t host_request(
    Environment *, void *bucket, const Wanted &wanted, void **made, wlk_snapshot **,
    wlk_events *events)
{
  HostRequest *request = nullptr;
  wlh_status status = wlh_request_a_lock(
      static_cast<HostAgent *>(bucket)->agent, wanted.name, wanted.length, wanted.mode,
      wanted.option, wanted.tag, wanted.extra, &request, events);
  *made = request;
  if (status == WLH_PENDING) listen(static_cast<HostAgent *>(bucket));
  return status;
}

static int32_t host_wait(void *request, uint64_t timeout, wlk_snapshot **, wlk_events *events)
{
  return wlh_wait_for_the_lock(static_cast<HostRequest *>(request), timeout, events);
}

static int32_t host_is_marked(void *lock, wlk_events *)
{
  return wlh_is_marked(static_cast<HostRequest *>(lock)) ? WLK_MARKED : WLK_OK;
}

static int32_t host_end(void *request, wlk_events *)
{
  wlh_end_the_request(static_cast<HostRequest *>(request));
  return WLK_OK;
}

const Scope kHostScope = {
    close_host,
    host_holders,
    host_request,
    host_wait,
    adapted<HostRequest, wlh_release_the_lock>,
    adapted<HostRequest, wlh_release_and_mark>,
    host_is_marked,
    adapted<HostRequest, wlh_publish>,
    adapted<HostRequest, wlh_abort_the_request>,
    host_end,
};

/* Handles of the same bucket share one HostAgent. */
static wlh_status open_host(
    Environment *environment, const char *directory, const CodeUnits &name, const char *version,
    const wlk_thread *thread, HostAgent **host)
{
  wlh_bucket *bucket;
  wlh_status status = wlh_bucket_open(directory, name.data(), name.length(), version, &bucket);
  if (status != WLH_OK) return status;
  *host = find_host(environment, bucket);
  bool is_open = *host != nullptr;
  if (!is_open) *host = make_host(environment, bucket, thread, &status);
  /* An agent keeps its bucket open once, so a second open is undone. */
  if (is_open || status != WLH_OK) wlh_bucket_close(bucket);
  if (status == WLH_OK) (*host)->handle_count++;
  return status;
}

/* Copies a string of any length, which the caller must free. Returns null if out of memory, or if
 * `value` is not a string. */
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

/* hostOpen(name: string, version: string, threadId: number, threadName: string, directory: string,
 *   hasLibuv: boolean): External | status
 * An empty `directory` stands for the default directory. `hasLibuv` is false in a runtime that has
 * libuv's functions but does not run them. */
napi_value call_host_open(napi_env env, napi_callback_info info)
{
  Call<6> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  bool has_loop = false;
  char version[16];
  wlk_thread thread = {0, nullptr, 0};
  if (!succeeded(
          env,
          napi_get_value_string_latin1(env, call.arguments[1], version, sizeof version, nullptr),
          "reading the version") ||
      !succeeded(
          env, napi_get_value_uint32(env, call.arguments[2], &thread.id),
          "reading the thread id") ||
      !succeeded(env, napi_get_value_bool(env, call.arguments[5], &has_loop), "reading hasLibuv"))
    return nullptr;
  CodeUnits name, thread_name;
  if (name.Read(env, call.arguments[0]) != WLK_OK ||
      thread_name.Read(env, call.arguments[3]) != WLK_OK)
    return answer(env, WLH_NO_MEMORY);
  thread.name = thread_name.data();
  thread.name_length = thread_name.length();
  char *directory = read_utf8(env, call.arguments[4]);
  if (!directory) return answer(env, WLH_NO_MEMORY);
  HostAgent *host = nullptr;
  wlh_status status =
      open_host(call.environment, *directory ? directory : nullptr, name, version, &thread, &host);
  free(directory);
  if (status == WLH_OK) host->has_loop = has_loop && has_libuv();
  return status == WLH_OK ? make_handle(env, SLOT_HOST, host) : answer(env, status);
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

/* hostClientId(handle: External): string | status */
napi_value call_host_client_id(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  HostAgent *host = host_of(call);
  return host ? text_value(env, wlh_agent_client_id(host->agent)) : answer(env, WLH_CLOSED);
}

/* hostFailure(handle: External | undefined): string
 * Returns the latest failure of the bucket or, without a handle, of hostOpen. */
napi_value call_host_failure(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (!call.is_open()) return answer(env, STATUS_CLOSED);
  napi_valuetype type;
  if (!succeeded(env, napi_typeof(env, call.arguments[0], &type), "napi_typeof")) return nullptr;
  char text[2000] = "";
  HostAgent *host = type == napi_external ? host_of(call) : nullptr;
  if (host)
    wlh_bucket_get_failure(host->bucket, text, sizeof text);
  else
    wlh_get_open_failure(text, sizeof text);
  return text_value(env, text);
}

/* hostPlace(handle: External): string | status. Returns the path of the bucket's directory. */
napi_value call_host_place(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  HostAgent *host = host_of(call);
  if (!host) return answer(env, WLH_CLOSED);
  char text[WLH_PLACE_SIZE];
  wlh_bucket_get_path(host->bucket, text, sizeof text);
  return text_value(env, text);
}
