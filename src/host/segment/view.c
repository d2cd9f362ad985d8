#include "view.h"

#include "lists.h"
#include "names.h"
#include "pool.h"
#include "queue.h"

struct viewing {
  struct wlh_arena *arena;
  struct wlh_view *view;
  uint32_t steps; /* requests that were read */
};

/* Returns where to write a text, or NULL if it does not fit. More text than all cells can hold is
 * damage, for which the caller must not allocate memory. */
static uint16_t *reserve(struct viewing *viewing, uint32_t units, uint32_t *at)
{
  struct wlh_view *view = viewing->view;
  *at = view->unit_count;
  if (units > viewing->arena->ncells * WLH_TEXT_UNITS - view->unit_count) {
    wlh_note_damage(viewing->arena);
    return NULL;
  }
  view->unit_count += units;
  return view->unit_count <= view->unit_capacity && units > 0 ? view->units + *at : NULL;
}

static void add_text(
    struct viewing *viewing, uint32_t first, uint32_t units, uint32_t *at, uint32_t *length)
{
  uint16_t *to = reserve(viewing, units, at);
  if (to) wlh_text_copy(viewing->arena, first, to, units);
  *length = units;
}

/* The mark of an agent is its index in this snapshot, if the client at that index is this agent. If
 * the capacity is too small, an agent may be counted more than once. */
static uint32_t add_client(struct viewing *viewing, uint32_t agent)
{
  struct wlh_view *view = viewing->view;
  struct wlh_agent_cell *cell = wlh_agent_at(viewing->arena, agent);
  uint32_t known = wlh_read(&cell->mark);
  if (known < view->client_count && known < view->client_capacity &&
      view->clients[known].agent == agent)
    return known;
  uint32_t index = view->client_count++;
  if (index >= view->client_capacity) return index;
  const struct wlh_member *member = wlh_member_at(viewing->arena, cell->member);
  struct wlh_client client = {
      .id = member->id,
      .member = cell->member & (WLH_MEMBERS - 1),
      .pid = member->pid,
      .thread = cell->thread,
      .number = cell->number,
      .agent = agent,
  };
  uint32_t units = wlh_read_length(viewing->arena, &cell->units, WLH_THREAD_NAME_UNITS);
  add_text(viewing, cell->name, units, &client.name, &client.name_units);
  view->clients[index] = client;
  if (!viewing->arena->outside) WLH_PUT(cell->mark, index);
  return index;
}

/* Adds the client of the request to the view, too. */
static struct wlh_entry entry_of(struct viewing *viewing, uint32_t request, uint32_t limit)
{
  const struct wlh_request_cell *cell = wlh_request_at(viewing->arena, request);
  /* The token is read first. A reader outside reads it again at the end (is_still_held). */
  uint64_t token = __atomic_load_n(&cell->token, __ATOMIC_ACQUIRE);
  bool held = wlh_is_held(cell->kind);
  return (struct wlh_entry){
      .client = add_client(viewing, cell->agent),
      .mode = cell->mode & 1,
      .held = held,
      .limit = cell->weight > 0 ? wlh_limit_number(limit) : 0,
      .weight = cell->weight,
      .priority = cell->priority,
      .since = cell->since,
      .token = held ? token : 0,
      .request = request,
  };
}

static void add_entry(struct viewing *viewing, uint32_t request, const struct wlh_entry *name)
{
  struct wlh_view *view = viewing->view;
  const struct wlh_request_cell *cell = wlh_request_at(viewing->arena, request);
  uint32_t limit = wlh_resource_at(viewing->arena, cell->resource)->limit;
  struct wlh_entry entry = entry_of(viewing, request, limit);
  uint32_t units = wlh_read_length(viewing->arena, &cell->label_units, WLH_LABEL_MOST);
  entry.name = name->name;
  entry.name_units = name->name_units;
  add_text(viewing, cell->label, units, &entry.label, &entry.label_units);
  entry.published = __atomic_load_n(&cell->data, __ATOMIC_ACQUIRE);
  units = entry.held ? wlh_data_units(entry.published) : 0;
  add_text(viewing, wlh_data_cell(entry.published), units, &entry.data, &entry.data_units);
  if (view->entry_count < view->entry_capacity) view->entries[view->entry_count] = entry;
  view->entry_count++;
}

static void add_list(struct viewing *viewing, uint32_t request, const struct wlh_entry *name)
{
  struct wlh_arena *arena = viewing->arena;
  for (; wlh_advance(arena, request, &viewing->steps);
       request = wlh_list_next(arena, WLH_BY_RESOURCE, request)) {
    if (!wlh_expect_request(arena, request)) return;
    add_entry(viewing, request, name);
  }
}

static void add_resource(struct viewing *viewing, uint32_t resource, bool pending)
{
  struct wlh_arena *arena = viewing->arena;
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  if (cell->held.head == 0 && cell->queue.head == 0) return; /* The name is only marked. */
  struct wlh_entry name = {.name_units = wlh_name_length(arena, resource)};
  uint16_t *to = reserve(viewing, name.name_units, &name.name);
  if (to) wlh_name_copy(arena, resource, to, name.name_units);
  add_list(viewing, cell->held.head, &name);
  if (pending) add_list(viewing, cell->queue.head, &name);
}

static struct viewing begin_view(struct wlh_arena *arena, struct wlh_view *view)
{
  view->entry_count = view->client_count = view->unit_count = 0;
  return (struct viewing){arena, view, 0};
}

