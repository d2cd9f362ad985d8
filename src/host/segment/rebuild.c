/* If the process dies during a rebuild, the next rebuild accepts the cells that it leaves: only
 * meaningless cells become FREE, and other cells only change between TEXT and KEPT. */
#include "rebuild.h"

#include "lists.h"
#include "marks.h"
#include "names.h"
#include "pool.h"
#include "queue.h"

/* ---- 1. members ---- */

/* Marks dead members as out, and empties all mailboxes. */
static void rebuild_members(struct wlh_arena *arena)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    struct wlh_member *member = wlh_member_at(arena, i);
    bool is_in = member->state == WLH_MEMBER_IN;
    if (!is_in && member->state != WLH_MEMBER_OUT) wlh_note_damage(arena);
    if (is_in && !wlh_is_alive(arena, i)) wlh_commit(&member->state, WLH_MEMBER_OUT);
    WLH_PUT(member->mailbox, (struct wlh_list){0});
    WLH_PUT(member->npending, 0);
  }
}

/* ---- 2. cells ---- */

static bool is_plausible(const struct wlh_arena *arena, const struct wlh_request_cell *cell)
{
  bool is_agent = cell->agent < arena->ncells &&
                  wlh_kind_of(arena, cell->agent) == WLH_KIND_AGENT &&
                  wlh_agent_at(arena, cell->agent)->member == cell->member;
  bool is_resource =
      cell->kind == WLH_KIND_NEWS_BROKEN ||
      (cell->resource < arena->ncells && wlh_kind_of(arena, cell->resource) == WLH_KIND_RESOURCE);
  return is_agent && is_resource && cell->mode <= WLH_SHARED && cell->ticket < WLH_COUNT_MOST &&
         cell->token < WLH_COUNT_MOST && cell->passes <= 1 &&
         !(cell->passes == 1 && wlh_is_held(cell->kind));
}

/* Empties the lists; the name, its limit and its mark stay. */
static void clear_resource(struct wlh_resource_cell *cell)
{
  WLH_PUT(cell->chain, WLH_NO_NAME);
  WLH_PUT(cell->queue, (struct wlh_list){0});
  WLH_PUT(cell->held, (struct wlh_list){0});
  WLH_PUT(cell->levels, (struct wlh_list){0});
  WLH_PUT(cell->pending, 0);
  WLH_PUT(cell->weight, 0);
}

/* Returns whether this is the number of a member. */
static bool is_of_member(const struct wlh_arena *arena, uint32_t member)
{
  return member < WLH_MEMBERS && wlh_cells_is_member(arena, member);
}

/* Frees the cell of a dead member, and puts any other request before `*chain`. */
static void rebuild_cell(struct wlh_arena *arena, uint32_t i, uint32_t *chain)
{
  union wlh_cell *cell = wlh_cell_at(arena, i);
  if (cell->kind == WLH_KIND_KEPT) wlh_commit_kind(arena, i, WLH_KIND_TEXT);
  if (cell->kind == WLH_KIND_RESOURCE) clear_resource(&cell->resource);
  if (cell->kind < WLH_KIND_FREE || cell->kind > WLH_KIND_KEPT) wlh_note_damage(arena);
  if (cell->kind == WLH_KIND_AGENT) {
    WLH_PUT(cell->agent.requests, (struct wlh_list){0});
    if (!is_of_member(arena, cell->agent.member)) wlh_commit_kind(arena, i, WLH_KIND_FREE);
  }
  if (!wlh_is_request(cell->kind)) return;
  if (!is_of_member(arena, cell->request.member)) {
    wlh_commit_kind(arena, i, WLH_KIND_FREE);
  } else if (is_plausible(arena, &cell->request)) {
    WLH_PUT(cell->request.links[WLH_BY_RESOURCE].next, *chain);
    *chain = i;
  } else {
    wlh_note_damage(arena);
  }
}

/* Returns the index of the last cell in use, plus 1. */
static uint32_t find_top(const struct wlh_arena *arena)
{
  uint32_t top = arena->ncells;
  while (top > 1 && wlh_kind_of(arena, top - 1) == WLH_KIND_FREE) top--;
  return top;
}

/* A segment is halved while all cells in use are among its first eighth. Afterwards the number of
 * cells in use can double twice before the segment must grow again. */
static uint32_t shrink_limit(uint32_t ncells)
{
  return ncells > WLH_CELLS_AT_FIRST ? ncells / 8 : 0;
}

