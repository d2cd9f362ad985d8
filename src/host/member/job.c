#include "job.h"

#include "../segment/rebuild.h"
#include "events.h"
#include "section.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void wlh_record_job_failure(struct wlh_item *item, enum wlh_status status)
{
  wlh_job_of(item)->status = status;
}

enum { CLIENT_ID_ROOM = 24, VIEW_KEPT = WLK_CAPACITY(1024, 1) };

/* A snapshot is one block of memory. These are the offsets of its parts, and its size. */
struct parts {
  size_t locks, names, clients, tokens, pids, ids, units, size;
};

/* Returns the aligned offset of the part, and moves `*at` to its end. */
static size_t add_part(size_t *at, size_t count, size_t size)
{
  size_t begin = (*at + 7) & ~(size_t)7;
  *at = begin + count * size;
  return begin;
}

static struct parts measure(const struct wlh_view *view)
{
  struct parts parts;
  size_t entries = view->entry_count;
  size_t clients = view->client_count;
  size_t at = sizeof(struct wlh_snapshot);
  parts.locks = add_part(&at, entries, sizeof(struct wlk_lock_info));
  parts.names = add_part(&at, 3 * entries, sizeof(struct wlk_name));
  parts.clients = add_part(&at, clients, sizeof(struct wlk_client));
  parts.tokens = add_part(&at, entries, sizeof(uint64_t));
  parts.pids = add_part(&at, clients, sizeof(uint32_t));
  parts.ids = add_part(&at, clients, CLIENT_ID_ROOM);
  parts.units = add_part(&at, view->unit_count, sizeof(uint16_t));
  parts.size = at;
  return parts;
}

static uint64_t age_of(uint64_t since, uint64_t now)
{
  return now > since ? now - since : 0;
}

static uint32_t add_name(struct wlk_snapshot *base, const uint16_t *units, uint32_t length)
{
  if (length == 0) return WLK_NO_TEXT;
  base->names[base->name_count] = (struct wlk_name){units, length};
  return (uint32_t)base->name_count++;
}

static void add_locks(
    const struct wlh_view *view, const uint16_t *units, struct wlh_snapshot *snapshot, uint64_t now)
{
  struct wlk_snapshot *base = &snapshot->base;
  for (uint32_t i = 0; i < view->entry_count; i++) {
    const struct wlh_entry *entry = &view->entries[i];
    /* All entries of a name are adjacent, and have the same range. */
    bool same = i > 0 && entry[-1].name == entry->name && entry[-1].name_units == entry->name_units;
    uint32_t name = same ? base->locks[i - 1].name : (uint32_t)base->name_count++;
    base->names[name] = (struct wlk_name){units + entry->name, entry->name_units};
    uint32_t label = add_name(base, units + entry->label, entry->label_units);
    uint32_t data = add_name(base, units + entry->data, entry->data_units);
    uint64_t age = age_of(entry->since, now);
    base->locks[i] = (struct wlk_lock_info){
        name,
        entry->client,
        entry->mode,
        entry->held,
        label,
        data,
        entry->limit,
        entry->weight,
        entry->priority,
        (uint32_t)age,
        (uint32_t)(age >> 32),
        (uint32_t)entry->token,
        (uint32_t)(entry->token >> 32)};
    snapshot->tokens[i] = entry->token;
  }
}

static struct wlh_snapshot *make_snapshot(const struct wlh_view *view)
{
  struct parts parts = measure(view);
  char *memory = calloc(1, parts.size);
  if (!memory) return NULL;
  struct wlh_snapshot *snapshot = (struct wlh_snapshot *)(void *)memory;
  struct wlk_snapshot *base = &snapshot->base;
  uint16_t *units = (uint16_t *)(void *)(memory + parts.units);
  if (view->unit_count > 0) memcpy(units, view->units, view->unit_count * sizeof *units);
  base->locks = (struct wlk_lock_info *)(void *)(memory + parts.locks);
  base->names = (struct wlk_name *)(void *)(memory + parts.names);
  base->clients = (struct wlk_client *)(void *)(memory + parts.clients);
  snapshot->tokens = (uint64_t *)(void *)(memory + parts.tokens);
  snapshot->pids = (uint32_t *)(void *)(memory + parts.pids);
  base->lock_count = view->entry_count;
  base->client_count = view->client_count;
  for (uint32_t i = 0; i < view->client_count; i++) {
    const struct wlh_client *client = &view->clients[i];
    char *id = memory + parts.ids + (size_t)i * CLIENT_ID_ROOM;
    (void)snprintf(id, CLIENT_ID_ROOM, "%08x-%u", (unsigned)(uint32_t)client->id, client->number);
    base->clients[i] =
        (struct wlk_client){id, {units + client->name, client->name_units}, client->thread};
    snapshot->pids[i] = client->pid;
  }
  add_locks(view, units, snapshot, wlk_port_now(false));
  return snapshot;
}

