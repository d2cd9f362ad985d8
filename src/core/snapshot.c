#include "snapshot.h"

#include "alloc.h"
#include "declaration.h"
#include "hash.h"
#include "section.h"

#include <string.h>

/* Sets `need`, and returns whether the allocated memory suffices for it. */
static bool check_room(struct wlk_writer *writer, struct wlk_room need)
{
  const struct wlk_room *room = &writer->room;
  writer->need = need;
  return writer->snapshot && room->locks >= need.locks && room->names >= need.names &&
         room->clients >= need.clients && room->units >= need.units;
}

/* The snapshot and its arrays are one block, the most aligned array first. */
static bool allocate(struct wlk_writer *writer, struct wlk_room room)
{
  struct wlk_snapshot *snapshot = wlk_alloc(
      sizeof *snapshot + room.names * sizeof *snapshot->names +
      room.clients * sizeof *snapshot->clients + room.locks * sizeof *snapshot->locks +
      room.units * sizeof *writer->units + room.clients * WLK_CLIENT_ID_SIZE);
  writer->snapshot = snapshot;
  if (!snapshot) return false;
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->names = (struct wlk_name *)(void *)(snapshot + 1);
  snapshot->clients = (struct wlk_client *)(void *)(snapshot->names + room.names);
  snapshot->locks = (struct wlk_lock_info *)(void *)(snapshot->clients + room.clients);
  writer->units = (uint16_t *)(void *)(snapshot->locks + room.locks);
  writer->client_ids = (char *)(writer->units + room.units);
  writer->room = room;
  return true;
}

/* Replaces the snapshot by an empty one with a quarter more room than `need`. */
static bool grow(struct wlk_writer *writer)
{
  const struct wlk_room *need = &writer->need;
  wlk_snapshot_free(writer->snapshot);
  return allocate(
      writer, (struct wlk_room){
                  need->locks + need->locks / 4,
                  need->names + need->names / 4,
                  need->clients + need->clients / 4,
                  need->units + need->units / 4,
              });
}

void wlk_snapshot_free(struct wlk_snapshot *snapshot)
{
  wlk_free(snapshot);
}

/* The writer must have room. */
static struct wlk_name copy_units(struct wlk_writer *writer, const uint16_t *units, uint32_t length)
{
  struct wlk_name copy = {writer->units, length};
  if (length > 0) memcpy(writer->units, units, length * sizeof *units);
  writer->units += length;
  return copy;
}

/* Returns the index of the name. The writer must have room. */
static uint32_t write_name(struct wlk_writer *writer, const uint16_t *units, uint32_t length)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  snapshot->names[snapshot->name_count] = copy_units(writer, units, length);
  return (uint32_t)snapshot->name_count++;
}

/* Sets the agent's `snapshot_index`, too. */
static void write_client(struct wlk_writer *writer, struct wlk_agent *agent)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  agent->snapshot_index = (uint32_t)snapshot->client_count;
  memcpy(writer->client_ids, agent->client_id, WLK_CLIENT_ID_SIZE);
  snapshot->clients[snapshot->client_count++] = (struct wlk_client){
      .id = writer->client_ids,
      .thread = copy_units(writer, agent->thread_name, agent->thread_name_length),
      .thread_id = agent->thread_id,
  };
  writer->client_ids += WLK_CLIENT_ID_SIZE;
}

/* Sets `now`, too, from which info_of computes ages. */
static void write_clients(struct wlk_writer *writer, struct wlk_process *process)
    WLK_REQUIRES(process->mutex)
{
  writer->now = wlk_port_now(false);
  WLK_LIST_FOR_EACH (link, &process->agents) {
    write_client(writer, WLK_ITEM(link, struct wlk_agent, by_process));
  }
}

static uint64_t age_of(const struct wlk_request *request, uint64_t now)
{
  return now > request->since ? now - request->since : 0;
}

/* Writes the request's label, if it has one, among the names. */
static struct wlk_lock_info info_of(
    struct wlk_writer *writer, const struct wlk_request *request, uint32_t name)
{
  bool held = request->state == WLK_STATE_HELD;
  uint32_t label = WLK_NO_TEXT, data = WLK_NO_TEXT;
  uint32_t length = wlk_label_length(request);
  uint64_t age = age_of(request, writer->now);
  if (length > 0) label = write_name(writer, wlk_declaration_label(request->declaration), length);
  length = wlk_data_length(request);
  if (length > 0) data = write_name(writer, request->declaration->data->units, length);
  return (struct wlk_lock_info){
      .name = name,
      .client = request->agent->snapshot_index,
      .mode = request->mode,
      .held = held,
      .label = label,
      .data = data,
      .limit = request->mode == WLK_SHARED ? request->resource->limit : 0,
      .weight = request->weight,
      .priority = wlk_priority(request),
      .age_low = (uint32_t)age,
      .age_high = (uint32_t)(age >> 32),
      .token_low = held ? (uint32_t)request->token : 0,
      .token_high = held ? (uint32_t)(request->token >> 32) : 0,
  };
}

