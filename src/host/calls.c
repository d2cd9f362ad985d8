/* Agents, requests and snapshots: host.h but for its buckets. */
#include "helper.h"
#include "news.h"
#include "turn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* News with which a request ends. */
#define ENDS                                                                                       \
  ((uint32_t)WLK_NEWS_STOLEN | (uint32_t)WLH_NEWS_NOT_AVAILABLE | (uint32_t)WLH_NEWS_OTHER_LIMIT | \
   (uint32_t)WLH_NEWS_QUEUE_FULL | (uint32_t)WLH_NEWS_FAILED | (uint32_t)WLH_NEWS_LOST |           \
   (uint32_t)WLH_NEWS_RELEASED)

const char *wlh_status_message(enum wlh_status status)
{
  static const char *const messages[] = {
#define MESSAGE(name, message) message,
      WLH_STATUS_LIST(MESSAGE)
#undef MESSAGE
  };
  return (size_t)status < sizeof messages / sizeof *messages ? messages[status] : "";
}

/* ---- items ---- */

static void init_item(struct wlh_item *item, struct wlh_agent *agent, uint32_t tag)
{
  memset(item, 0, sizeof *item);
  item->agent = agent;
  item->event.tag = tag;
  wlk_list_init(&item->by_put_off);
  wlk_list_init(&item->by_event);
}

/* Keeps a request for the agent's next one, or frees it. */
static void put_away(struct wlh_agent *agent, struct wlh_request *request)
{
  free(request->text);
  request->text = NULL;
  if (agent->spare)
    free(request);
  else
    agent->spare = request;
}

/* Ends a request that has no cell any more. With qmu. Returns whether it is to be put away; else
 * whoever is at it frees it. */
static bool end_here(struct wlh_bucket *bucket, struct wlh_request *request)
    WLK_REQUIRES(bucket->qmu)
{
  wlk_list_remove(&request->item.by_event);
  request->item.event.news = 0;
  request->item.gone = true;
  if (request->item.doing) return false;
  wlh_take_off(bucket, &request->item);
  request->item.op = WLH_OP_NONE;
  wlk_list_remove(&request->by_agent);
  return true;
}

/* ---- agents ---- */

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
  init_item(&made->item, made, 0);
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
  wlk_list_init(&made->errands);
  wlk_list_init(&made->events);
  wlk_mutex_lock(&bucket->qmu);
  made->number = ++bucket->numbers;
  wlk_list_append(&bucket->agents, &made->by_bucket);
  wlk_mutex_unlock(&bucket->qmu);
  (void)snprintf(
      made->client_id, sizeof made->client_id, "%08x-%u", (unsigned)bucket->id, made->number);
  *agent = made;
  return WLH_OK;
}

const char *wlh_agent_client_id(const struct wlh_agent *agent)
{
  return agent->client_id;
}

/* Takes the oldest event. With qmu. */
static void take_event(struct wlh_agent *agent, struct wlk_event *event)
    WLK_REQUIRES(agent->bucket->qmu)
{
  struct wlh_item *item = WLK_ITEM(agent->events.next, struct wlh_item, by_event);
  /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list */
  *event = item->event;
  wlk_list_remove(&item->by_event);
  item->event.news = 0;
  if (event->news & WLH_NEWS_SNAPSHOT) return; /* wlh_take_snapshot ends it */
  if (event->news & WLH_NEWS_READY) {
    wlh_errand_free(wlh_errand_of(item));
    return;
  }
  if (!(event->news & ENDS)) return;
  struct wlh_request *request = wlh_request_of(item);
  if (end_here(agent->bucket, request)) put_away(agent, request);
}

static void take_events(struct wlh_agent *agent, struct wlk_events *events)
    WLK_REQUIRES(agent->bucket->qmu)
{
  for (events->count = 0; events->count < events->capacity && !wlk_list_is_empty(&agent->events);) {
    take_event(agent, &events->items[events->count++]);
  }
}

/* What the turn did to a request of the agent, to be noted in its record. */
struct change {
  struct wlh_request *linked; /* made, in this state; NULL for none */
  enum wlh_state state;
  struct wlh_request *ended; /* it has no cell any more; NULL for none */
};

/* With qmu and mu, in which the turn was: nobody has looked at the record since. */
static void note_change(struct wlh_agent *agent, const struct change *change)
    WLK_REQUIRES(agent->bucket->qmu)
{
  if (change->linked) {
    change->linked->state = change->state;
    wlk_list_append(&agent->requests, &change->linked->by_agent);
  }
  if (change->ended) (void)end_here(agent->bucket, change->ended); /* nobody is at it */
}

