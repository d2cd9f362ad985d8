#include "agents.h"

#include "deferred.h"
#include "events.h"
#include "job.h"
#include "section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool wlh_news_is_end(uint32_t news)
{
  return (news &
          (WLK_NEWS_STOLEN | WLK_NEWS_PASSED | WLH_NEWS_NOT_AVAILABLE | WLH_NEWS_OTHER_LIMIT |
           WLH_NEWS_QUEUE_FULL | WLH_NEWS_FAILED | WLH_NEWS_LOST | WLH_NEWS_RELEASED)) != 0;
}

enum wlh_status wlh_status_of(enum wlh_cells_status status)
{
  switch (status) {
  case WLH_CELLS_OK:
    return WLH_OK;
  case WLH_CELLS_GRANTED:
    return WLH_GRANTED;
  case WLH_CELLS_PENDING:
    return WLH_PENDING;
  case WLH_CELLS_NOT_AVAILABLE:
    return WLH_NOT_AVAILABLE;
  case WLH_CELLS_STOLEN:
    return WLH_STOLEN;
  case WLH_CELLS_NOT_HELD:
    return WLH_NOT_HELD;
  case WLH_CELLS_OTHER_LIMIT:
    return WLH_OTHER_LIMIT;
  case WLH_CELLS_QUEUE_FULL:
    return WLH_QUEUE_FULL;
  default:
    return WLH_FULL;
  }
}

void wlh_init_item(struct wlh_item *item, struct wlh_agent *agent, uint32_t tag)
{
  memset(item, 0, sizeof *item);
  item->agent = agent;
  item->event.tag = tag;
  wlk_list_init(&item->by_deferred);
  wlk_list_init(&item->by_event);
}

void wlh_recycle_request(struct wlh_agent *agent, struct wlh_request *request)
{
  free(request->text);
  request->text = NULL;
  if (agent->spare)
    free(request);
  else
    agent->spare = request;
}

bool wlh_end_record(struct wlh_bucket *bucket, struct wlh_request *request)
{
  wlk_list_remove(&request->item.by_event);
  request->item.event.news = 0;
  request->item.gone = true;
  if (request->item.doing) return false;
  wlh_remove_deferred(bucket, &request->item);
  request->item.op = WLH_OP_NONE;
  wlk_list_remove(&request->by_agent);
  return true;
}

/* Sets the thief and the limit in `events`. The caller must have qmu. */
static enum wlh_status status_of_event(const struct wlk_event *event, struct wlk_events *events)
{
  events->thief_thread = event->thief_thread;
  events->thief_number = event->thief_number;
  events->thief_pid = event->thief_pid;
  events->limit = event->token_low;
  if (event->news & WLK_NEWS_STOLEN) return WLH_STOLEN;
  if (event->news & WLH_NEWS_LOST) return WLH_LOST;
  if (event->news & WLH_NEWS_NOT_AVAILABLE) return WLH_NOT_AVAILABLE;
  if (event->news & WLH_NEWS_OTHER_LIMIT) return WLH_OTHER_LIMIT;
  if (event->news & WLH_NEWS_QUEUE_FULL) return WLH_QUEUE_FULL;
  if (event->news & WLH_NEWS_FAILED) return (enum wlh_status)event->token_low;
  return WLH_OK;
}

struct wlh_end_result wlh_take_end(
    struct wlh_bucket *bucket, struct wlh_request *request, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_end_result check = {wlh_news_is_end(request->item.event.news), false, request->state};
  if (check.ended) {
    *status = status_of_event(&request->item.event, events);
    check.ours = wlh_end_record(bucket, request);
  }
  return check;
}

void wlh_drop_event(struct wlh_request *request)
{
  wlk_list_remove(&request->item.by_event);
  request->item.event.news = 0;
}

enum wlh_status wlh_agent_create(
    struct wlh_bucket *bucket, const struct wlk_thread *thread, wlk_wake_function *wake, void *data,
    struct wlh_agent **agent)
{
  if (wlh_is_forked(bucket)) return WLH_LOST;
  struct wlh_agent *made = calloc(1, sizeof *made);
  if (!made) return WLH_NO_MEMORY;
  if (!wlk_condition_init(&made->unblocked)) {
    free(made);
    return WLH_NO_MEMORY;
  }
  wlh_init_item(&made->item, made, 0);
  made->bucket = bucket;
  made->wake = wake;
  made->wake_data = data;
  made->thread_id = thread->id;
  uint32_t length = thread->name_length;
  if (length > WLK_THREAD_NAME_MOST) length = WLK_THREAD_NAME_MOST;
  made->thread_name_length = length;
  if (length > 0) memcpy(made->thread_name, thread->name, length * sizeof *thread->name);
  wlk_list_init(&made->by_wake);
  wlk_list_init(&made->requests);
  wlk_list_init(&made->jobs);
  wlk_list_init(&made->events);
  wlk_mutex_lock(&bucket->qmu);
  made->number = ++bucket->numbers;
  wlk_list_append(&bucket->agents, &made->by_bucket);
  wlk_mutex_unlock(&bucket->qmu);
  wlh_stop_hearing(bucket); /* The event loop of another agent may be busy. */
  (void)snprintf(
      made->client_id, sizeof made->client_id, "%08x-%u", (unsigned)bucket->id, made->number);
  *agent = made;
  return WLH_OK;
}

struct wlh_agent *wlh_agent_of(const struct wlh_request *request)
{
  return request->item.agent;
}

const char *wlh_agent_client_id(const struct wlh_agent *agent)
{
  return agent->client_id;
}