static void write_locks(struct wlk_writer *writer, const struct wlk_link *list, uint32_t name)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  WLK_LIST_FOR_EACH (link, list) {
    struct wlk_lock_info info = info_of(writer, WLK_REQUEST_OF(link, by_resource), name);
    snapshot->locks[snapshot->lock_count++] = info;
  }
}

/* Returns the index of the name. The writer must have room. */
static uint32_t write_resource_name(struct wlk_writer *writer, const struct wlk_resource *resource)
{
  return write_name(writer, resource->name, resource->entry.length);
}

static struct wlk_room room_for_clients(const struct wlk_process *process)
{
  return (struct wlk_room){0, 0, process->agent_count, process->agent_count * WLK_THREAD_NAME_MOST};
}

/* ---- section 4.5, snapshot the lock state ---- */

static void add_part(struct wlk_room *need, const struct wlk_part *part)
{
  need->locks += part->requests;
  need->names += part->resources.count + part->texts;
  need->units += part->name_units;
}

static void write_part(struct wlk_writer *writer, const struct wlk_part *part)
{
  const struct wlk_table *table = &part->resources;
  for (struct wlk_entry *e = wlk_table_first(table); e; e = wlk_table_after(table, e)) {
    const struct wlk_resource *resource = WLK_ITEM(e, struct wlk_resource, entry);
    uint32_t name = write_resource_name(writer, resource);
    write_locks(writer, &resource->held, name);
    write_locks(writer, &resource->queue, name);
  }
}

/* Returns false if the snapshot is too small. The caller must have the mutexes of all shards as
 * well. */
static bool write_state(struct wlk_writer *writer, struct wlk_manager *manager)
    WLK_REQUIRES(manager->process->mutex)
{
  struct wlk_room need = room_for_clients(manager->process);
  for (int i = 0; i < WLK_SHARDS; i++) add_part(&need, &manager->parts[i]);
  if (!check_room(writer, need)) return false;
  write_clients(writer, manager->process);
  for (int i = 0; i < WLK_SHARDS; i++) write_part(writer, &manager->parts[i]);
  return true;
}

/* Section 4.5: https://www.w3.org/TR/2023/WD-web-locks-20230105/#snapshot-the-lock-state */
enum wlk_status wlk_snapshot_the_lock_state(
    struct wlk_manager *manager, struct wlk_snapshot **result)
{
  struct wlk_writer writer = WLK_WRITER_INIT;
  for (;;) {
    wlk_lock_everything(manager->process);
    bool written = write_state(&writer, manager);
    wlk_unlock_everything(manager->process);
    if (written) break;
    if (!grow(&writer)) return WLK_NO_MEMORY;
  }
  *result = writer.snapshot;
  return WLK_OK;
}

/* ---- snapshots of one name ---- */

static void add_texts(struct wlk_room *need, const struct wlk_request *request)
{
  need->names += wlk_text_count(request);
  need->units += wlk_text_units(request);
}

/* The index of a client that is not in the snapshot yet. */
#define NOT_WRITTEN UINT32_MAX

/* Marks the agents as not written yet, for write_clients_of. */
static void add_list(struct wlk_room *need, const struct wlk_link *list)
{
  WLK_LIST_FOR_EACH (link, list) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    request->agent->snapshot_index = NOT_WRITTEN;
    need->locks++;
    need->clients++;
    need->units += WLK_THREAD_NAME_MOST;
    add_texts(need, request);
  }
}

static void write_clients_of(struct wlk_writer *writer, const struct wlk_link *list)
{
  WLK_LIST_FOR_EACH (link, list) {
    struct wlk_agent *agent = WLK_REQUEST_OF(link, by_resource)->agent;
    if (agent->snapshot_index == NOT_WRITTEN) write_client(writer, agent);
  }
}

/* Returns false if the snapshot is too small. */
static bool write_resource(
    struct wlk_writer *writer, const struct wlk_resource *resource, bool pending)
{
  struct wlk_room need = {0, 1, 0, resource->entry.length};
  add_list(&need, &resource->held);
  if (pending) add_list(&need, &resource->queue);
  if (!check_room(writer, need)) return false;
  writer->now = wlk_port_now(false);
  write_clients_of(writer, &resource->held);
  if (pending) write_clients_of(writer, &resource->queue);
  uint32_t name = write_resource_name(writer, resource);
  write_locks(writer, &resource->held, name);
  if (pending) write_locks(writer, &resource->queue, name);
  return true;
}