/* Leaves with the events of the turn: none of them is about what others did after it. */
static void end_turn(
    struct wlh_agent *agent, const struct change *change, struct wlk_events *events)
{
  struct wlh_bucket *bucket = agent->bucket;
  wlh_turn_leave(bucket);
  wlk_mutex_lock(&agent->bucket->qmu);
  note_change(agent, change);
  take_events(agent, events);
  bool wakes = !wlk_list_is_empty(&bucket->to_wake);
  wlk_mutex_unlock(&agent->bucket->qmu);
  if (change->ended) put_away(agent, change->ended);
  wlh_turn_unlock(bucket, wakes);
}

void wlh_agent_take_events(struct wlh_agent *agent, bool woken, struct wlk_events *events)
{
  struct wlh_bucket *bucket = agent->bucket;
  events->count = 0;
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&agent->bucket->qmu);
  if (woken) agent->woken = false;
  take_events(agent, events);
  wlk_mutex_unlock(&agent->bucket->qmu);
}

/* Puts the termination off. From here on nobody calls the wake function. */
static void silence(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  wlk_mutex_lock(&bucket->qmu);
  agent->terminating = true;
  agent->woken = true;
  wlk_list_remove(&agent->by_wake);
  while (agent->pins > 0) wlk_condition_wait(&agent->unblocked, &bucket->qmu);
  WLK_LIST_DRAIN (link, &agent->events) wlk_list_remove(link);
  wlh_put_off(bucket, &agent->item, WLH_OP_TERMINATE);
  wlk_mutex_unlock(&bucket->qmu);
}

void wlh_agent_terminate(struct wlh_agent *agent)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket)) return;
  silence(bucket, agent);
  /* To enter is to do what was put off. Where nothing is open and the helper does not run, there is
   * nothing but what we have in memory. */
  if (wlh_turn_try(bucket, NULL)) {
    wlh_turn_end(bucket);
    return;
  }
  wlk_mutex_lock(&bucket->qmu);
  bool running = bucket->running;
  wlk_mutex_unlock(&bucket->qmu);
  if (running) wlh_alarm(bucket);
}

/* ---- errands ---- */

/* Has the helper do something; if there is none, takes it back. */
static bool put_off(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_op op)
{
  wlk_mutex_lock(&bucket->qmu);
  wlh_put_off(bucket, item, op);
  wlk_mutex_unlock(&bucket->qmu);
  if (wlh_helper_start(bucket)) return true;
  wlk_mutex_lock(&bucket->qmu);
  wlh_take_off(bucket, item);
  item->op = WLH_OP_NONE;
  wlk_mutex_unlock(&bucket->qmu);
  return false;
}

static enum wlh_status put_off_errand(
    struct wlh_agent *agent, struct wlh_errand *errand, uint32_t tag, enum wlh_op op)
{
  struct wlh_bucket *bucket = agent->bucket;
  init_item(&errand->item, agent, tag);
  wlk_mutex_lock(&bucket->qmu);
  wlk_list_append(&agent->errands, &errand->by_agent);
  wlk_mutex_unlock(&bucket->qmu);
  if (put_off(bucket, &errand->item, op)) return WLH_PENDING;
  wlk_mutex_lock(&bucket->qmu);
  wlh_errand_free(errand);
  wlk_mutex_unlock(&bucket->qmu);
  return WLH_NO_MEMORY;
}

enum wlh_status wlh_bucket_ready(struct wlh_agent *agent, uint32_t tag)
{
  struct wlh_bucket *bucket = agent->bucket;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  if (wlh_turn_try(bucket, NULL)) {
    wlh_turn_end(bucket);
    if (!wlh_is_lost(bucket)) return WLH_OK;
  }
  struct wlh_errand *errand = calloc(1, sizeof *errand);
  if (!errand) return WLH_NO_MEMORY;
  return put_off_errand(agent, errand, tag, WLH_OP_READY);
}

enum wlh_status wlh_snapshot(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, bool pending, uint32_t tag)
{
  if (wlh_is_forked(agent->bucket)) return WLH_LOST;
  struct wlh_errand *errand = calloc(1, sizeof *errand);
  if (!errand) return WLH_NO_MEMORY;
  if (length != UINT32_MAX) {
    errand->name = malloc((length ? length : 1) * sizeof *name);
    if (!errand->name) {
      free(errand);
      return WLH_NO_MEMORY;
    }
    if (length > 0) memcpy(errand->name, name, length * sizeof *name);
    errand->units = length;
  }
  errand->pending = pending;
  return put_off_errand(agent, errand, tag, WLH_OP_SNAPSHOT);
}

