/* How calls of host.h make requests and jobs. */
#include "agents.h"
#include "deferred.h"
#include "helper.h"
#include "section.h"

#include <stdlib.h>
#include <string.h>

/* Defers an operation. If no helper can be started, takes it back and returns false. */
static bool defer_to_helper(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_op op)
{
  wlk_mutex_lock(&bucket->qmu);
  wlh_defer(bucket, item, op);
  wlk_mutex_unlock(&bucket->qmu);
  if (wlh_helper_start(bucket)) return true;
  wlk_mutex_lock(&bucket->qmu);
  wlh_remove_deferred(bucket, item);
  item->op = WLH_OP_NONE;
  wlk_mutex_unlock(&bucket->qmu);
  return false;
}

/* Returns WLH_PENDING. If no helper can be started, frees the job and returns WLH_FULL. */
static enum wlh_status defer_job(
    struct wlh_agent *agent, struct wlh_job *job, uint32_t tag, enum wlh_op op)
{
  struct wlh_bucket *bucket = agent->bucket;
  wlh_init_item(&job->item, agent, tag);
  wlk_mutex_lock(&bucket->qmu);
  wlk_list_append(&agent->jobs, &job->by_agent);
  wlk_mutex_unlock(&bucket->qmu);
  if (defer_to_helper(bucket, &job->item, op)) return WLH_PENDING;
  wlk_mutex_lock(&bucket->qmu);
  wlh_free_job(job);
  wlk_mutex_unlock(&bucket->qmu);
  return WLH_FULL;
}

/* Copies the text, unless `length` is UINT32_MAX. Returns NULL if out of memory. */
static struct wlh_job *new_job(const uint16_t *text, uint32_t length)
{
  struct wlh_job *job = calloc(1, sizeof *job);
  if (!job || length == UINT32_MAX) return job;
  job->text = malloc((length ? length : 1) * sizeof *text);
  if (!job->text) {
    free(job);
    return NULL;
  }
  if (length > 0) memcpy(job->text, text, length * sizeof *text);
  job->units = length;
  return job;
}

enum wlh_status wlh_bucket_open_file(struct wlh_agent *agent, uint32_t tag)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  if (wlh_try_enter(bucket, NULL)) {
    wlh_leave(bucket);
    if (!wlh_is_lost(bucket)) return WLH_OK;
  }
  struct wlh_job *job = calloc(1, sizeof *job);
  if (!job) return WLH_NO_MEMORY;
  return defer_job(agent, job, tag, WLH_OP_READY);
}

enum wlh_status wlh_start_snapshot(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, bool pending, uint32_t tag)
{
  if (wlh_is_forked(agent->bucket)) return WLH_LOST;
  struct wlh_job *job = new_job(name, length);
  if (!job) return WLH_NO_MEMORY;
  job->pending = pending;
  return defer_job(agent, job, tag, WLH_OP_SNAPSHOT);
}

enum wlh_status wlh_publish(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, struct wlk_events *events)
{
  struct wlh_agent *agent = lock->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_change none = {NULL, WLH_ENDED, NULL};
  uint32_t needed;
  events->count = 0;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  if (!wlh_try_enter(bucket, agent)) return WLH_PENDING;
  enum wlh_cells_status status =
      lock->cell == 0
          ? WLH_CELLS_NOT_HELD
          : wlh_cells_publish(&bucket->arena, lock->cell, lock->cookie, text, length, &needed);
  bool lost = wlh_note_loss(bucket, status);
  wlh_end_section(agent, &none, events);
  if (lost) return WLH_LOST;
  return status == WLH_CELLS_FULL ? WLH_PENDING : wlh_status_of(status);
}

enum wlh_status wlh_publish_later(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, uint32_t tag)
{
  if (wlh_is_forked(lock->item.agent->bucket)) return WLH_LOST;
  struct wlh_job *job = new_job(text, length);
  if (!job) return WLH_NO_MEMORY;
  job->cookie = lock->cookie;
  return defer_job(lock->item.agent, job, tag, WLH_OP_PUBLISH);
}

enum wlh_status wlh_fetch_snapshot(
    struct wlh_agent *agent, uint32_t tag, struct wlh_snapshot **snapshot)
{
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_NO_MEMORY;
  *snapshot = NULL;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &agent->jobs) {
    struct wlh_job *job = WLK_ITEM(link, struct wlh_job, by_agent);
    if (job->item.doing || job->item.gone || job->item.event.tag != tag) continue;
    if (!job->answer && job->status == WLH_OK) continue;
    status = job->status;
    *snapshot = job->answer;
    job->answer = NULL;
    wlk_list_remove(&job->item.by_event);
    wlh_free_job(job);
    break;
  }
  wlk_mutex_unlock(&bucket->qmu);
  return status;
}

