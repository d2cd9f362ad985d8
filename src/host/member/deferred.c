#include "deferred.h"

#include "../segment/members.h"
#include "events.h"
#include "mailbox.h"

/* Does nothing if the agent has a cell. */
static enum wlh_cells_status add_agent(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  if (agent->cell) return WLH_CELLS_OK;
  return wlh_cells_add_agent(
      &bucket->arena, agent->thread_id, agent->number, agent->thread_name,
      agent->thread_name_length, &agent->cell);
}

enum wlh_cells_status wlh_make_request(
    struct wlh_bucket *bucket, struct wlh_request *request, const struct wlh_ask *ask,
    struct wlh_answer *answer)
{
  struct wlh_ask whole = *ask;
  answer->needed = 4;
  enum wlh_cells_status status = add_agent(bucket, request->item.agent);
  if (status != WLH_CELLS_OK) return status;
  whole.agent = request->item.agent->cell;
  whole.cookie = ++bucket->cookie;
  if (whole.option == WLH_STEAL) bucket->stealing = true;
  status = wlh_cells_request_a_lock(&bucket->arena, &whole, answer);
  if (status == WLH_CELLS_GRANTED || status == WLH_CELLS_PENDING) {
    request->cookie = whole.cookie;
    request->cell = answer->request;
    request->marked = status == WLH_CELLS_GRANTED && answer->marked;
    bucket->by_cell[answer->request & (WLH_CELLS_MOST - 1)] = request;
  }
  return status;
}

void wlh_defer(struct wlh_bucket *bucket, struct wlh_item *item, enum wlh_op op)
{
  item->op = op;
  item->openings = bucket->openings;
  wlk_list_append(&bucket->deferred, &item->by_deferred);
  (void)__atomic_add_fetch(&bucket->deferred_count, 1, __ATOMIC_RELEASE);
}

void wlh_remove_deferred(struct wlh_bucket *bucket, struct wlh_item *item)
{
  if (wlk_list_is_empty(&item->by_deferred)) return;
  wlk_list_remove(&item->by_deferred);
  (void)__atomic_sub_fetch(&bucket->deferred_count, 1, __ATOMIC_RELEASE);
}

/* Ends a request that its agent has given up, and moves the record to the trash. */
static void end_deferred(struct wlh_bucket *bucket, struct wlh_request *request)
{
  if (request->cell && bucket->open) {
    (void)wlh_cells_end_the_request(&bucket->arena, request->cell, request->cookie);
  }
  wlh_forget_cell(bucket, request);
  wlk_mutex_lock(&bucket->qmu);
  wlh_move_to_trash(bucket, request);
  wlk_mutex_unlock(&bucket->qmu);
}

struct outcome {
  enum wlh_state state;
  uint32_t news; /* 0 if there is no event */
  uint32_t low;
  uint32_t high;
  const struct wlh_thief *thief; /* NULL if it was not stolen */
};

/* If the agent has given the request up meanwhile, ends it instead. */
static void finish_request(
    struct wlh_bucket *bucket, struct wlh_request *request, const struct outcome *outcome)
{
  wlk_mutex_lock(&bucket->qmu);
  request->item.doing = false;
  request->item.op = WLH_OP_NONE;
  bool given_up = request->item.gone;
  if (!given_up) {
    request->state = outcome->state;
    if (outcome->thief)
      wlh_post_theft(bucket, &request->item, outcome->thief);
    else if (outcome->news) {
      wlh_post_event(bucket, &request->item, outcome->news, outcome->low, outcome->high);
    }
  }
  wlk_mutex_unlock(&bucket->qmu); /* The request may be freed from here on, unless given up. */
  if (given_up) end_deferred(bucket, request);
}

/* Returns false if the request must wait for more free cells, or the tables are lost. */
static bool do_request(struct wlh_bucket *bucket, struct wlh_request *request)
{
  struct wlh_answer answer = {0};
  struct outcome outcome = {WLH_ENDED, WLH_NEWS_FAILED, WLH_FULL, 0, NULL};
  enum wlh_cells_status status = wlh_make_request(bucket, request, &request->ask, &answer);
  if (wlh_note_loss(bucket, status))
    return false; /* The request is made when the file is open again. */
  switch (status) {
  case WLH_CELLS_GRANTED:
    /* The agent must first receive a theft by this request, or of an earlier lock of its thread. */
    wlh_mailbox_drain(bucket);
    outcome.state = WLH_HELD;
    outcome.news = WLK_NEWS_GRANTED;
    outcome.low = (uint32_t)answer.token;
    outcome.high = (uint32_t)(answer.token >> 32);
    break;
  case WLH_CELLS_OK:
    outcome.news = WLK_NEWS_PASSED;
    break;
  case WLH_CELLS_PENDING:
    outcome.state = WLH_WAITING;
    outcome.news = 0;
    break;
  case WLH_CELLS_NOT_AVAILABLE:
    outcome.news = WLH_NEWS_NOT_AVAILABLE;
    break;
  case WLH_CELLS_OTHER_LIMIT:
    outcome.news = WLH_NEWS_OTHER_LIMIT;
    outcome.low = answer.limit;
    break;
  case WLH_CELLS_QUEUE_FULL:
    outcome.news = WLH_NEWS_QUEUE_FULL;
    break;
  case WLH_CELLS_FULL:
    if (!bucket->no_room && answer.needed != UINT32_MAX) {
      bucket->needed = answer.needed;
      return false;
    }
    break;
  default:
    break;
  }
  finish_request(bucket, request, &outcome);
  return true;
}

