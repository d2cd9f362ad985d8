#include "environment.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

bool succeeded(napi_env env, napi_status status, const char *what)
{
  if (status == napi_ok) return true;
  if (status == napi_pending_exception || status == napi_closing || status == napi_cannot_run_js)
    return false;
  bool pending = false;
  if (napi_is_exception_pending(env, &pending) != napi_ok || pending) return false;
  char message[128];
  (void)snprintf(
      message, sizeof message, "web-locks: %s failed with Node-API status %d", what,
      static_cast<int>(status));
  /* Fails only where nothing can be thrown any more. */
  (void)napi_throw_error(env, "ERR_WEB_LOCKS_NODE_API", message);
  return false;
}

/* ---- waking ---- */

/* The queue is unbounded, so the call does not block; it fails only where the environment is
 * closing, and then the cleanup hook is about to terminate the agents. */
void environment_wake(Environment *environment)
{
  (void)napi_call_threadsafe_function(environment->wake, nullptr, napi_tsfn_nonblocking);
}

/* On any thread: the core's wake function. */
static void wake_from_any_thread(void *data)
{
  environment_wake(static_cast<Environment *>(data));
}

/* On the environment's own thread: as if the core had woken it, once until it is. */
static void wake_itself(Environment *environment)
{
  if (environment->waking) return;
  environment->waking = true;
  environment_wake(environment);
}

/* On the environment's thread: calls the library's drain function. `env` is null where the
 * environment is being torn down with wake-ups still queued. */
static void wake_up(napi_env env, napi_value drain, void *context, void *)
{
  if (!env || !drain) return;
  static_cast<Environment *>(context)->waking = false;
  napi_value undefined;
  if (!succeeded(env, napi_get_undefined(env, &undefined), "napi_get_undefined")) return;
  /* The drain function does not throw. If the worker is being terminated, it does not run either.
   */
  (void)succeeded(
      env, napi_call_function(env, undefined, drain, 0, nullptr, nullptr), "the wake-up");
}

/* The event loop is kept alive while requests are pending, and not by held locks. */
static inline void set_pending(Environment *environment, Slot *slot, bool pending)
{
  if (slot->pending == pending) return;
  slot->pending = pending;
  napi_env env = environment->env;
  if (pending && environment->pending++ == 0)
    (void)succeeded(
        env, napi_ref_threadsafe_function(env, environment->wake), "napi_ref_threadsafe_function");
  else if (!pending && --environment->pending == 0)
    (void)succeeded(
        env, napi_unref_threadsafe_function(env, environment->wake),
        "napi_unref_threadsafe_function");
}

void environment_set_pending(Environment *environment, Slot *slot, bool pending)
{
  set_pending(environment, slot, pending);
}

/* ---- life ---- */

static void on_cleanup(void *data)
{
  Environment *environment = static_cast<Environment *>(data);
  if (environment->end_hosts) environment->end_hosts(environment);
  wlk_agent_terminate(environment->agent);
  environment->agent = nullptr;
  /* No other thread uses it any more; the environment, which still has it, deletes it. */
  (void)napi_release_threadsafe_function(environment->wake, napi_tsfn_release);
}

/* hasRef(): boolean. Whether the environment keeps its event loop alive. */
static napi_value has_ref(napi_env env, napi_callback_info info)
{
  void *data = nullptr;
  napi_value value;
  bool read = succeeded(
      env, napi_get_cb_info(env, info, nullptr, nullptr, nullptr, &data), "napi_get_cb_info");
  if (!read) return nullptr;
  const Environment *environment = static_cast<Environment *>(data);
  return succeeded(env, napi_get_boolean(env, environment->pending > 0, &value), "napi_get_boolean")
             ? value
             : nullptr;
}

/* Makes what shows the thread-safe function to async hooks: an object that says, as those of
 * Node.js's own do, whether it keeps the event loop alive. */
static bool make_resource(Environment *environment, napi_value *resource)
{
  napi_env env = environment->env;
  napi_value function;
  return succeeded(env, napi_create_object(env, resource), "napi_create_object") &&
         succeeded(
             env,
             napi_create_function(env, "hasRef", NAPI_AUTO_LENGTH, has_ref, environment, &function),
             "napi_create_function") &&
         succeeded(
             env, napi_set_named_property(env, *resource, "hasRef", function),
             "napi_set_named_property");
}

static bool create_wake(Environment *environment, napi_value drain)
{
  napi_env env = environment->env;
  napi_value name, resource;
  if (!make_resource(environment, &resource)) return false;
  if (!succeeded(
          env, napi_create_string_utf8(env, "web-locks", NAPI_AUTO_LENGTH, &name),
          "napi_create_string_utf8"))
    return false;
  napi_status status = napi_create_threadsafe_function(
      env, drain, resource, name, 0, 1, nullptr, nullptr, environment, wake_up, &environment->wake);
  if (!succeeded(env, status, "napi_create_threadsafe_function")) return false;
  return succeeded(
      env, napi_unref_threadsafe_function(env, environment->wake),
      "napi_unref_threadsafe_function");
}

static bool keep_buffer(Environment *environment, napi_value buffer)
{
  napi_env env = environment->env;
  void *memory = nullptr;
  size_t size = 0;
  if (!succeeded(
          env, napi_get_arraybuffer_info(env, buffer, &memory, &size), "napi_get_arraybuffer_info"))
    return false;
  if (!succeeded(
          env, napi_create_reference(env, buffer, 1, &environment->buffer),
          "napi_create_reference"))
    return false;
  environment->exchange = static_cast<Exchange *>(memory);
  environment->events.items = environment->exchange->events;
  environment->room = (size - sizeof(Exchange)) / sizeof(wlk_event);
  return true;
}

