#include "mailbox.h"

#include "../segment/members.h"
#include "events.h"
#include "wake_up.h"

enum { MESSAGES = WLK_CAPACITY(32, 1) }; /* how many are taken at once */

static void deliver(struct wlh_bucket *bucket, const struct wlh_message *message)
{
  struct wlh_request *request =
      message->request < WLH_CELLS_MOST ? bucket->by_cell[message->request] : NULL;
  if (!request || request->cookie != message->cookie) return;
  bool stolen = (message->news & WLH_REPORTED_STOLEN) != 0;
  bool passed = (message->news & WLH_REPORTED_PASSED) != 0;
  if (stolen || passed) wlh_forget_cell(bucket, request);
  wlk_mutex_lock(&bucket->qmu);
  if (message->news & WLH_REPORTED_GRANTED) {
    if (request->state == WLH_WAITING) request->state = WLH_HELD;
    request->marked = message->marked;
    wlh_post_event(
        bucket, &request->item, WLK_NEWS_GRANTED, (uint32_t)message->token,
        (uint32_t)(message->token >> 32));
  }
  /* If a release was deferred, the theft is its result, and do_release sets the state. */
  if (stolen) {
    if (request->state != WLH_ENDING) request->state = WLH_ENDED;
    wlh_post_theft(bucket, &request->item, &message->thief);
  }
  if (passed) {
    if (request->state != WLH_ENDING) request->state = WLH_ENDED;
    wlh_post_event(bucket, &request->item, WLK_NEWS_PASSED, 0, 0);
  }
  wlk_mutex_unlock(&bucket->qmu); /* Its agent may free the request from here on. */
}

void wlh_mailbox_drain(struct wlh_bucket *bucket)
{
  struct wlh_message messages[MESSAGES];
  uint32_t count;
  uint32_t taken = 0;
  /* There are fewer messages than cells, so this limit ends the loop only if another process has
   * damaged the mailbox. */
  do {
    count = wlh_cells_take_messages(&bucket->arena, messages, MESSAGES);
    for (uint32_t i = 0; i < count; i++) deliver(bucket, &messages[i]);
    taken += count;
  } while (count == MESSAGES && taken < bucket->arena.ncells);
  if (count < MESSAGES) wlh_wake_up_acknowledge(bucket);
}