/* Does nothing if `count` items fit. Returns false if out of memory. */
static bool grow_part(void **items, uint32_t *capacity, uint32_t count, size_t size)
{
  if (count <= *capacity) return true;
  uint32_t wanted = count + count / 4 + WLK_CAPACITY(16, 0);
  void *grown = realloc(*items, wanted * size);
  if (!grown) return false;
  *items = grown;
  *capacity = wanted;
  return true;
}

static bool grow_view(struct wlh_view *view)
{
  void *entries = view->entries;
  void *clients = view->clients;
  void *units = view->units;
  bool grown = grow_part(&entries, &view->entry_capacity, view->entry_count, sizeof *view->entries);
  view->entries = entries;
  grown = grown &&
          grow_part(&clients, &view->client_capacity, view->client_count, sizeof *view->clients);
  view->clients = clients;
  grown = grown && grow_part(&units, &view->unit_capacity, view->unit_count, sizeof *view->units);
  view->units = units;
  return grown;
}

/* The next snapshot may be small, so the memory of a large snapshot is freed. */
static void free_large_view(struct wlh_view *view)
{
  if (view->entry_capacity <= VIEW_KEPT && view->client_capacity <= VIEW_KEPT &&
      view->unit_capacity <= VIEW_KEPT * WLH_TEXT_UNITS)
    return;
  wlh_view_free(view);
  *view = (struct wlh_view){0};
}

static enum wlh_status find_holders(
    struct wlh_segment *segment, uint64_t bytes, const uint16_t *name, uint32_t length,
    struct wlh_view *view)
{
  enum wlh_cells_status status;
  do {
    status = wlh_cells_find_holders(segment, bytes, name, length, view);
    if (status == WLH_CELLS_FULL && !grow_view(view)) return WLH_NO_MEMORY;
  } while (status == WLH_CELLS_FULL);
  return status == WLH_CELLS_OK ? WLH_OK : WLH_LOST;
}

enum wlh_status wlh_find_holders(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, struct wlh_snapshot **snapshot)
{
  struct wlh_bucket *bucket = agent->bucket;
  struct wlh_view view = {0};
  if (wlh_is_forked(bucket)) return WLH_LOST;
  struct wlh_segment *segment = wlh_begin_look(bucket);
  if (!segment) return WLH_LOST;
  enum wlh_status status = find_holders(segment, bucket->seen_bytes, name, length, &view);
  wlh_end_look(bucket, segment);
  *snapshot = status == WLH_OK ? make_snapshot(&view) : NULL;
  if (status == WLH_OK && !*snapshot) status = WLH_NO_MEMORY;
  wlh_view_free(&view);
  return status;
}

/* Removes dead members first. */
static enum wlh_cells_status fill_view(struct wlh_bucket *bucket, struct wlh_job *job)
{
  (void)wlh_cells_reap(&bucket->arena);
  if (!job->text) return wlh_cells_snapshot_the_lock_state(&bucket->arena, &bucket->view);
  return wlh_cells_snapshot_a_name(
      &bucket->arena, job->text, job->units, job->pending, &bucket->view);
}

/* The caller must be outside. On WLH_OK, the snapshot is the `answer` of the job. */
static enum wlh_status take_snapshot(struct wlh_bucket *bucket, struct wlh_job *job)
{
  enum wlh_cells_status status;
  do {
    if (wlh_enter(bucket) != WLH_IN) return WLH_LOST;
    status = fill_view(bucket, job);
    wlh_leave_tables(bucket);
    if (status == WLH_CELLS_FULL && !grow_view(&bucket->view)) return WLH_NO_MEMORY;
  } while (status == WLH_CELLS_FULL);
  if (status != WLH_CELLS_OK || wlh_is_lost(bucket)) return WLH_LOST;
  job->answer = make_snapshot(&bucket->view);
  free_large_view(&bucket->view);
  return job->answer ? WLH_OK : WLH_NO_MEMORY;
}

void wlh_do_job(struct wlh_bucket *bucket)
{
  struct wlh_item *item = NULL;
  wlk_mutex_lock(&bucket->qmu);
  if (!wlk_list_is_empty(&bucket->deferred)) {
    item = WLK_ITEM(bucket->deferred.next, struct wlh_item, by_deferred);
    if (item->op == WLH_OP_READY || item->op == WLH_OP_SNAPSHOT) {
      wlh_remove_deferred(bucket, item);
      item->doing = true;
    } else {
      item = NULL;
    }
  }
  wlk_mutex_unlock(&bucket->qmu);
  if (!item) return;
  /* While the job is `doing`, its agent does not free it. */
  struct wlh_job *job = wlh_job_of(item);
  bool snapshot = item->op == WLH_OP_SNAPSHOT;
  enum wlh_status status = snapshot ? take_snapshot(bucket, job) : WLH_OK;
  wlk_mutex_lock(&bucket->qmu);
  item->doing = false;
  job->status = status;
  wlh_post_event(bucket, item, snapshot ? WLH_NEWS_SNAPSHOT : WLH_NEWS_READY, (uint32_t)status, 0);
  if (item->gone) wlh_free_job(job);
  wlk_mutex_unlock(&bucket->qmu);
}