wlk_status environment_start(
    Environment *environment, const char *client_prefix, const wlk_thread *thread, napi_value drain,
    napi_value buffer)
{
  napi_env env = environment->env;
  if (!keep_buffer(environment, buffer) || !create_wake(environment, drain)) return WLK_NO_MEMORY;
  wlk_status status = wlk_agent_create(
      environment->process, client_prefix, thread, wake_from_any_thread, environment,
      &environment->agent);
  if (status == WLK_OK) {
    /* Hooks run in reverse order: this one before that of the thread-safe function it needs. */
    if (succeeded(
            env, napi_add_env_cleanup_hook(env, on_cleanup, environment),
            "napi_add_env_cleanup_hook"))
      return WLK_OK;
    wlk_agent_terminate(environment->agent);
    environment->agent = nullptr;
    status = WLK_NO_MEMORY;
  }
  (void)napi_release_threadsafe_function(environment->wake, napi_tsfn_release);
  return status;
}

void environment_free(Environment *environment)
{
  free(environment->slots);
  free(environment);
}

/* ---- requests by tag ---- */

static const uint32_t kLeastCapacity = 64;
static const uint32_t kLeastToTrim = 1 << 17;

bool environment_reserve(Environment *environment, uint32_t tag)
{
  if (tag < environment->capacity) return !environment->slots[tag].thing;
  uint32_t capacity = environment->capacity ? environment->capacity : kLeastCapacity;
  while (capacity <= tag) {
    if (capacity > UINT32_MAX / 2) return false;
    capacity *= 2;
  }
  void *memory = realloc(environment->slots, capacity * sizeof(Slot));
  if (!memory) return false;
  environment->slots = static_cast<Slot *>(memory);
  memset(
      environment->slots + environment->capacity, 0,
      (capacity - environment->capacity) * sizeof(Slot));
  environment->capacity = capacity;
  return true;
}

void environment_keep(Environment *environment, uint32_t tag, wlk_request *request, bool pending)
{
  environment->slots[tag].thing = request;
  environment->slots[tag].kind = SLOT_CORE;
  environment->live++;
  set_pending(environment, &environment->slots[tag], pending);
}

wlk_request *environment_find(const Environment *environment, uint32_t tag)
{
  if (tag >= environment->capacity || environment->slots[tag].kind != SLOT_CORE) return nullptr;
  return static_cast<wlk_request *>(environment->slots[tag].thing);
}

HostRequest *environment_find_host(const Environment *environment, uint32_t tag)
{
  if (tag >= environment->capacity || environment->slots[tag].kind != SLOT_HOST) return nullptr;
  return static_cast<HostRequest *>(environment->slots[tag].thing);
}

void environment_granted(Environment *environment, uint32_t tag)
{
  set_pending(environment, &environment->slots[tag], false);
}

void environment_forget(Environment *environment, uint32_t tag)
{
  if (tag >= environment->capacity || !environment->slots[tag].thing) return;
  set_pending(environment, &environment->slots[tag], false);
  environment->slots[tag].thing = nullptr;
  if (--environment->live > 0 || environment->capacity <= kLeastCapacity) return;
  /* A burst is over: its memory goes back. */
  bool trim = environment->capacity >= kLeastToTrim;
  free(environment->slots);
  environment->slots = nullptr;
  environment->capacity = 0;
  if (trim) wlk_process_trim();
}

wlk_events *environment_events(Environment *environment)
{
  bool taken = environment->exchange->event_count == 0;
  environment->events.capacity = taken ? environment->room : 0;
  return &environment->events;
}

static inline bool publish_answer(Environment *environment)
{
  const wlk_events &events = environment->events;
  Exchange *exchange = environment->exchange;
  exchange->thief[0] = events.thief_thread;
  exchange->thief[1] = events.thief_number;
  exchange->token[0] = static_cast<uint32_t>(events.token);
  exchange->token[1] = static_cast<uint32_t>(events.token >> 32);
  exchange->limit = events.limit;
  if (events.capacity == 0) {
    wake_itself(environment);
    return false;
  }
  exchange->event_count = static_cast<uint32_t>(events.count);
  return true;
}

bool environment_publish_answer(Environment *environment)
{
  return publish_answer(environment);
}

void environment_publish(Environment *environment)
{
  if (!publish_answer(environment)) return;
  const wlk_events &events = environment->events;
  for (size_t i = 0; i < events.count; i++) {
    const wlk_event &event = events.items[i];
    if (!environment_find(environment, event.tag)) continue;
    set_pending(environment, &environment->slots[event.tag], false);
    if (event.news & WLK_NEWS_STOLEN) environment_forget(environment, event.tag);
  }
}

void environment_undo(Environment *environment, uint32_t tag)
{
  wlk_request *request = environment_find(environment, tag);
  if (request)
    wlk_end_the_request(request);
  else if (HostRequest *of_host = environment_find_host(environment, tag))
    wlh_end(of_host);
  environment_forget(environment, tag);
  Exchange *exchange = environment->exchange;
  for (size_t i = 0; i < exchange->event_count && i < environment->room; i++)
    if (exchange->events[i].tag == tag) exchange->events[i].news = 0;
  wake_itself(environment);
}