enum wlh_status wlh_take_snapshot(
    struct wlh_agent *agent, uint32_t tag, struct wlh_snapshot **snapshot)
{
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_NO_MEMORY;
  *snapshot = NULL;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &agent->errands) {
    struct wlh_errand *errand = WLK_ITEM(link, struct wlh_errand, by_agent);
    if (errand->item.event.tag != tag || (!errand->answer && errand->status == WLH_OK)) continue;
    status = errand->status;
    *snapshot = errand->answer;
    errand->answer = NULL;
    wlk_list_remove(&errand->item.by_event);
    wlh_errand_free(errand);
    break;
  }
  wlk_mutex_unlock(&bucket->qmu);
  return status;
}

/* ---- requests ---- */

static enum wlh_status status_of(enum wlh_cells_status status)
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

static struct wlh_request *new_request(struct wlh_agent *agent, uint32_t tag)
{
  struct wlh_request *request = agent->spare;
  agent->spare = NULL;
  if (!request) request = malloc(sizeof *request);
  if (!request) return NULL;
  init_item(&request->item, agent, tag);
  wlk_list_init(&request->by_agent);
  wlk_list_init(&request->by_trash);
  request->state = WLH_ASKING;
  request->cell = 0;
  request->cookie = 0;
  request->text = NULL;
  return request;
}

static void link_request(struct wlh_request *request, enum wlh_state state)
{
  struct wlh_agent *agent = request->item.agent;
  wlk_mutex_lock(&agent->bucket->qmu);
  request->state = state;
  wlk_list_append(&agent->requests, &request->by_agent);
  wlk_mutex_unlock(&agent->bucket->qmu);
}

/* Makes the request now. Returns whether it could be: else it is to be put off. */
static bool request_now(
    struct wlh_request *request, const struct wlh_ask *ask, enum wlh_status *status,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_answer answer = {0};
  if (!wlh_turn_try(bucket, agent)) return false;
  enum wlh_cells_status made = wlh_place(bucket, request, ask, &answer);
  bool done =
      !wlh_is_over(bucket, made) && !(made == WLH_CELLS_FULL && answer.needed != UINT32_MAX);
  *status = status_of(made);
  if (!done) wlh_forget_cell(bucket, request);
  /* Who could take it away, a thief or a loss, is heard of with mu only. */
  struct change change = {NULL, WLH_HELD, NULL};
  if (*status == WLH_GRANTED || *status == WLH_PENDING) change.linked = request;
  if (*status == WLH_PENDING) change.state = WLH_WAITING;
  events->token = answer.token;
  events->limit = answer.limit;
  if (done)
    end_turn(agent, &change, events);
  else
    wlh_turn_end(bucket);
  return done;
}

/* Has the helper make the request. */
static bool request_later(struct wlh_request *request, const struct wlh_ask *ask)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  size_t units = (size_t)ask->name_units + ask->label_units;
  request->text = malloc((units ? units : 1) * sizeof *request->text);
  if (!request->text) return false;
  if (ask->name_units > 0) {
    memcpy(request->text, ask->name, ask->name_units * sizeof *request->text);
  }
  if (ask->label_units > 0) {
    memcpy(request->text + ask->name_units, ask->label, ask->label_units * sizeof *request->text);
  }
  request->ask = *ask;
  request->ask.name = request->text;
  request->ask.label = request->text + ask->name_units;
  link_request(request, WLH_ASKING);
  if (put_off(bucket, &request->item, WLH_OP_REQUEST)) return true;
  wlk_mutex_lock(&bucket->qmu);
  wlk_list_remove(&request->by_agent);
  wlk_mutex_unlock(&bucket->qmu);
  return false;
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
}

enum wlh_status wlh_request(
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
  if (!request_now(made, &ask, &status, events)) {
    status = request_later(made, &ask) ? WLH_PENDING : WLH_NO_MEMORY;
  }
  if (status == WLH_GRANTED || status == WLH_PENDING)
    *request = made;
  else
    put_away(agent, made);
  return status;
}

