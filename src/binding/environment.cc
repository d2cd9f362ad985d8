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
  char message[192];
  (void)snprintf(
      message, sizeof message,
      "web-locks: %s failed with the Node-API status %d. This is a bug in web-locks; please report "
      "it.",
      what, static_cast<int>(status));
  /* Throwing fails only if the environment is ending. */
  (void)napi_throw_error(env, "ERR_WEB_LOCKS_NODE_API", message);
  return false;
}

/* The call fails only if the environment is closing: the queue of the function is unbounded. */
void environment_wake(Environment *environment)
{
  (void)napi_call_threadsafe_function(environment->wake, nullptr, napi_tsfn_nonblocking);
}

static void wake_from_any_thread(void *data)
{
  environment_wake(static_cast<Environment *>(data));
}

/* Pending requests, and events that wait for an empty stack, keep the event loop alive. `more` says
 * whether one comes or goes. */
static void keep_alive(Environment *environment, bool more)
{
  napi_env env = environment->env;
  if (more && environment->pending++ == 0)
    (void)succeeded(
        env, napi_ref_threadsafe_function(env, environment->wake), "napi_ref_threadsafe_function");
  else if (!more && --environment->pending == 0)
    (void)succeeded(
        env, napi_unref_threadsafe_function(env, environment->wake),
        "napi_unref_threadsafe_function");
}

/* The event loop stays alive while `waking` is true. */
static void set_waking(Environment *environment, bool waking)
{
  if (environment->waking == waking) return;
  environment->waking = waking;
  keep_alive(environment, waking);
}

/* Does nothing if a wake-up of its own is under way. */
static void wake_itself(Environment *environment)
{
  if (environment->waking) return;
  set_waking(environment, true);
  environment_wake(environment);
}

/* If the environment is torn down while wake-ups are queued, `env` is null. */
static void wake_up(napi_env env, napi_value drain, void *context, void *)
{
  if (!env || !drain) return;
  set_waking(static_cast<Environment *>(context), false);
  napi_value undefined;
  if (!succeeded(env, napi_get_undefined(env, &undefined), "napi_get_undefined")) return;
  /* The drain function does not throw, and does not run in a worker that is being terminated. */
  (void)succeeded(env, napi_call_function(env, undefined, drain, 0, nullptr, nullptr), "waking up");
}

/* The event loop stays alive while a slot is pending. */
static inline void set_pending(Environment *environment, Slot *slot, bool pending)
{
  if (slot->pending == pending) return;
  slot->pending = pending;
  keep_alive(environment, pending);
}

/* Terminates the agents. The environment itself is freed later, by environment_free. */
static void on_cleanup(void *data)
{
  Environment *environment = static_cast<Environment *>(data);
  if (environment->end_hosts) environment->end_hosts(environment);
  wlk_agent_terminate(environment->agent);
  environment->agent = nullptr;
  /* No other thread uses the function any more. */
  (void)napi_release_threadsafe_function(environment->wake, napi_tsfn_release);
}

/* hasRef(): boolean. Returns whether the environment keeps its event loop alive. */
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

/* Async hooks see this object as the resource of the thread-safe function. Like the resources of
 * Node.js, it has a method `hasRef`. */
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

/* Creates the function `wake`, which does not keep the event loop alive by itself. */
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

/* Keeps the buffer alive and uses it as the exchange. Throws if no event fits into it. */
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
  if (size < sizeof(Exchange) + sizeof(wlk_event)) {
    (void)napi_throw_range_error(
        env, "ERR_WEB_LOCKS_INCOMPATIBLE",
        "web-locks: the exchange buffer is too small for one event. This is a bug in web-locks; "
        "please report it.");
    return false;
  }
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
    /* Hooks run in reverse order: this hook runs before the one that closes the function `wake`. */
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

#if defined(WLK_SMALL) /* See WLK_CAPACITY in port.h. */
static const uint32_t kLeastCapacity = 1;
static const uint32_t kLeastToTrim = 2;
#else
static const uint32_t kLeastCapacity = 64;
static const uint32_t kLeastToTrim = 1 << 17;
#endif

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

void environment_keep(
    Environment *environment, uint32_t tag, SlotKind kind, void *thing, bool pending)
{
  Slot *slot = &environment->slots[tag];
  slot->thing = thing;
  slot->kind = kind;
  environment->live++;
  set_pending(environment, slot, pending);
}