/* If this returns true, the caller must rebuild, because the bucket heads have moved. */
static bool try_to_shrink(struct wlh_arena *arena)
{
  struct wlh_header *header = wlh_header_of(arena);
  uint32_t ncells = arena->ncells, top = find_top(arena);
  while (top <= shrink_limit(ncells)) ncells /= 2;
  if (ncells == arena->ncells) return false;
  arena->shrinks = header->shrinks + 1;
  wlh_raise_count(&header->shrinks, arena->shrinks);
  wlh_commit(&header->slack, 1);
  wlh_commit(&header->ncells, ncells);
  arena->ncells = ncells;
  return true;
}

bool wlh_cells_would_shrink(const struct wlh_arena *arena)
{
  const struct wlh_header *header = wlh_header_of(arena);
  uint32_t high = wlh_read(&header->high), nfree = wlh_read(&header->nfree);
  if (arena->ncells - nfree > shrink_limit(arena->ncells)) return false;
  /* If the last cell before `high` is in use, all cells up to it must stay. */
  return high <= shrink_limit(arena->ncells) || wlh_kind_of(arena, high - 1) == WLH_KIND_FREE;
}

/* Returns the chain of all requests. Older requests tend to have lower cells, so the loop begins
 * with the highest cell, which nearly sorts the chain. */
static uint32_t rebuild_cells(struct wlh_arena *arena, uint32_t top)
{
  uint32_t chain = 0;
  WLH_PUT(wlh_header_of(arena)->high, top);
  if (wlh_kind_of(arena, 0) != WLH_KIND_FREE) wlh_note_damage(arena);
  for (uint32_t i = top; i-- > 1 && !arena->poisoned;) rebuild_cell(arena, i, &chain);
  return chain;
}

/* ---- 3. requests ---- */

static bool is_allowed_weight(
    const struct wlh_resource_cell *resource, const struct wlh_request_cell *cell)
{
  if (cell->mode == WLH_EXCLUSIVE) return cell->weight == 0;
  if (resource->limit == WLH_LIMIT_UNSET) return false;
  if (resource->limit == WLH_LIMIT_NONE) return cell->weight == 0;
  return cell->weight > 0 && cell->weight <= resource->limit;
}

/* Notes damage if the request cannot have its place there. */
static void restore_at_resource(struct wlh_arena *arena, uint32_t request)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  struct wlh_resource_cell *resource = wlh_resource_at(arena, cell->resource);
  bool held = wlh_is_held(cell->kind);
  if (!is_allowed_weight(resource, cell)) wlh_note_damage(arena);
  if (held && !wlh_fits(arena, resource, cell->mode, cell->weight)) wlh_note_damage(arena);
  uint32_t before = resource->held.tail;
  uint64_t token = before != 0 ? wlh_request_at(arena, before)->token : 0;
  if (held && cell->token <= token) wlh_note_damage(arena);
  if (arena->poisoned) return;
  wlh_add_to_resource(arena, resource, request);
}

/* Restores the counters of the header, the label, and the list of the agent. */
static void rebuild_request(struct wlh_arena *arena, uint32_t request)
{
  struct wlh_header *header = wlh_header_of(arena);
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  if (cell->ticket >= header->ticket) wlh_raise_count(&header->ticket, cell->ticket + 1);
  if (cell->kind != WLH_KIND_PENDING && cell->token > header->token)
    wlh_raise_count(&header->token, cell->token);
  wlh_text_keep(arena, cell->label, wlh_read_length(arena, &cell->label_units, WLH_LABEL_MOST));
  wlh_text_keep(arena, wlh_data_cell(cell->data), wlh_data_units(cell->data));
  wlh_list_add(arena, &wlh_agent_at(arena, cell->agent)->requests, WLH_BY_AGENT, request);
}

static bool is_before_by_ticket(const struct wlh_request_cell *a, const struct wlh_request_cell *b)
{
  return a->ticket <= b->ticket;
}

/* Orders requests that are sorted by ticket: first locks and stolen locks by token, then waiting
 * requests by priority. A stolen lock has a smaller token than any later grant, so the mail about
 * the theft comes first. */
static bool is_before_at_name(const struct wlh_request_cell *a, const struct wlh_request_cell *b)
{
  bool a_waits = a->kind == WLH_KIND_PENDING, b_waits = b->kind == WLH_KIND_PENDING;
  if (a_waits != b_waits) return b_waits;
  return a_waits ? a->priority >= b->priority : a->token <= b->token;
}

/* Rebuilds the requests one by one, and returns their chain, sorted by ticket. */
static uint32_t rebuild_by_ticket(struct wlh_arena *arena, uint32_t chain)
{
  uint32_t first = wlh_chain_sort(arena, chain, is_before_by_ticket), steps = 0;
  for (uint32_t request = first; wlh_advance(arena, request, &steps);) {
    uint32_t next = wlh_list_next(arena, WLH_BY_RESOURCE, request);
    if (next != 0 && wlh_request_at(arena, next)->ticket == wlh_request_at(arena, request)->ticket)
      wlh_note_damage(arena);
    rebuild_request(arena, request);
    request = next;
  }
  return first;
}