/* What an event says that ends a request, as a status. With qmu. */
static enum wlh_status status_of_event(const struct wlk_event *event, struct wlk_events *events)
{
  events->thief_thread = event->thief_thread;
  events->thief_number = event->thief_number;
  events->limit = event->token_low;
  if (event->news & WLK_NEWS_STOLEN) return WLH_STOLEN;
  if (event->news & WLH_NEWS_LOST) return WLH_LOST;
  if (event->news & WLH_NEWS_NOT_AVAILABLE) return WLH_NOT_AVAILABLE;
  if (event->news & WLH_NEWS_OTHER_LIMIT) return WLH_OTHER_LIMIT;
  if (event->news & WLH_NEWS_QUEUE_FULL) return WLH_QUEUE_FULL;
  if (event->news & WLH_NEWS_FAILED) return (enum wlh_status)event->token_low;
  return WLH_OK;
}

/* What is known of a request at one moment: outside, the next may bring a theft. */
struct sight {
  bool ended; /* by itself */
  bool ours;  /* ended, and to be put away after qmu */
  enum wlh_state state;
};

/* If the request has ended by itself, ends the record, too, and says how. With qmu. */
static struct sight see(
    struct wlh_bucket *bucket, struct wlh_request *request, enum wlh_status *status,
    struct wlk_events *events) WLK_REQUIRES(bucket->qmu)
{
  struct sight sight = {(request->item.event.news & ENDS) != 0, false, request->state};
  if (sight.ended) {
    *status = status_of_event(&request->item.event, events);
    sight.ours = end_here(bucket, request);
  }
  return sight;
}

static bool has_ended(
    struct wlh_request *request, enum wlh_status *status, enum wlh_state *state,
    struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  struct sight sight = see(bucket, request, status, events);
  wlk_mutex_unlock(&bucket->qmu);
  if (sight.ours) put_away(agent, request);
  *state = sight.state;
  return sight.ended;
}

/* Drops the news of the grant, which the caller knows. With qmu. */
static void drop_news(struct wlh_request *request)
{
  wlk_list_remove(&request->item.by_event);
  request->item.event.news = 0;
}

/* Ends the record of a request whose cell has ended in this turn. */
static void end_record(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  wlk_mutex_lock(&agent->bucket->qmu);
  (void)end_here(agent->bucket, request); /* nobody is at it: we are inside */
  wlk_mutex_unlock(&agent->bucket->qmu);
  put_away(agent, request);
}

static enum wlh_status release_later(struct wlh_request *lock, struct wlk_events *events)
{
  struct wlh_bucket *bucket = lock->item.agent->bucket;
  enum wlh_status status = WLH_PENDING;
  enum wlh_state state;
  wlk_mutex_lock(&bucket->qmu);
  /* Since we looked, the helper may have heard that it was stolen. */
  bool ended = (lock->item.event.news & ENDS) != 0;
  if (!ended) {
    drop_news(lock);
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

/* Releases inside; the record is still to be ended. False if it is to be put off: the tables are
 * damaged. */
static bool release_now(
    struct wlh_request *lock, enum wlh_status *status, struct wlk_events *events)
{
  struct wlh_thief thief = {0};
  struct wlh_bucket *bucket = lock->item.agent->bucket;
  enum wlh_cells_status released =
      wlh_cells_release(&bucket->arena, lock->cell, lock->cookie, &thief);
  if (wlh_is_over(bucket, released)) return false;
  *status = status_of(released);
  events->thief_thread = (uint32_t)thief.id;
  events->thief_number = thief.number;
  wlh_forget_cell(bucket, lock);
  return true;
}

enum wlh_status wlh_release(struct wlh_request *lock, struct wlk_events *events)
{
  struct wlh_agent *agent = lock->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_OK;
  enum wlh_state state;
  events->count = 0;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  bool inside = wlh_turn_try(bucket, agent);
  bool done = true;
  struct change change = {NULL, WLH_ENDED, NULL};
  if (!has_ended(lock, &status, &state, events)) {
    if (state != WLH_HELD)
      status = WLH_NOT_HELD;
    else if ((done = inside && release_now(lock, &status, events)))
      change.ended = lock;
  }
  if (inside && done)
    end_turn(agent, &change, events);
  else if (inside)
    wlh_turn_end(bucket);
  return done ? status : release_later(lock, events);
}

/* Ends a request when the tables can be entered. Its agent hears nothing of it any more. */
static void end_later(struct wlh_request *request)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  wlk_mutex_lock(&bucket->qmu);
  drop_news(request);
  request->item.gone = true;
  /* One that is put off and not begun was never made, or has its release before it. */
  bool never_made = request->item.op == WLH_OP_REQUEST && !request->item.doing;
  bool on_its_way = request->item.doing || request->item.op == WLH_OP_RELEASE;
  if (never_made)
    (void)end_here(bucket, request);
  else
    request->state = WLH_ENDING;
  if (!never_made && !on_its_way) wlh_put_off(bucket, &request->item, WLH_OP_END);
  wlk_mutex_unlock(&bucket->qmu); /* from here on it may be gone, unless it was never made */
  if (never_made)
    put_away(agent, request);
  else if (!on_its_way)
    (void)wlh_helper_start(bucket);
}

/* Ends inside. */
static bool end_now(struct wlh_request *request)
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
  bool done = has_ended(request, &status, &state, &events) || (inside && end_now(request));
  if (inside) wlh_turn_end(bucket);
  if (!done) end_later(request);
}

