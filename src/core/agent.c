#include "agent.h"

#include "alloc.h"
#include "manager.h"
#include "resource.h"

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
  enum wlk_status status = wlk_process_start(process);
  if (status != WLK_OK) return status;
  struct wlk_agent *agent = wlk_alloc(sizeof *agent);
  if (!agent) return WLK_NO_MEMORY;
  memset(agent, 0, sizeof *agent);
  if (!wlk_condition_init(&agent->unblocked)) {
    wlk_free(agent);
    return WLK_NO_MEMORY;
  }
  set_thread(agent, thread);
  agent->process = process;
  agent->wake = wake;
  agent->wake_data = data;
  wlk_list_init(&agent->by_wake);
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

void wlk_agent_wake(struct wlk_turn *turn, struct wlk_agent *agent)
{
  if (agent->woken) return;
  agent->woken = true;
  wlk_list_append(&turn->process->to_wake, &agent->by_wake);
}

void wlk_agent_tell(struct wlk_turn *turn, struct wlk_request *request, enum wlk_news news)
{
  struct wlk_agent *agent = request->agent;
  if (request->news == 0) wlk_list_append(&agent->events, &request->by_event);
  request->news |= (uint8_t)news;
  if (agent->awaited == request) wlk_condition_broadcast(&agent->unblocked);
  if (agent != turn->caller) wlk_agent_wake(turn, agent);
}

void wlk_turn_take_events(struct wlk_turn *turn, struct wlk_events *events)
{
  struct wlk_link *queue = &turn->caller->events;
  events->count = 0;
  while (!wlk_list_is_empty(queue) && events->count < events->capacity) {
    struct wlk_request *request = WLK_REQUEST_OF(queue->next, by_event);
    bool stolen = request->state == WLK_STATE_STOLEN;
    events->items[events->count++] = (struct wlk_event){
        .tag = request->tag,
        .news = request->news,
        .thief_thread = stolen ? request->thief.thread : 0,
        .thief_number = stolen ? request->thief.number : 0,
        .token_low = (uint32_t)request->token,
        .token_high = (uint32_t)(request->token >> 32),
    };
    request->news = 0;
    wlk_list_remove(&request->by_event);
    if (stolen) wlk_request_end(turn, request);
  }
}

void wlk_agent_take_events(struct wlk_agent *agent, bool woken, struct wlk_events *events)
{
  struct wlk_turn turn;
  wlk_turn_begin(&turn, agent->process, agent);
  if (woken) agent->woken = false;
  wlk_turn_take_events(&turn, events);
  wlk_turn_end(&turn);
}