/* Takes the oldest event. If it completes a request or a job, ends that; a snapshot's job stays. */
static void take_event(struct wlh_agent *agent, struct wlk_event *event)
    WLK_REQUIRES(agent->bucket->qmu)
{
  struct wlh_item *item = WLK_ITEM(agent->events.next, struct wlh_item, by_event);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list */
  *event = item->event;
  wlk_list_remove(&item->by_event);
  item->event.news = 0;
  if (event->news & WLH_NEWS_SNAPSHOT) return; /* wlh_fetch_snapshot ends it */
  if (event->news & WLH_NEWS_READY) {
    wlh_free_job(wlh_job_of(item));
    return;
  }
  if (!wlh_news_is_end(event->news)) return;
  struct wlh_request *request = wlh_request_of(item);
  if (wlh_end_record(agent->bucket, request)) wlh_recycle_request(agent, request);
}

void wlh_take_events(struct wlh_agent *agent, struct wlk_events *events)
{
  for (events->count = 0; events->count < events->capacity && !wlk_list_is_empty(&agent->events);) {
    take_event(agent, &events->items[events->count++]);
  }
}

/* Links the record that was made, and ends the record that ended. The caller must still have mu, so
 * that no other thread has seen the record in between. */
static void note_change(struct wlh_agent *agent, const struct wlh_change *change)
    WLK_REQUIRES(agent->bucket->qmu)
{
  if (change->linked) {
    change->linked->state = change->state;
    wlk_list_append(&agent->requests, &change->linked->by_agent);
  }
  if (change->ended)
    (void)wlh_end_record(agent->bucket, change->ended); /* No other thread uses this record. */
}

void wlh_end_section(
    struct wlh_agent *agent, const struct wlh_change *change, struct wlk_events *events)
{
  struct wlh_bucket *bucket = agent->bucket;
  wlh_leave_tables(bucket);
  wlk_mutex_lock(&agent->bucket->qmu);
  note_change(agent, change);
  if (events)
    wlh_take_events(agent, events);
  else
    wlh_wake_caller(agent->bucket, agent);
  bool wakes = !wlk_list_is_empty(&bucket->to_wake);
  wlk_mutex_unlock(&agent->bucket->qmu);
  if (change->ended) wlh_recycle_request(agent, change->ended);
  wlh_unlock_bucket(bucket, wakes);
}

void wlh_agent_take_events(struct wlh_agent *agent, bool woken, struct wlk_events *events)
{
  struct wlh_bucket *bucket = agent->bucket;
  events->count = 0;
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&agent->bucket->qmu);
  if (woken) agent->woken = false;
  wlh_take_events(agent, events);
  wlk_mutex_unlock(&agent->bucket->qmu);
}

/* The caller must have mu. Only one agent may hear: if there are two, one would wait for the event
 * loop of the other. */
static bool begin_hearing(struct wlh_agent *agent)
{
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  bool alone =
      bucket->agents.next == &agent->by_bucket && bucket->agents.previous == &agent->by_bucket;
  bool begins = alone && bucket->open && !bucket->hearer;
  if (begins) bucket->hearer = agent;
  wlk_mutex_unlock(&bucket->qmu);
  return begins;
}

static bool is_hearing(struct wlh_agent *agent)
{
  wlk_mutex_lock(&agent->bucket->qmu);
  bool hears = agent->bucket->hearer == agent;
  wlk_mutex_unlock(&agent->bucket->qmu);
  return hears;
}

int wlh_agent_listen(struct wlh_agent *agent)
{
  struct wlh_bucket *bucket = agent->bucket;
  int descriptor = -1;
  if (wlh_is_forked(bucket) || is_hearing(agent) || !wlh_port_try_lock(&bucket->mu)) return -1;
  bool begins = begin_hearing(agent);
  if (begins) descriptor = wlh_port_duplicate_wake_ups(&bucket->port);
  wlk_mutex_unlock(&bucket->mu);
  if (begins && descriptor < 0) wlh_stop_hearing(bucket);
  return descriptor;
}

bool wlh_agent_hear(struct wlh_agent *agent, bool works)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket) || !is_hearing(agent)) return false;
  if (works && wlh_try_enter(bucket, NULL)) {
    wlh_port_take_wake_ups(&bucket->port);
    wlh_leave(bucket);
    return true;
  }
  wlh_stop_hearing(bucket); /* The helper can wait until the tables can be entered. */
  return false;
}

/* Waits until no thread is running the wake function, and defers the termination. */
static void stop_wake_ups(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  wlk_mutex_lock(&bucket->qmu);
  agent->terminating = true;
  agent->woken = true;
  wlk_list_remove(&agent->by_wake);
  while (agent->pins > 0) wlk_condition_wait(&agent->unblocked, &bucket->qmu);
  WLK_LIST_DRAIN (link, &agent->events) wlk_list_remove(link);
  wlh_defer(bucket, &agent->item, WLH_OP_TERMINATE);
  wlk_mutex_unlock(&bucket->qmu);
}

void wlh_agent_terminate(struct wlh_agent *agent)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket)) return;
  wlh_stop_hearing(bucket);
  stop_wake_ups(bucket, agent);
  /* Entering does the deferred operations. If the helper does not run, the file is not open. Then
   * the termination only has to free memory, which can wait until the bucket is closed or the
   * helper is started. */
  if (wlh_try_enter(bucket, NULL)) {
    wlh_leave(bucket);
    return;
  }
  wlk_mutex_lock(&bucket->qmu);
  bool running = bucket->running;
  wlk_mutex_unlock(&bucket->qmu);
  if (running) wlh_wake_helper(bucket);
}
