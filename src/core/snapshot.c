/* Section 4.5: snapshot the lock state. */
#include "agent.h"
#include "alloc.h"
#include "manager.h"
#include "resource.h"

#include <string.h>

/* How much a snapshot needs: room for so many of each. */
struct need {
  size_t locks, names, clients, units;
};

static struct need need_of(const struct wlk_manager *manager)
{
  return (struct need){
      manager->requests,
      manager->resources.count,
      manager->process->agent_count,
      manager->name_units,
  };
}

static bool has_room(const struct need *room, const struct need *need)
{
  return room->locks >= need->locks && room->names >= need->names &&
         room->clients >= need->clients && room->units >= need->units;
}

/* What fills a snapshot, and where the next of each goes. */
struct writer {
  struct wlk_snapshot *snapshot;
  uint16_t *units;
  char (*client_ids)[WLK_CLIENT_ID_SIZE];
};

/* One block: the snapshot, then its arrays, the most aligned first. */
static bool allocate(struct writer *writer, const struct need *room)
{
  struct wlk_snapshot *snapshot = wlk_alloc(
      sizeof *snapshot + room->names * sizeof *snapshot->names +
      room->clients * sizeof *snapshot->client_ids + room->locks * sizeof *snapshot->locks +
      room->units * sizeof *writer->units + room->clients * sizeof *writer->client_ids);
  if (!snapshot) return false;
  memset(snapshot, 0, sizeof *snapshot);
  snapshot->names = (struct wlk_name *)(void *)(snapshot + 1);
  snapshot->client_ids = (const char **)(void *)(snapshot->names + room->names);
  snapshot->locks = (struct wlk_lock_info *)(void *)(snapshot->client_ids + room->clients);
  writer->snapshot = snapshot;
  writer->units = (uint16_t *)(void *)(snapshot->locks + room->locks);
  writer->client_ids = (char(*)[WLK_CLIENT_ID_SIZE])(void *)(writer->units + room->units);
  return true;
}

static void write_clients(struct writer *writer, struct wlk_process *process)
    WLK_REQUIRES(process->mutex)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  WLK_LIST_FOR_EACH (link, &process->agents) {
    struct wlk_agent *agent = WLK_ITEM(link, struct wlk_agent, by_process);
    agent->snapshot_index = (uint32_t)snapshot->client_count;
    memcpy(*writer->client_ids, agent->client_id, sizeof agent->client_id);
    snapshot->client_ids[snapshot->client_count++] = *writer->client_ids++;
  }
}

static void write_locks(struct writer *writer, const struct wlk_link *list, bool held)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  WLK_LIST_FOR_EACH (link, list) {
    const struct wlk_request *request = WLK_REQUEST_OF(link, by_resource);
    snapshot->locks[snapshot->lock_count++] = (struct wlk_lock_info){
        .name = (uint32_t)snapshot->name_count - 1,
        .client = request->agent->snapshot_index,
        .mode = request->mode,
        .held = held,
    };
  }
}

static void write_resource(struct writer *writer, const struct wlk_resource *resource)
{
  struct wlk_snapshot *snapshot = writer->snapshot;
  uint32_t length = resource->entry.length;
  if (length > 0) memcpy(writer->units, resource->name, length * sizeof *writer->units);
  snapshot->names[snapshot->name_count++] = (struct wlk_name){writer->units, length};
  writer->units += length;
  write_locks(writer, &resource->held, true);
  write_locks(writer, &resource->queue, false);
}

static void write_all(
    struct writer *writer, struct wlk_process *process, struct wlk_manager *manager)
    WLK_REQUIRES(process->mutex)
{
  const struct wlk_table *table = &manager->resources;
  write_clients(writer, process);
  for (struct wlk_entry *e = wlk_table_first(table); e; e = wlk_table_after(table, e))
    write_resource(writer, WLK_ITEM(e, struct wlk_resource, entry));
}

/* Memory is allocated without the mutex, so the state can have outgrown it when the mutex is taken
 * again. Each round asks for a quarter more than was needed, so a further round needs the state to
 * have grown that much meanwhile. */
enum wlk_status wlk_snapshot_the_lock_state(
    struct wlk_manager *manager, struct wlk_snapshot **result)
{
  struct wlk_process *process = manager->process;
  struct writer writer = {NULL, NULL, NULL};
  struct need room = {0, 0, 0, 0};
  for (;;) {
    wlk_mutex_lock(&process->mutex);
    struct need need = need_of(manager);
    bool fits = writer.snapshot && has_room(&room, &need);
    if (fits) write_all(&writer, process, manager);
    wlk_mutex_unlock(&process->mutex);
    if (fits) break;

    wlk_snapshot_free(writer.snapshot);
    room = (struct need){
        need.locks + need.locks / 4,
        need.names + need.names / 4,
        need.clients + need.clients / 4,
        need.units + need.units / 4,
    };
    if (!allocate(&writer, &room)) return WLK_NO_MEMORY;
  }
  *result = writer.snapshot;
  return WLK_OK;
}

void wlk_snapshot_free(struct wlk_snapshot *snapshot)
{
  wlk_free(snapshot);
}
