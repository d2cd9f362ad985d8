#include "events.h"

/* The caller must have qmu. */
static void mark_to_wake(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  if (agent->woken) return;
  agent->woken = true;
  wlk_list_append(&bucket->to_wake, &agent->by_wake);
}

/* Adds the news to the item's event, and notifies the agent as wlh_post_event says. */
static void note_event(struct wlh_bucket *bucket, struct wlh_item *item, uint32_t news)
{
  struct wlh_agent *agent = item->agent;
  item->event.news |= news;
  if (wlk_list_is_empty(&item->by_event)) wlk_list_append(&agent->events, &item->by_event);
  if (agent->awaited == item) {
    wlk_condition_broadcast(&agent->unblocked);
  } else if (agent != bucket->caller) {
    mark_to_wake(bucket, agent);
  }
}

void wlh_wake_caller(struct wlh_bucket *bucket, struct wlh_agent *agent)
{
  if (!wlk_list_is_empty(&agent->events)) mark_to_wake(bucket, agent);
}

void wlh_post_event(
    struct wlh_bucket *bucket, struct wlh_item *item, uint32_t news, uint32_t low, uint32_t high)
{
  if (item->gone || item->agent->terminating) return;
  item->event.token_low = low;
  item->event.token_high = high;
  note_event(bucket, item, news);
}

void wlh_post_theft(struct wlh_bucket *bucket, struct wlh_item *item, const struct wlh_thief *thief)
{
  if (item->gone || item->agent->terminating) return;
  item->event.thief_thread = (uint32_t)thief->id;
  item->event.thief_number = thief->number;
  item->event.thief_pid = thief->pid;
  note_event(bucket, item, WLK_NEWS_STOLEN);
}

void wlh_wake_agents(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_DRAIN (link, &bucket->to_wake) {
    struct wlh_agent *agent = WLK_ITEM(link, struct wlh_agent, by_wake);
    wlk_list_remove(link);
    agent->pins++;
    wlk_mutex_unlock(&bucket->qmu);
    agent->wake(agent->wake_data);
    wlk_mutex_lock(&bucket->qmu);
    if (--agent->pins == 0 && agent->terminating) wlk_condition_broadcast(&agent->unblocked);
  }
  wlk_mutex_unlock(&bucket->qmu);
}