/* Aborts inside; if it ended, its record is still to be ended. False if it is to be put off. */
static bool abort_now(
    struct wlh_request *request, enum wlh_status *status, struct wlk_events *events)
{
  struct wlh_bucket *bucket = request->item.agent->bucket;
  enum wlh_cells_status aborted = wlh_cells_abort(&bucket->arena, request->cell, request->cookie);
  if (aborted == WLH_CELLS_STOLEN) return release_now(request, status, events);
  if (wlh_is_over(bucket, aborted)) return false;
  *status = status_of(aborted);
  if (aborted == WLH_CELLS_OK) wlh_forget_cell(bucket, request);
  return true;
}

enum wlh_status wlh_abort(struct wlh_request *request, struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_OK;
  enum wlh_state state;
  events->count = 0;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  bool inside = wlh_turn_try(bucket, agent);
  bool done = true;
  struct change change = {NULL, WLH_ENDED, NULL};
  if (!has_ended(request, &status, &state, events)) {
    if (state == WLH_HELD)
      status = WLH_GRANTED;
    else if ((done = inside && abort_now(request, &status, events)) && !request->cell)
      change.ended = request;
  }
  if (change.ended && status != WLH_OK) {
    end_record(request);
    change.ended = NULL;
  }
  if (inside && done && status == WLH_OK)
    end_turn(agent, &change, events);
  else if (inside)
    wlh_turn_end(bucket);
  if (!done) end_later(request);
  return status;
}

/* ---- blocking ---- */

/* Has it found out, after whatever was put off before, whether the calling thread would wait for
 * itself: by us if the tables can be entered now, or else by whoever does so next. */
static void ask_whether_itself(struct wlh_bucket *bucket, struct wlh_block *block)
{
  wlk_mutex_lock(&bucket->qmu);
  block->item.agent->awaited = &block->request->item; /* news of it wake us, not our event loop */
  wlh_put_off(bucket, &block->item, WLH_OP_BLOCK);
  wlk_mutex_unlock(&bucket->qmu);
  if (wlh_turn_try(bucket, NULL))
    wlh_turn_end(bucket);
  else
    (void)wlh_helper_start(bucket);
}

/* Takes the question back. With qmu. */
static void take_back(struct wlh_bucket *bucket, struct wlh_block *block) WLK_REQUIRES(bucket->qmu)
{
  wlh_take_off(bucket, &block->item);
  while (block->item.doing) {
    wlk_condition_wait(&block->item.agent->unblocked, &bucket->qmu);
  }
}

/* Waits until there is news of the request. With qmu. */
static void wait_for_news(struct wlh_bucket *bucket, struct wlh_request *request, uint64_t timeout)
    WLK_REQUIRES(bucket->qmu)
{
  struct wlh_agent *agent = request->item.agent;
  uint64_t begin = wlk_port_now(true);
  while (request->item.event.news == 0) {
    uint64_t passed = wlk_port_now(true) - begin;
    if (passed >= timeout) break;
    wlk_condition_wait_for(&agent->unblocked, &bucket->qmu, timeout - passed);
  }
  agent->awaited = NULL;
}

enum wlh_status wlh_wait(struct wlh_request *request, uint64_t timeout, struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_PENDING;
  struct wlh_block block;
  events->count = 0;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  init_item(&block.item, agent, 0);
  block.request = request;
  ask_whether_itself(bucket, &block);
  wlk_mutex_lock(&bucket->qmu);
  wait_for_news(bucket, request, timeout);
  take_back(bucket, &block);
  struct sight sight = see(bucket, request, &status, events);
  if (!sight.ended && (request->item.event.news & WLK_NEWS_GRANTED)) {
    status = WLH_GRANTED;
    events->token = (uint64_t)request->item.event.token_high << 32 | request->item.event.token_low;
    drop_news(request);
  }
  wlk_mutex_unlock(&bucket->qmu);
  if (sight.ours) put_away(agent, request);
  return status;
}