static void rebuild_requests(struct wlh_arena *arena, uint32_t chain)
{
  uint32_t request = wlh_chain_sort(arena, rebuild_by_ticket(arena, chain), is_before_at_name),
           steps = 0;
  while (wlh_advance(arena, request, &steps)) {
    uint32_t next = wlh_list_next(arena, WLH_BY_RESOURCE, request);
    uint32_t kind = wlh_kind_of(arena, request);
    if (kind != WLH_KIND_NEWS_BROKEN) restore_at_resource(arena, request);
    if (wlh_is_news(kind)) wlh_mailbox_put(arena, request);
    request = next;
  }
}

/* ---- 4. names and agents ---- */

/* Keeps the names of threads, too. A name that is neither wanted nor marked is freed. */
static void rebuild_names(struct wlh_arena *arena, uint32_t top)
{
  for (uint32_t i = 1; i < top && !arena->poisoned; i++) {
    const union wlh_cell *cell = wlh_cell_at(arena, i);
    if (cell->kind == WLH_KIND_AGENT) {
      uint32_t units = wlh_read_length(arena, &cell->agent.units, WLH_THREAD_NAME_UNITS);
      wlh_text_keep(arena, cell->agent.name, units);
    }
    if (cell->kind != WLH_KIND_RESOURCE) continue;
    if (cell->resource.marked != 0 && wlh_header_of(arena)->marks != 1) wlh_note_damage(arena);
    bool wanted = cell->resource.queue.head != 0 || cell->resource.held.head != 0;
    if (wanted || wlh_name_is_marked(arena, i))
      wlh_name_restore(arena, i);
    else
      wlh_commit_kind(arena, i, WLH_KIND_FREE);
  }
}

/* ---- 5. free cells ---- */

/* Begins with the highest cell, so that the lowest cells are taken first later. */
static void rebuild_free_list(struct wlh_arena *arena, uint32_t top)
{
  struct wlh_header *header = wlh_header_of(arena);
  WLH_PUT(header->free, 0);
  WLH_PUT(header->nfree, arena->ncells - top);
  for (uint32_t i = top; i-- > 1;) {
    uint32_t kind = wlh_kind_of(arena, i);
    if (kind == WLH_KIND_TEXT)
      wlh_pool_free(arena, i);
    else if (kind == WLH_KIND_FREE)
      wlh_pool_add(arena, i);
    else if (kind == WLH_KIND_KEPT)
      wlh_commit_kind(arena, i, WLH_KIND_TEXT);
  }
}

/* ---- 6. queues ---- */

static void process_queues(struct wlh_arena *arena, uint32_t top)
{
  /* This also removes the limit of a marked name that has no requests left. */
  for (uint32_t i = 1; i < top && !arena->poisoned; i++)
    if (wlh_kind_of(arena, i) == WLH_KIND_RESOURCE) wlh_process_the_lock_request_queue(arena, i);
}

static void rebuild(struct wlh_arena *arena)
{
  rebuild_members(arena);
  wlh_names_clear(arena);
  uint32_t top = find_top(arena);
  uint32_t chain = rebuild_cells(arena, top);
  if (!arena->poisoned) rebuild_requests(arena, chain);
  if (!arena->poisoned) rebuild_names(arena, top);
  if (!arena->poisoned) rebuild_free_list(arena, top);
  if (!arena->poisoned) process_queues(arena, top);
}

enum wlh_cells_status wlh_cells_rebuild_without_shrinking(struct wlh_arena *arena)
{
  struct wlh_header *header = wlh_header_of(arena);
  if (arena->poisoned) return WLH_CELLS_POISONED;
  rebuild(arena);
  WLH_PUT(header->rebuilds, header->rebuilds + 1);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

/* The cells of dead members become free only in the first rebuild. Shrinking moves the bucket
 * heads, so the few remaining cells are then rebuilt once more. */
enum wlh_cells_status wlh_cells_rebuild(struct wlh_arena *arena)
{
  enum wlh_cells_status status = wlh_cells_rebuild_without_shrinking(arena);
  if (status == WLH_CELLS_OK && try_to_shrink(arena)) rebuild(arena);
  return wlh_status_or_poisoned(arena, status);
}

bool wlh_cells_reap(struct wlh_arena *arena)
{
  for (uint32_t i = 0; i < WLH_MEMBERS && !arena->poisoned; i++) {
    if (!wlh_cells_is_member(arena, i) || wlh_is_alive(arena, i)) continue;
    (void)wlh_cells_rebuild(arena);
    return true;
  }
  return false;
}
