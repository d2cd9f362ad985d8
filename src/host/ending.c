/* How requests end: the part of host.h that releases, aborts and ends them. */
#include "agents.h"
#include "helper.h"
#include "later.h"
#include "turn.h"

/* Whether the request has ended by itself; else its state. */
static bool has_ended(
    struct wlh_request *request, enum wlh_status *status, enum wlh_state *state,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  struct wlh_sight sight = wlh_see(bucket, request, status, events);
  wlk_mutex_unlock(&bucket->qmu);
  if (sight.ours) wlh_put_away(agent, request);
  *state = sight.state;
  return sight.ended;
}

/* ---- later ---- */

/* Has a lock released when the tables can be entered. */
static enum wlh_status release_later(struct wlh_request *lock, struct wlk_events *events)
{
  struct wlh_bucket *bucket = lock->item.agent->bucket;
  enum wlh_status status = WLH_PENDING;
  enum wlh_state state;
  wlk_mutex_lock(&bucket->qmu);
  /* Since we looked, the helper may have heard that it was stolen. */
  bool ended = wlh_ends(lock->item.event.news);
  if (!ended) {
    wlh_drop_news(lock);
    lock->state = WLH_ENDING;
    wlh_put_off(bucket, &lock->item, WLH_OP_RELEASE);
  }
  wlk_mutex_unlock(&bucket->qmu);
  if (ended)
    (void)has_ended(lock, &status, &state, events);
  else
    (void)wlh_helper_start(bucket);
  return status;
}

/* Ends a request when the tables can be entered. Its agent hears nothing of it any more. */
static void end_later(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  wlh_drop_news(request);
  request->item.gone = true;
  /* One that is put off and not begun was never made, or has its release before it. */
  bool never_made = request->item.op == WLH_OP_REQUEST && !request->item.doing;
  bool on_its_way = request->item.doing || request->item.op == WLH_OP_RELEASE;
  if (never_made)
    (void)wlh_end_here(bucket, request);
  else
    request->state = WLH_ENDING;
  if (!never_made && !on_its_way) wlh_put_off(bucket, &request->item, WLH_OP_END);
  wlk_mutex_unlock(&bucket->qmu); /* from here on it may be gone, unless it was never made */
  if (never_made)
    wlh_put_away(agent, request);
  else if (!on_its_way)
    (void)wlh_helper_start(bucket);
}

/* ---- by a call: 4.2 release the lock, 4.3 abort the request ---- */

enum ending { RELEASE, ABORT };

/* Ends the cell inside, if it can be ended so. False if the tables are lost: to be put off. */
static bool end_cell(
    struct wlh_request *request, enum ending ending, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  struct wlh_thief thief = {0};
  enum wlh_cells_status ended = WLH_CELLS_STOLEN; /* which is what a release takes note of, too */
  if (ending == ABORT) ended = wlh_cells_abort(&bucket->arena, request->cell, request->cookie);
  if (ended == WLH_CELLS_STOLEN)
    ended = wlh_cells_release(&bucket->arena, request->cell, request->cookie, &thief);
  if (wlh_is_over(bucket, ended)) return false;
  if (ended == WLH_CELLS_OK || ended == WLH_CELLS_STOLEN) wlh_forget_cell(bucket, request);
  events->thief_thread = (uint32_t)thief.id;
  events->thief_number = thief.number;
  events->thief_pid = thief.pid;
  *status = wlh_status_of(ended);
  return true;
}

/* Ends a request by a call, unless it has ended by itself, or the call is not for its state.
 * Returns whether the call is answered; else the tables cannot be entered: it is to be put off. */
static bool end_now(
    struct wlh_request *request, enum ending ending, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_change change = {NULL, WLH_ENDED, NULL};
  enum wlh_state state;
  bool inside = wlh_turn_try(bucket, agent);
  bool answered = true;
  if (has_ended(request, status, &state, events)) {
    /* `status` says how */
  } else if ((state == WLH_HELD) != (ending == RELEASE)) {
    *status = ending == RELEASE ? WLH_NOT_HELD : WLH_GRANTED;
  } else {
    answered = inside && end_cell(request, ending, status, events);
    if (answered && !request->cell) change.ended = request;
  }
  /* An abort that did nothing leaves the agent's events: one of them may be of this request. */
  bool takes = answered && (ending == RELEASE || *status == WLH_OK);
  if (inside) wlh_end_turn(agent, &change, takes ? events : NULL);
  return answered;
}

enum wlh_status wlh_release(struct wlh_request *lock, struct wlk_events *events)
{
  enum wlh_status status = WLH_OK;
  events->count = 0;
  if (wlh_is_forked(lock->item.agent->bucket)) return WLH_LOST;
  return end_now(lock, RELEASE, &status, events) ? status : release_later(lock, events);
}

enum wlh_status wlh_abort(struct wlh_request *request, struct wlk_events *events)
{
  enum wlh_status status = WLH_OK;
  events->count = 0;
  if (wlh_is_forked(request->item.agent->bucket)) return WLH_LOST;
  if (!end_now(request, ABORT, &status, events)) end_later(request);
  return status;
}

/* ---- whatever it is ---- */

/* Ends the record of a request whose cell has ended in this turn. */
static void end_record(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  wlk_mutex_lock(&agent->bucket->qmu);
  (void)wlh_end_here(agent->bucket, request); /* nobody is at it: we are inside */
  wlk_mutex_unlock(&agent->bucket->qmu);
  wlh_put_away(agent, request);
}

/* Ends inside. */
static bool end_whatever(struct wlh_request *request)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  enum wlh_cells_status ended = WLH_CELLS_OK;
  if (request->cell) ended = wlh_cells_end(&bucket->arena, request->cell, request->cookie);
  if (wlh_is_over(bucket, ended)) return false;
  wlh_forget_cell(bucket, request);
  end_record(request);
  return true;
}

void wlh_end(struct wlh_request *request)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  if (wlh_is_forked(bucket)) return;
  enum wlh_status status;
  enum wlh_state state;
  struct wlk_events events = {0};
  bool inside = wlh_turn_try(bucket, NULL);
  bool done = has_ended(request, &status, &state, &events) || (inside && end_whatever(request));
  if (inside) wlh_turn_end(bucket);
  if (!done) end_later(request);
}