static inline Slot *find_slot(const Environment *environment, uint32_t tag)
{
  if (tag >= environment->capacity) return nullptr;
  Slot *slot = &environment->slots[tag];
  return slot->thing ? slot : nullptr;
}

const Slot *environment_find_request(const Environment *environment, uint32_t tag)
{
  const Slot *slot = find_slot(environment, tag);
  return slot && slot->kind != SLOT_JOB ? slot : nullptr;
}

wlk_request *environment_find(const Environment *environment, uint32_t tag)
{
  const Slot *slot = find_slot(environment, tag);
  return slot && slot->kind == SLOT_CORE ? static_cast<wlk_request *>(slot->thing) : nullptr;
}

HostRequest *environment_find_host(const Environment *environment, uint32_t tag)
{
  const Slot *slot = find_slot(environment, tag);
  return slot && slot->kind == SLOT_HOST ? static_cast<HostRequest *>(slot->thing) : nullptr;
}

HostClient *environment_find_job(const Environment *environment, uint32_t tag)
{
  const Slot *slot = find_slot(environment, tag);
  return slot && slot->kind == SLOT_JOB ? static_cast<HostClient *>(slot->thing) : nullptr;
}

void environment_set_pending(Environment *environment, uint32_t tag, bool pending)
{
  set_pending(environment, &environment->slots[tag], pending);
}

void environment_forget(Environment *environment, uint32_t tag)
{
  Slot *slot = find_slot(environment, tag);
  if (!slot) return;
  set_pending(environment, slot, false);
  slot->thing = nullptr;
  if (--environment->live > 0 || environment->capacity <= kLeastCapacity) return;
  bool trim = environment->capacity >= kLeastToTrim;
  free(environment->slots);
  environment->slots = nullptr;
  environment->capacity = 0;
  if (trim) wlk_process_trim();
}

static inline bool events_are_taken(const Environment *environment)
{
  return environment->exchange->event_count == 0;
}

wlk_events *environment_events(Environment *environment)
{
  environment->events.capacity = events_are_taken(environment) ? environment->room : 0;
  environment->events.count = 0;
  return &environment->events;
}

/* Copies the thief, the token and the limit to the exchange. JavaScript reads only the results that
 * belong to the status. */
static inline void publish_answer(const Environment *environment)
{
  const wlk_events &events = environment->events;
  Exchange *exchange = environment->exchange;
  exchange->thief[0] = events.thief_thread;
  exchange->thief[1] = events.thief_number;
  exchange->thief[2] = events.thief_pid;
  exchange->token[0] = static_cast<uint32_t>(events.token);
  exchange->token[1] = static_cast<uint32_t>(events.token >> 32);
  exchange->limit = events.limit;
}

/* All other bits of `news` mean that the request ended or the job is complete. */
static const uint32_t kNewsOfTheLiving = WLK_NEWS_GRANTED | NEWS_OF_HOST;

/* This is environment_note, inlined for the calls of this file. */
static inline void note(Environment *environment, wlk_event *event, SlotKind scope)
{
  if (scope != SLOT_CORE) event->news |= NEWS_OF_HOST;
  Slot *slot = find_slot(environment, event->tag);
  /* Meanwhile the tag may belong to a request of the other scope. */
  if (!slot || (slot->kind == SLOT_CORE) != (scope == SLOT_CORE)) return;
  set_pending(environment, slot, false);
  if (event->news & ~kNewsOfTheLiving) environment_forget(environment, event->tag);
}

void environment_note(Environment *environment, wlk_event *event, SlotKind scope)
{
  note(environment, event, scope);
}

void environment_publish(Environment *environment, SlotKind scope)
{
  publish_answer(environment);
  if (!events_are_taken(environment)) {
    wake_itself(environment);
    return;
  }
  const wlk_events &events = environment->events;
  environment->exchange->event_count = static_cast<uint32_t>(events.count);
  for (size_t i = 0; i < events.count; i++) note(environment, &events.items[i], scope);
}

static void clear_news(Environment *environment, uint32_t tag)
{
  Exchange *exchange = environment->exchange;
  for (size_t i = 0; i < exchange->event_count && i < environment->room; i++)
    if (exchange->events[i].tag == tag) exchange->events[i].news = 0;
}

void environment_undo(Environment *environment, uint32_t tag)
{
  if (wlk_request *request = environment_find(environment, tag))
    wlk_end_the_request(request);
  else if (HostRequest *of_host = environment_find_host(environment, tag))
    wlh_end_the_request(of_host);
  environment_forget(environment, tag);
  clear_news(environment, tag);
  wake_itself(environment);
}
