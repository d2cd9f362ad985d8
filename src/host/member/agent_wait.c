/* How a thread blocks until the result of its request or job is known. */
#include "agents.h"
#include "deferred.h"
#include "helper.h"
#include "section.h"

/* Defers the check whether the request waits for its own thread, because the check must follow the
 * operations that are already deferred. It is done at once if the tables can be entered now,
 * otherwise by the thread that enters next. */
static void check_own_deadlock(struct wlh_bucket *bucket, struct wlh_block *block)
{
  wlk_mutex_lock(&bucket->qmu);
  block->item.agent->awaited = &block->request->item; /* News about the request then wake this
                                                         call, not the event loop. */
  wlh_defer(bucket, &block->item, WLH_OP_BLOCK);
  wlk_mutex_unlock(&bucket->qmu);
  if (wlh_try_enter(bucket, NULL))
    wlh_leave(bucket);
  else
    (void)wlh_helper_start(bucket);
}

/* If another thread has begun the check, waits until it is done. */
static void cancel_check(struct wlh_bucket *bucket, struct wlh_block *block)
    WLK_REQUIRES(bucket->qmu)
{
  wlh_remove_deferred(bucket, &block->item);
  while (block->item.doing) {
    wlk_condition_wait(&block->item.agent->unblocked, &bucket->qmu);
  }
}

/* Waits for news about `awaited`, at most `timeout` milliseconds, and then clears `awaited`. */
static void wait_for_news(struct wlh_bucket *bucket, struct wlh_agent *agent, uint64_t timeout)
    WLK_REQUIRES(bucket->qmu)
{
  uint64_t now = wlk_port_now(true);
  uint64_t end = timeout > UINT64_MAX - now ? UINT64_MAX : now + timeout;
  while (agent->awaited->event.news == 0 && now < end) {
    wlk_condition_wait_for(&agent->unblocked, &bucket->qmu, end - now);
    now = wlk_port_now(true);
  }
  agent->awaited = NULL;
}

enum wlh_status wlh_wait_for_the_lock(
    struct wlh_request *request, uint64_t timeout, struct wlk_events *events)
{
  struct wlh_agent *agent = request->item.agent;
  struct wlh_bucket *bucket = agent->bucket;
  enum wlh_status status = WLH_PENDING;
  struct wlh_block block;
  events->count = 0;
  if (wlh_is_forked(bucket)) return WLH_LOST;
  wlh_init_item(&block.item, agent, 0);
  block.request = request;
  wlh_stop_hearing(bucket);
  check_own_deadlock(bucket, &block);
  wlk_mutex_lock(&agent->bucket->qmu);
  wait_for_news(agent->bucket, agent, timeout);
  cancel_check(agent->bucket, &block);
  struct wlh_end_result check = wlh_take_end(agent->bucket, request, &status, events);
  if (!check.ended && (request->item.event.news & WLK_NEWS_GRANTED)) {
    status = WLH_GRANTED;
    events->token = (uint64_t)request->item.event.token_high << 32 | request->item.event.token_low;
    wlh_drop_event(request);
  }
  /* The thread must receive the theft of a lock before a later grant, so its events are taken. */
  if (status != WLH_PENDING) wlh_take_events(agent, events);
  wlk_mutex_unlock(&agent->bucket->qmu);
  if (check.ours) wlh_recycle_request(agent, request);
  return status;
}

/* The caller must have qmu. */
static struct wlh_item *find_job(struct wlh_agent *agent, uint32_t tag)
{
  WLK_LIST_FOR_EACH (link, &agent->jobs) {
    struct wlh_item *item = &WLK_ITEM(link, struct wlh_job, by_agent)->item;
    if (!item->gone && item->event.tag == tag) return item;
  }
  return NULL;
}

void wlh_wait_for_job(
    struct wlh_agent *agent, uint32_t tag, uint64_t timeout, struct wlk_events *events)
{
  struct wlh_bucket *bucket = agent->bucket;
  events->count = 0;
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&agent->bucket->qmu);
  agent->awaited = find_job(agent, tag);
  if (agent->awaited) wait_for_news(agent->bucket, agent, timeout);
  wlh_take_events(agent, events);
  wlk_mutex_unlock(&agent->bucket->qmu);
}
