/* How calls of host.h release, abort and end requests. */
#include "agents.h"
#include "deferred.h"
#include "helper.h"
#include "section.h"

/* If an event has ended the request, ends its record and returns true; otherwise sets `*state`. */
static bool take_end(
    struct wlh_request *request, enum wlh_status *status, enum wlh_state *state,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  struct wlh_end_result check = wlh_take_end(bucket, request, status, events);
  wlk_mutex_unlock(&bucket->qmu);
  if (check.ours) wlh_recycle_request(agent, request);
  *state = check.state;
  return check.ended;
}

/* Returns WLH_PENDING, or how an event has ended the request meanwhile. */
static enum wlh_status defer_release(struct wlh_request *lock, struct wlk_events *events)
{
  struct wlh_bucket *bucket = lock->item.agent->bucket;
  enum wlh_status status = WLH_PENDING;
  enum wlh_state state;
  wlk_mutex_lock(&bucket->qmu);
  /* The helper may have received the theft of the lock since the caller last checked. */
  bool ended = wlh_news_is_end(lock->item.event.news);
  if (!ended) {
    wlh_drop_event(lock);
    lock->state = WLH_ENDING;
    wlh_defer(bucket, &lock->item, WLH_OP_RELEASE);
  }
  wlk_mutex_unlock(&bucket->qmu);
  if (ended)
    (void)take_end(lock, &status, &state, events);
  else
    (void)wlh_helper_start(bucket);
  return status;
}

/* The agent receives no more events about the request. */
static void defer_end(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  wlh_drop_event(request);
  request->item.gone = true;
  /* Unless a thread has started on it, a deferred request is not in the tables. */
  bool never_made = request->item.op == WLH_OP_REQUEST && !request->item.doing;
  bool on_its_way = request->item.doing || request->item.op == WLH_OP_RELEASE;
  if (never_made)
    (void)wlh_end_record(bucket, request);
  else
    request->state = WLH_ENDING;
  if (!never_made && !on_its_way) wlh_defer(bucket, &request->item, WLH_OP_END);
  wlk_mutex_unlock(&bucket->qmu); /* The request may be freed now, unless it was never made. */
  if (never_made)
    wlh_recycle_request(agent, request);
  else if (!on_its_way)
    (void)wlh_helper_start(bucket);
}

enum ending { RELEASE, ABORT };

/* Returns false if the tables are lost, or not open: the caller must then defer the call. */
static bool end_cell(
    struct wlh_request *request, enum ending ending, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  struct wlh_thief thief = {0};
  enum wlh_cells_status ended = WLH_CELLS_STOLEN; /* so that a release goes to the second call */
  if (ending == ABORT)
    ended = wlh_cells_abort_the_request(&bucket->arena, request->cell, request->cookie);
  if (ended == WLH_CELLS_STOLEN)
    ended = wlh_cells_release_the_lock(
        &bucket->arena, request->cell, request->cookie, ending == ABORT ? 0 : request->keep,
        &thief);
  if (wlh_note_loss(bucket, ended)) return false;
  if (ended == WLH_CELLS_OK || ended == WLH_CELLS_STOLEN) wlh_forget_cell(bucket, request);
  events->thief_thread = (uint32_t)thief.id;
  events->thief_number = thief.number;
  events->thief_pid = thief.pid;
  *status = wlh_status_of(ended);
  return true;
}

/* Returns true and sets `*status`, or returns false: the caller must then defer the call. */
static bool end_now(
    struct wlh_request *request, enum ending ending, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_change change = {NULL, WLH_ENDED, NULL};
  enum wlh_state state;
  bool inside = wlh_try_enter(bucket, agent);
  bool answered = true;
  if (take_end(request, status, &state, events)) {
    /* the request has already ended; `status` says how */
  } else if ((state == WLH_HELD) != (ending == RELEASE)) {
    *status = ending == RELEASE ? WLH_NOT_HELD : WLH_GRANTED;
  } else {
    answered = inside && end_cell(request, ending, status, events);
    if (answered && !request->cell) change.ended = request;
  }
  /* After an abort without effect, the events stay queued: one may be about this request. */
  bool takes = answered && (ending == RELEASE || *status == WLH_OK);
  if (inside) wlh_end_section(agent, &change, takes ? events : NULL);
  return answered;
}

bool wlh_is_marked(struct wlh_request *lock)
{
  struct wlh_bucket *bucket = lock->item.agent->bucket;
  if (wlh_is_forked(bucket)) return false;
  wlk_mutex_lock(&bucket->qmu);
  bool marked = lock->state == WLH_HELD && lock->marked;
  wlk_mutex_unlock(&bucket->qmu);
  return marked;
}

enum wlh_status wlh_release_the_lock(struct wlh_request *lock, struct wlk_events *events)
{
  return wlh_release_and_mark(lock, 0, events);
}

enum wlh_status wlh_release_and_mark(
    struct wlh_request *lock, uint64_t keep, struct wlk_events *events)
{
  enum wlh_status status = WLH_OK;
  events->count = 0;
  if (wlh_is_forked(lock->item.agent->bucket)) return WLH_LOST;
  lock->keep = keep;
  return end_now(lock, RELEASE, &status, events) ? status : defer_release(lock, events);
}

enum wlh_status wlh_abort_the_request(struct wlh_request *request, struct wlk_events *events)
{
  enum wlh_status status = WLH_OK;
  events->count = 0;
  if (wlh_is_forked(request->item.agent->bucket)) return WLH_LOST;
  if (!end_now(request, ABORT, &status, events)) defer_end(request);
  return status;
}

static void end_record_and_recycle(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  wlk_mutex_lock(&agent->bucket->qmu);
  /* No other thread uses the record, because we are inside. */
  (void)wlh_end_record(agent->bucket, request);
  wlk_mutex_unlock(&agent->bucket->qmu);
  wlh_recycle_request(agent, request);
}

/* Returns false if the tables are lost: the caller must then defer the end. */
static bool end_in_any_state(struct wlh_request *request)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  enum wlh_cells_status ended = WLH_CELLS_OK;
  if (request->cell)
    ended = wlh_cells_end_the_request(&bucket->arena, request->cell, request->cookie);
  if (wlh_note_loss(bucket, ended)) return false;
  wlh_forget_cell(bucket, request);
  end_record_and_recycle(request);
  return true;
}

void wlh_end_the_request(struct wlh_request *request)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  if (wlh_is_forked(bucket)) return;
  enum wlh_status status;
  enum wlh_state state;
  struct wlk_events events = {0};
  bool inside = wlh_try_enter(bucket, NULL);
  bool done = take_end(request, &status, &state, &events) || (inside && end_in_any_state(request));
  if (inside) wlh_leave(bucket);
  if (!done) defer_end(request);
}
