#include "agent.h"

#include "alloc.h"
#include "process.h"
#include "store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void set_thread(struct wlk_agent *agent, const struct wlk_thread *thread)
{
  uint32_t length = thread->name_length;
  if (length > WLK_THREAD_NAME_MOST) length = WLK_THREAD_NAME_MOST;
  if (length > 0) memcpy(agent->thread_name, thread->name, length * sizeof *thread->name);
  agent->thread_name_length = length;
  agent->thread_id = thread->id;
}

enum wlk_status wlk_agent_create(
    struct wlk_process *process, const char *prefix, const struct wlk_thread *thread,
    wlk_wake_function *wake, void *data, struct wlk_agent **result)
{
  enum wlk_status status = wlk_process_init_once(process);
  if (status != WLK_OK) return status;
  struct wlk_agent *agent = wlk_alloc(sizeof *agent);
  if (!agent) return WLK_NO_MEMORY;
  memset(agent, 0, sizeof *agent);
  if (!wlk_condition_init(&agent->changed)) {
    wlk_free(agent);
    return WLK_NO_MEMORY;
  }
  set_thread(agent, thread);
  agent->process = process;
  agent->wake = wake;
  agent->wake_data = data;
  agent->mutex = (struct wlk_mutex)WLK_MUTEX_INIT;
  atomic_init(&agent->has_events, false);
  wlk_store_init(agent);
  wlk_list_init(&agent->requests);
  wlk_list_init(&agent->events);

  wlk_mutex_lock(&process->mutex);
  agent->number = ++process->agents_created;
  (void)snprintf(agent->client_id, sizeof agent->client_id, "%.40s%" PRIu32, prefix, agent->number);
  process->agent_count++;
  wlk_list_append(&process->agents, &agent->by_process);
  wlk_mutex_unlock(&process->mutex);

  *result = agent;
  return WLK_OK;
}

const char *wlk_agent_client_id(const struct wlk_agent *agent)
{
  return agent->client_id;
}

/* A request has at most one event, which collects its news. */
static void append_event(struct wlk_agent *agent, struct wlk_request *request, uint8_t news)
    WLK_REQUIRES(agent->mutex)
{
  if (request->news == 0) wlk_list_append(&agent->events, &request->by_event);
  request->news |= news;
  atomic_store_explicit(&agent->has_events, true, memory_order_relaxed);
}

/* Returns true if the caller must wake the agent, and false if a wake-up is under way. */
static bool pin_to_wake(struct wlk_agent *agent) WLK_REQUIRES(agent->mutex)
{
  if (agent->woken) return false;
  agent->woken = true;
  agent->pins++;
  return true;
}

bool wlk_agent_post_event(struct wlk_request *request, enum wlk_news news, bool wake)
{
  struct wlk_agent *agent = request->agent;
  wlk_mutex_lock(&agent->mutex);
  append_event(agent, request, (uint8_t)news);
  if (request->awaited) wlk_condition_broadcast(&agent->changed);
  bool pinned = wake && pin_to_wake(agent);
  /* After the unlock, another thread may free the request. It may also free the agent, unless the
   * agent is pinned. */
  wlk_mutex_unlock(&agent->mutex);
  return pinned;
}

void wlk_agent_queue_grants(struct wlk_agent *agent, struct wlk_link *granted)
{
  wlk_mutex_lock(&agent->mutex);
  WLK_LIST_DRAIN (link, granted) {
    wlk_list_remove(link);
    append_event(agent, WLK_REQUEST_OF(link, by_event), WLK_NEWS_GRANTED);
  }
  wlk_mutex_unlock(&agent->mutex);
}

bool wlk_agent_pin_if_events(struct wlk_agent *agent)
{
  wlk_mutex_lock(&agent->mutex);
  bool pinned = !wlk_list_is_empty(&agent->events) && pin_to_wake(agent);
  wlk_mutex_unlock(&agent->mutex);
  return pinned;
}

void wlk_agent_wake(struct wlk_agent *agent)
{
  agent->wake(agent->wake_data);
  wlk_mutex_lock(&agent->mutex);
  if (--agent->pins == 0 && agent->terminating) wlk_condition_broadcast(&agent->changed);
  wlk_mutex_unlock(&agent->mutex);
}

void wlk_event_write(struct wlk_events *events, const struct wlk_request *request, uint8_t news)
{
  bool stolen = news & WLK_NEWS_STOLEN;
  events->items[events->count++] = (struct wlk_event){
      .tag = request->tag,
      .news = news,
      .thief_thread = stolen ? request->thief.thread : 0,
      .thief_number = stolen ? request->thief.number : 0,
      .token_low = (uint32_t)request->token,
      .token_high = (uint32_t)(request->token >> 32),
  };
}

static void remove_event(struct wlk_agent *agent, struct wlk_request *request)
    WLK_REQUIRES(agent->mutex)
{
  request->news = 0;
  wlk_list_remove(&request->by_event);
  bool more = !wlk_list_is_empty(&agent->events);
  atomic_store_explicit(&agent->has_events, more, memory_order_relaxed);
}

void wlk_agent_drain(
    struct wlk_agent *agent, bool woken, struct wlk_events *events, struct wlk_link **stolen)
{
  *stolen = NULL;
  wlk_mutex_lock(&agent->mutex);
  if (woken) agent->woken = false;
  while (!wlk_list_is_empty(&agent->events) && events->count < events->capacity) {
    struct wlk_request *request = WLK_REQUEST_OF(agent->events.next, by_event);
    /* This reads `news`, not `state`. A thief sets `state` first, and still uses the request until
     * it has posted the event. So the request may end only once `news` reports the theft. */
    uint8_t news = request->news;
    wlk_event_write(events, request, news);
    remove_event(agent, request);
    if (!(news & (WLK_NEWS_STOLEN | WLK_NEWS_PASSED))) continue;
    request->by_event.next = *stolen;
    *stolen = &request->by_event;
  }
  wlk_mutex_unlock(&agent->mutex);
}

void wlk_agent_drop_event(struct wlk_request *request)
{
  if (request->news == 0) return;
  struct wlk_agent *agent = request->agent;
  wlk_mutex_lock(&agent->mutex);
  remove_event(agent, request);
  wlk_mutex_unlock(&agent->mutex);
}

void wlk_agent_free(struct wlk_agent *agent)
{
  struct wlk_process *process = agent->process;
  wlk_mutex_lock(&process->mutex);
  wlk_list_remove(&agent->by_process);
  process->agent_count--;
  wlk_mutex_unlock(&process->mutex);

  wlk_mutex_lock(&agent->mutex);
  agent->terminating = true;
  /* All requests of the agent have ended, so no other thread posts to it: `pins` only falls. */
  while (agent->pins > 0) wlk_condition_wait(&agent->changed, &agent->mutex);
  wlk_mutex_unlock(&agent->mutex);

  wlk_store_clear(agent);
  wlk_condition_destroy(&agent->changed);
  wlk_free(agent);
}