void wlh_cancel_job(struct wlh_agent *agent, uint32_t tag)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &agent->jobs) {
    struct wlh_job *job = WLK_ITEM(link, struct wlh_job, by_agent);
    if (job->item.gone || job->item.event.tag != tag) continue;
    job->item.gone = true;
    wlh_remove_deferred(bucket, &job->item);
    if (!job->item.doing) wlh_free_job(job);
    break;
  }
  wlk_mutex_unlock(&bucket->qmu);
}

static struct wlh_request *new_request(struct wlh_agent *agent, uint32_t tag)
{
  struct wlh_request *request = agent->spare;
  agent->spare = NULL;
  if (!request) request = malloc(sizeof *request);
  if (!request) return NULL;
  wlh_init_item(&request->item, agent, tag);
  wlk_list_init(&request->by_agent);
  wlk_list_init(&request->by_trash);
  request->state = WLH_DEFERRED;
  request->cell = 0;
  request->cookie = 0;
  request->marked = false;
  request->keep = 0;
  request->text = NULL;
  return request;
}

/* Sets the state, and adds the request to the list of its agent. */
static void link_request(struct wlh_request *request, enum wlh_state state)
{
  struct wlh_agent *agent = request->item.agent;
  wlk_mutex_lock(&agent->bucket->qmu);
  request->state = state;
  wlk_list_append(&agent->requests, &request->by_agent);
  wlk_mutex_unlock(&agent->bucket->qmu);
}

/* Returns false if the request must be deferred. */
static bool request_now(
    struct wlh_request *request, const struct wlh_ask *ask, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_answer answer = {0};
  if (!wlh_try_enter(bucket, agent)) return false;
  enum wlh_cells_status made = wlh_make_request(bucket, request, ask, &answer);
  bool done =
      !wlh_note_loss(bucket, made) && !(made == WLH_CELLS_FULL && answer.needed != UINT32_MAX);
  *status = wlh_status_of(made);
  if (!done) wlh_forget_cell(bucket, request);
  /* No theft or loss can end the request here, because both need mu. */
  struct wlh_change change = {NULL, WLH_HELD, NULL};
  if (*status == WLH_GRANTED || *status == WLH_PENDING) change.linked = request;
  if (*status == WLH_PENDING) change.state = WLH_WAITING;
  events->token = answer.token;
  events->limit = answer.limit;
  if (done)
    wlh_end_section(agent, &change, events);
  else
    wlh_leave(bucket);
  return done;
}

/* Returns WLH_PENDING, NO_MEMORY, or FULL if no helper can be started. */
static enum wlh_status defer_request(struct wlh_request *request, const struct wlh_ask *ask)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  size_t units = (size_t)ask->name_units + ask->label_units;
  request->text = malloc((units ? units : 1) * sizeof *request->text);
  if (!request->text) return WLH_NO_MEMORY;
  if (ask->name_units > 0) {
    memcpy(request->text, ask->name, ask->name_units * sizeof *request->text);
  }
  if (ask->label_units > 0) {
    memcpy(request->text + ask->name_units, ask->label, ask->label_units * sizeof *request->text);
  }
  request->ask = *ask;
  request->ask.name = request->text;
  request->ask.label = request->text + ask->name_units;
  link_request(request, WLH_DEFERRED);
  if (defer_to_helper(bucket, &request->item, WLH_OP_REQUEST)) return WLH_PENDING;
  wlk_mutex_lock(&bucket->qmu);
  wlk_list_remove(&request->by_agent);
  wlk_mutex_unlock(&bucket->qmu);
  return WLH_FULL;
}

static void fill_ask(
    struct wlh_ask *ask, enum wlk_mode mode, enum wlk_option option, const struct wlk_extra *extra)
{
  ask->mode = mode == WLK_SHARED ? WLH_SHARED : WLH_EXCLUSIVE;
  ask->option = (uint8_t)option;
  if (!extra) return;
  ask->label = extra->label;
  ask->label_units = extra->label_length < WLH_LABEL_MOST ? extra->label_length : WLH_LABEL_MOST;
  ask->limit = extra->limit;
  ask->weight = extra->weight;
  ask->bounded = extra->bounded;
  ask->max_pending = extra->max_pending;
  ask->priority = extra->priority;
}

enum wlh_status wlh_request_a_lock(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, enum wlk_mode mode,
    enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlh_request **request, struct wlk_events *events)
{
  events->count = 0;
  if (wlh_is_forked(agent->bucket)) return WLH_LOST;
  if (extra && extra->reject_deadlock) return WLH_UNSUPPORTED;
  if (length > WLH_NAME_MOST) return WLH_FULL;
  struct wlh_ask ask = {0};
  ask.name = name;
  ask.name_units = length;
  fill_ask(&ask, mode, option, extra);
  struct wlh_request *made = new_request(agent, tag);
  if (!made) return WLH_NO_MEMORY;
  enum wlh_status status = WLH_PENDING;
  if (!request_now(made, &ask, &status, events)) status = defer_request(made, &ask);
  if (status == WLH_GRANTED || status == WLH_PENDING)
    *request = made;
  else
    wlh_recycle_request(agent, made);
  return status;
}