static void do_release(struct wlh_bucket *bucket, struct wlh_request *request)
{
  struct wlh_thief thief = {0};
  struct outcome outcome = {WLH_ENDED, WLH_NEWS_RELEASED, 0, 0, NULL};
  if (request->cell && bucket->open) {
    enum wlh_cells_status status = wlh_cells_release_the_lock(
        &bucket->arena, request->cell, request->cookie, request->keep, &thief);
    if (status == WLH_CELLS_STOLEN)
      outcome.thief = &thief;
    else if (wlh_note_loss(bucket, status))
      outcome.news = WLH_NEWS_LOST;
    wlh_forget_cell(bucket, request);
  } else {
    outcome.news = 0; /* An event has already reported a theft or a loss. */
  }
  finish_request(bucket, request, &outcome);
}

/* Leaves the records to wlh_empty_trash, which frees them. */
static void do_terminate(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  if (agent->cell && bucket->open) (void)wlh_cells_terminate_agent(&bucket->arena, agent->cell);
  agent->cell = 0;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_DRAIN (link, &agent->requests) {
    struct wlh_request *request = WLK_ITEM(link, struct wlh_request, by_agent);
    wlh_remove_deferred(bucket, &request->item);
    wlh_forget_cell(bucket, request);
    wlh_move_to_trash(bucket, request);
  }
  WLK_LIST_FOR_EACH (link, &agent->jobs) {
    wlh_remove_deferred(bucket, &WLK_ITEM(link, struct wlh_job, by_agent)->item);
  }
  wlk_list_remove(&agent->by_bucket);
  wlk_mutex_unlock(&bucket->qmu);
  wlk_list_append(&bucket->dead_agents, &agent->by_bucket);
}

/* If the request of a blocked thread waits for that thread itself, ends the request. Nothing else
 * can end it meanwhile: that requires mu, and the blocked thread stays in wlh_wait_for_the_lock. */
static void do_block(struct wlh_bucket *bucket, struct wlh_block *block)
{
  struct wlh_request *request = block->request;
  wlk_mutex_lock(&bucket->qmu);
  bool waits = request->state == WLH_WAITING;
  wlk_mutex_unlock(&bucket->qmu);
  bool ended =
      waits && wlh_cells_waits_for_itself(&bucket->arena, request->cell, request->cookie) &&
      !wlh_note_loss(
          bucket, wlh_cells_end_the_request(&bucket->arena, request->cell, request->cookie));
  if (ended) wlh_forget_cell(bucket, request);
  wlk_mutex_lock(&bucket->qmu);
  if (ended) {
    request->state = WLH_ENDED;
    wlh_post_event(bucket, &request->item, WLH_NEWS_FAILED, WLH_DEADLOCK, 0);
  }
  block->item.doing = false;
  block->item.op = WLH_OP_NONE;
  wlk_condition_broadcast(&block->item.agent->unblocked);
  wlk_mutex_unlock(&bucket->qmu); /* `block` may be gone from here on. */
}

/* The record of the lock may have been freed since, so the lock is found by its cookie. */
static struct wlh_request *find_lock(const struct wlh_job *job)
{
  WLK_LIST_FOR_EACH (link, &job->item.agent->requests) {
    struct wlh_request *request = WLK_ITEM(link, struct wlh_request, by_agent);
    if (request->cell && request->cookie == job->cookie) return request;
  }
  return NULL;
}

/* A lock that has ended meanwhile is not in the tables, which is no loss of the file. */
static enum wlh_cells_status publish(
    struct wlh_bucket *bucket, const struct wlh_job *job, uint32_t *needed)
{
  uint32_t cell = 0;
  wlk_mutex_lock(&bucket->qmu);
  struct wlh_request *lock = find_lock(job);
  if (lock) cell = lock->cell;
  wlk_mutex_unlock(&bucket->qmu);
  if (cell == 0) return WLH_CELLS_NOT_HELD;
  return wlh_cells_publish(&bucket->arena, cell, job->cookie, job->text, job->units, needed);
}

