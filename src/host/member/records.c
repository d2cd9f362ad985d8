#include "records.h"

#include "../segment/arena.h"

#include <stdlib.h>

bool wlh_note_loss(struct wlh_bucket *bucket, enum wlh_cells_status status)
{
  if (status == WLH_CELLS_POISONED) wlh_set_lost(bucket, "is damaged");
  if (status == WLH_CELLS_LOST) wlh_set_lost(bucket, "lists this process as dead");
  return wlh_is_lost(bucket);
}

void wlh_wake_helper(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  if (bucket->alarm.rings >= 0) wlh_port_poke(bucket->alarm);
  wlk_mutex_unlock(&bucket->qmu);
}

void wlh_stop_hearing(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  bool heard = bucket->hearer != NULL;
  bucket->hearer = NULL;
  wlk_mutex_unlock(&bucket->qmu);
  if (heard) wlh_wake_helper(bucket); /* Its wait does not include the datagram socket. */
}

void wlh_show_tables(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  bucket->seen = bucket->port.map;
  bucket->seen_bytes = bucket->port.map_size;
  wlk_mutex_unlock(&bucket->qmu);
}

struct wlh_segment *wlh_begin_look(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  struct wlh_segment *segment = bucket->seen;
  if (segment && bucket->lookers++ == 0) wlh_cells_begin_look(segment, bucket->arena.member);
  wlk_mutex_unlock(&bucket->qmu);
  return segment;
}

void wlh_end_look(struct wlh_bucket *bucket, struct wlh_segment *segment)
{
  if (!segment) return;
  wlk_mutex_lock(&bucket->qmu);
  if (--bucket->lookers == 0) {
    bool slack = wlh_cells_end_look(segment, bucket->arena.member);
    /* Another process could not give space back while we were reading, so the helper must do so. */
    if (slack && bucket->alarm.rings >= 0) wlh_port_poke(bucket->alarm);
    wlk_condition_broadcast(&bucket->ended);
  }
  wlk_mutex_unlock(&bucket->qmu);
}

void wlh_hide_tables(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  bucket->seen = NULL;
  while (bucket->lookers > 0) wlk_condition_wait(&bucket->ended, &bucket->qmu);
  wlk_mutex_unlock(&bucket->qmu);
}

static void free_record(struct wlh_request *request)
{
  if (!request) return;
  free(request->text);
  free(request);
}

void wlh_view_free(struct wlh_view *view)
{
  free(view->entries);
  free(view->clients);
  free(view->units);
}

void wlh_snapshot_free(struct wlh_snapshot *snapshot)
{
  free(snapshot);
}

static void free_job_memory(struct wlh_job *job)
{
  wlk_list_remove(&job->item.by_event);
  wlh_snapshot_free(job->answer);
  free(job->text);
  free(job);
}

void wlh_free_job(struct wlh_job *job)
{
  wlk_list_remove(&job->by_agent);
  free_job_memory(job);
}

static void free_agent(struct wlh_agent *agent)
{
  WLK_LIST_DRAIN (link, &agent->jobs) {
    struct wlh_job *job = WLK_ITEM(link, struct wlh_job, by_agent);
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list */
    wlk_list_remove(link);
    free_job_memory(job);
  }
  wlk_condition_destroy(&agent->unblocked);
  free_record(agent->spare);
  free(agent);
}

void wlh_forget_cell(struct wlh_bucket *bucket, struct wlh_request *request)
{
  if (request->cell && bucket->by_cell) bucket->by_cell[request->cell] = NULL;
  request->cell = 0;
}

void wlh_move_to_trash(struct wlh_bucket *bucket, struct wlh_request *request)
{
  wlk_list_remove(&request->by_agent);
  wlk_list_remove(&request->item.by_event);
  wlk_list_append(&bucket->trash, &request->by_trash);
}

void wlh_empty_trash(struct wlh_bucket *bucket)
{
  WLK_LIST_DRAIN (link, &bucket->trash) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list */
    wlk_list_remove(link);
    free_record(WLK_ITEM(link, struct wlh_request, by_trash));
  }
  WLK_LIST_DRAIN (link, &bucket->dead_agents) {
    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): what is freed was taken out of the list */
    wlk_list_remove(link);
    free_agent(WLK_ITEM(link, struct wlh_agent, by_bucket));
  }
}