/* Returns WLH_CELLS_OK, FULL if the view lacks capacity, or POISONED. */
static enum wlh_cells_status end_view(const struct viewing *viewing)
{
  const struct wlh_view *view = viewing->view;
  bool fits = view->entry_count <= view->entry_capacity &&
              view->client_count <= view->client_capacity &&
              view->unit_count <= view->unit_capacity;
  return wlh_status_or_poisoned(viewing->arena, fits ? WLH_CELLS_OK : WLH_CELLS_FULL);
}

enum wlh_cells_status wlh_cells_snapshot_the_lock_state(
    struct wlh_arena *arena, struct wlh_view *view)
{
  struct viewing viewing = begin_view(arena, view);
  uint32_t high = wlh_read(&wlh_header_of(arena)->high);
  for (uint32_t i = 1; i < high && i < arena->ncells && !arena->poisoned; i++) {
    uint32_t kind = wlh_kind_of(arena, i);
    if (kind < WLH_KIND_FREE) wlh_note_damage(arena);
    if (kind == WLH_KIND_RESOURCE) add_resource(&viewing, i, true);
  }
  return end_view(&viewing);
}

enum wlh_cells_status wlh_cells_snapshot_a_name(
    struct wlh_arena *arena, const uint16_t *name, uint32_t units, bool pending,
    struct wlh_view *view)
{
  struct viewing viewing = begin_view(arena, view);
  if (units <= WLH_NAME_MOST && !arena->poisoned) {
    uint32_t resource = wlh_name_find(arena, name, units, wlh_name_hash(arena, name, units));
    if (resource != 0) add_resource(&viewing, resource, pending);
  }
  return end_view(&viewing);
}

enum { ATTEMPTS = 64 };

/* Returns false if the segment is damaged, or larger than `bytes`. */
static bool attach_from_outside(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes)
{
  uint32_t ncells = wlh_read(&segment->header.ncells);
  *arena = (struct wlh_arena){.segment = segment, .bytes = bytes, .outside = true};
  if (!wlh_is_valid_size(ncells, WLH_MEMBERS) || wlh_segment_bytes(ncells) > bytes) return false;
  arena->ncells = ncells;
  return atomic_load(&segment->header.magic) == WLH_MAGIC &&
         atomic_load(&segment->header.poisoned) == 0;
}

/* No two grants have the same token. If it is unchanged, the lock was held all the time, and the
 * cells that the lock refers to have not changed. */
static bool is_still_held(
    const struct wlh_arena *arena, uint32_t resource, const struct wlh_entry *entry)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, entry->request);
  return entry->held && wlh_is_held(wlh_read(&cell->kind)) &&
         __atomic_load_n(&cell->token, __ATOMIC_ACQUIRE) == entry->token &&
         wlh_read(&cell->resource) == resource;
}

/* Whether a lock that is still held has published something since its entry was made, so that the
 * cells of the former text may have another one. */
static bool has_published(const struct wlh_arena *arena, const struct wlh_entry *entry)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, entry->request);
  return __atomic_load_n(&cell->data, __ATOMIC_ACQUIRE) != entry->published;
}

/* Keeps the locks that are still held. Returns false if the cells must be read again. */
static bool keep_still_held(struct wlh_arena *arena, uint32_t resource, struct wlh_view *view)
{
  uint32_t seen = view->entry_count, kept = 0;
  atomic_thread_fence(memory_order_seq_cst);
  /* If no lock was found, the result counts only if no process is inside: in the middle of a
   * change, the name may be missing for a moment. */
  if (seen == 0) return atomic_load(&wlh_header_of(arena)->word) == 0;
  if (seen > view->entry_capacity) return true;
  for (uint32_t i = 0; i < seen; i++) {
    const struct wlh_entry *entry = &view->entries[i];
    bool has_changed = has_published(arena, entry);
    if (!is_still_held(arena, resource, entry)) continue;
    if (has_changed) return false;
    view->entries[kept++] = *entry;
  }
  view->entry_count = kept;
  return kept > 0;
}

/* Returns WLH_CELLS_LOST if other processes changed these cells meanwhile. */
static enum wlh_cells_status find_holders_once(
    struct wlh_arena *arena, const uint16_t *name, uint32_t units, struct wlh_view *view)
{
  struct viewing viewing = begin_view(arena, view);
  uint32_t hash = wlh_name_hash(arena, name, units);
  uint32_t resource = wlh_name_find(arena, name, units, hash);
  if (resource != 0) add_resource(&viewing, resource, false);
  bool so = keep_still_held(arena, resource, view) &&
            wlh_name_find(arena, name, units, hash) == resource &&
            wlh_read(&wlh_header_of(arena)->ncells) == arena->ncells;
  return so && !arena->poisoned ? end_view(&viewing) : WLH_CELLS_LOST;
}

enum wlh_cells_status wlh_cells_find_holders(
    struct wlh_segment *segment, uint64_t bytes, const uint16_t *name, uint32_t units,
    struct wlh_view *view)
{
  struct wlh_arena arena;
  enum wlh_cells_status status = WLH_CELLS_LOST;
  if (units > WLH_NAME_MOST) return WLH_CELLS_LOST;
  for (int i = 0; i < ATTEMPTS && status == WLH_CELLS_LOST; i++)
    if (attach_from_outside(&arena, segment, bytes))
      status = find_holders_once(&arena, name, units, view);
  return status;
}