/* Returns false if the snapshot is too small. For an unknown name it stays empty. The caller must
 * have the mutex of the name's shard as well. */
static bool write_name_of(
    struct wlk_writer *writer, struct wlk_manager *manager, const struct wlk_entry *key,
    bool pending) WLK_REQUIRES(manager->process->mutex)
{
  const struct wlk_part *part = &manager->parts[wlk_shard_of(key->hash)];
  const struct wlk_entry *entry = wlk_table_find(&part->resources, key);
  if (!entry) return check_room(writer, (struct wlk_room){0, 0, 0, 0});
  return write_resource(writer, WLK_ITEM(entry, struct wlk_resource, entry), pending);
}

enum wlk_status wlk_snapshot_a_name(
    struct wlk_manager *manager, const uint16_t *name, uint32_t length, bool pending,
    struct wlk_snapshot **result)
{
  struct wlk_writer writer = WLK_WRITER_INIT;
  struct wlk_process *process = manager->process;
  struct wlk_entry key = {NULL, wlk_hash(process->hash_key, name, length), name, length};
  struct wlk_mutex *mutex = &process->shards[wlk_shard_of(key.hash)].mutex;
  for (;;) {
    wlk_mutex_lock(mutex);
    wlk_mutex_lock(&manager->process->mutex); /* The mutex guards `snapshot_index` of agents. */
    bool written = write_name_of(&writer, manager, &key, pending);
    wlk_mutex_unlock(&manager->process->mutex);
    wlk_mutex_unlock(mutex);
    if (written) break;
    if (!grow(&writer)) return WLK_NO_MEMORY;
  }
  *result = writer.snapshot;
  return WLK_OK;
}

/* ---- the cycle of a deadlock ---- */

static void add_pair(
    struct wlk_room *need, const struct wlk_request *request, const struct wlk_request *other)
{
  need->locks += 2;
  need->names++;
  need->units += request->resource->entry.length;
  add_texts(need, request);
  add_texts(need, other);
}

static void write_pair(
    struct wlk_writer *writer, struct wlk_lock_info *infos, const struct wlk_request *request,
    const struct wlk_request *other)
{
  uint32_t name = write_resource_name(writer, request->resource);
  infos[0] = info_of(writer, request, name);
  infos[1] = info_of(writer, other, name);
}

void wlk_cycle_write_pair(
    struct wlk_cycle *cycle, struct wlk_process *process, const struct wlk_request *request,
    const struct wlk_request *ahead)
{
  struct wlk_writer *writer = &cycle->writer;
  struct wlk_room need = room_for_clients(process);
  add_pair(&need, request, ahead);
  cycle->written = check_room(writer, need);
  if (!cycle->written) return;
  write_clients(writer, process);
  writer->snapshot->lock_count = 2;
  write_pair(writer, writer->snapshot->locks, request, ahead);
}

void wlk_cycle_write(
    struct wlk_cycle *cycle, struct wlk_process *process, struct wlk_declaration *end,
    struct wlk_request *last)
{
  struct wlk_writer *writer = &cycle->writer;
  struct wlk_room need = room_for_clients(process);
  struct wlk_request *lock = last;
  for (struct wlk_declaration *d = end; d; lock = d->through, d = d->waiting) {
    add_pair(&need, d->request, lock);
  }
  cycle->written = check_room(writer, need);
  if (!cycle->written) return;

  write_clients(writer, process);
  struct wlk_lock_info *infos = writer->snapshot->locks;
  size_t i = writer->snapshot->lock_count = need.locks;
  lock = last;
  for (struct wlk_declaration *d = end; d; lock = d->through, d = d->waiting) {
    i -= 2;
    write_pair(writer, infos + i, d->request, lock);
  }
}

bool wlk_cycle_grow(struct wlk_cycle *cycle, enum wlk_status *status)
{
  if (cycle->written) return false;
  if (grow(&cycle->writer)) return true;
  *status = WLK_NO_MEMORY;
  return false;
}

void wlk_cycle_finish(
    struct wlk_cycle *cycle, enum wlk_status status, struct wlk_snapshot **snapshot)
{
  if (status == WLK_DEADLOCK)
    *snapshot = cycle->writer.snapshot;
  else
    wlk_snapshot_free(cycle->writer.snapshot);
}
