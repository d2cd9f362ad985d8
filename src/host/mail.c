#include "mail.h"

#include "bell.h"
#include "members.h"
#include "news.h"

enum { LETTERS = 32 }; /* taken at once */

static void deliver(struct wlh_bucket *bucket, const struct wlh_letter *letter)
{
  struct wlh_request *request =
      letter->request < WLH_CELLS_MOST ? bucket->by_cell[letter->request] : NULL;
  if (!request || request->cookie != letter->cookie) return;
  bool stolen = (letter->news & WLH_TOLD_STOLEN) != 0;
  bool passed = (letter->news & WLH_TOLD_PASSED) != 0;
  if (stolen || passed) wlh_forget_cell(bucket, request);
  wlk_mutex_lock(&bucket->qmu);
  if (letter->news & WLH_TOLD_GRANTED) {
    if (request->state == WLH_WAITING) request->state = WLH_HELD;
    wlh_tell(
        bucket, &request->item, WLK_NEWS_GRANTED, (uint32_t)letter->token,
        (uint32_t)(letter->token >> 32));
  }
  /* This also answers a deferred release. */
  if (stolen) {
    if (request->state != WLH_ENDING) request->state = WLH_ENDED;
    wlh_tell_theft(bucket, &request->item, &letter->thief);
  }
  if (passed) {
    if (request->state != WLH_ENDING) request->state = WLH_ENDED;
    wlh_tell(bucket, &request->item, WLK_NEWS_PASSED, 0, 0);
  }
  wlk_mutex_unlock(&bucket->qmu); /* it may be gone from here on */
}

void wlh_mail_take(struct wlh_bucket *bucket)
{
  struct wlh_letter letters[LETTERS];
  uint32_t count;
  uint32_t taken = 0;
  /* There are fewer letters than cells, whatever others write meanwhile. */
  do {
    count = wlh_cells_take_mail(&bucket->arena, letters, LETTERS);
    for (uint32_t i = 0; i < count; i++) deliver(bucket, &letters[i]);
    taken += count;
  } while (count == LETTERS && taken < bucket->arena.ncells);
  if (count < LETTERS) wlh_bell_hush(bucket);
}