static enum wlh_status status_of_publish(enum wlh_cells_status status)
{
  if (status == WLH_CELLS_OK) return WLH_OK;
  return status == WLH_CELLS_FULL ? WLH_FULL : WLH_NOT_HELD;
}

/* Returns false if there is no room yet, and the job is the first deferred operation again. */
static bool do_publish(struct wlh_bucket *bucket, struct wlh_job *job)
{
  uint32_t needed = 0;
  enum wlh_cells_status status = publish(bucket, job, &needed);
  bool waits = status == WLH_CELLS_FULL && !bucket->no_room;
  if (waits) bucket->needed = needed;
  (void)wlh_note_loss(bucket, status);
  wlk_mutex_lock(&bucket->qmu);
  job->item.doing = false;
  if (job->item.gone) {
    wlh_free_job(job);
  } else if (waits) {
    wlk_list_prepend(&bucket->deferred, &job->item.by_deferred);
    (void)__atomic_add_fetch(&bucket->deferred_count, 1, __ATOMIC_RELEASE);
  } else {
    wlh_post_event(bucket, &job->item, WLH_NEWS_READY, status_of_publish(status), 0);
  }
  wlk_mutex_unlock(&bucket->qmu);
  return !waits;
}

/* Removes the first deferred operation from the list and returns it. If there is none, or if it is
 * a job for the helper, which stays in the list, returns NULL and sets `*done`. */
static struct wlh_item *take_deferred(struct wlh_bucket *bucket, enum wlh_done *done)
{
  struct wlh_item *item = NULL;
  *done = WLH_DONE_ALL;
  wlk_mutex_lock(&bucket->qmu);
  if (!wlk_list_is_empty(&bucket->deferred)) {
    item = WLK_ITEM(bucket->deferred.next, struct wlh_item, by_deferred);
    if (item->op == WLH_OP_READY || item->op == WLH_OP_SNAPSHOT) {
      *done = WLH_NEEDS_HELPER;
      item = NULL;
    } else {
      wlh_remove_deferred(bucket, item);
      item->doing = true;
    }
  }
  wlk_mutex_unlock(&bucket->qmu);
  return item;
}

/* Makes a request the first deferred operation again, or ends it if it was given up meanwhile. */
static void put_back(struct wlh_bucket *bucket, struct wlh_item *item)
{
  wlk_mutex_lock(&bucket->qmu);
  item->doing = false;
  bool given_up = item->gone;
  if (!given_up) {
    wlk_list_prepend(&bucket->deferred, &item->by_deferred);
    (void)__atomic_add_fetch(&bucket->deferred_count, 1, __ATOMIC_RELEASE);
  }
  wlk_mutex_unlock(&bucket->qmu);
  if (given_up) end_deferred(bucket, wlh_request_of(item));
}

enum wlh_done wlh_do_deferred(struct wlh_bucket *bucket, uint32_t most)
{
  enum wlh_done done;
  for (uint32_t i = 0; i < most; i++) {
    struct wlh_item *item = take_deferred(bucket, &done);
    if (!item) return done;
    switch (item->op) {
    case WLH_OP_TERMINATE:
      do_terminate(bucket, item->agent);
      break;
    case WLH_OP_RELEASE:
      do_release(bucket, wlh_request_of(item));
      break;
    case WLH_OP_REQUEST:
      if (do_request(bucket, wlh_request_of(item))) break;
      put_back(bucket, item);
      return WLH_NEEDS_ROOM;
    case WLH_OP_PUBLISH:
      if (do_publish(bucket, wlh_job_of(item))) break;
      return WLH_NEEDS_ROOM;
    case WLH_OP_BLOCK:
      do_block(bucket, (struct wlh_block *)(void *)item);
      break;
    default:
      end_deferred(bucket, wlh_request_of(item));
      break;
    }
  }
  return WLH_DONE_SOME;
}

/* Takes the first operation that needs no tables off the list. Returns NULL if there is none. */
static struct wlh_item *take_without_tables(struct wlh_bucket *bucket)
{
  struct wlh_item *found = NULL;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &bucket->deferred) {
    found = WLK_ITEM(link, struct wlh_item, by_deferred);
    if (found->op == WLH_OP_TERMINATE || found->op == WLH_OP_END || found->op == WLH_OP_RELEASE) {
      break;
    }
    found = NULL;
  }
  if (found) {
    wlh_remove_deferred(bucket, found);
    found->doing = true;
  }
  wlk_mutex_unlock(&bucket->qmu);
  return found;
}

void wlh_do_deferred_without_tables(struct wlh_bucket *bucket)
{
  struct wlh_item *item;
  while ((item = take_without_tables(bucket))) {
    if (item->op == WLH_OP_TERMINATE)
      do_terminate(bucket, item->agent);
    else if (item->op == WLH_OP_RELEASE)
      do_release(bucket, wlh_request_of(item));
    else
      end_deferred(bucket, wlh_request_of(item));
  }
}
