#include "members.h"

#include "lists.h"
#include "marks.h"
#include "pool.h"
#include "queue.h"
#include "rebuild.h"

static void write_version(struct wlh_member *member, const char *version)
{
  bool ended = false;
  for (size_t i = 0; i < sizeof member->version; i++) {
    ended = ended || i + 1 == sizeof member->version || version[i] == '\0';
    WLH_PUT(member->version[i], ended ? '\0' : version[i]);
  }
}

/* Puts the other members with waiting requests into `to_notify`. */
static void notify_waiting_members(struct wlh_arena *arena)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++)
    if (i != arena->member && wlh_cells_is_member(arena, i) &&
        wlh_member_at(arena, i)->npending > 0)
      arena->to_notify[i / 64] |= UINT64_C(1) << (i % 64);
}

enum wlh_cells_status wlh_cells_join(
    struct wlh_arena *arena, uint64_t id, uint32_t pid, const char *version)
{
  struct wlh_header *header = wlh_header_of(arena);
  struct wlh_member *member = wlh_member_at(arena, arena->member);
  /* The caller has our byte lock, so a previous member with our number is dead. */
  if (member->state != WLH_MEMBER_OUT)
    (void)wlh_cells_drop_member(arena);
  else
    (void)wlh_cells_reap(arena);
  if (arena->poisoned) return WLH_CELLS_POISONED;
  /* The previous member may have died while it read the cells from outside. */
  (void)atomic_fetch_and(
      &header->looking[arena->member / 64], ~(UINT64_C(1) << (arena->member % 64)));
  WLH_PUT(member->id, id);
  WLH_PUT(member->pid, pid);
  WLH_PUT(member->since, arena->now);
  write_version(member, version);
  wlh_commit(&member->state, WLH_MEMBER_IN);
  arena->id = id;
  WLH_PUT(header->joins, header->joins + 1);
  notify_waiting_members(arena);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

enum wlh_cells_status wlh_cells_drop_member(struct wlh_arena *arena)
{
  if (arena->poisoned) return WLH_CELLS_POISONED;
  arena->id = 0;
  wlh_commit(&wlh_member_at(arena, arena->member)->state, WLH_MEMBER_OUT);
  return wlh_cells_rebuild(arena);
}

enum wlh_cells_status wlh_cells_leave(struct wlh_arena *arena)
{
  if (arena->poisoned) return WLH_CELLS_POISONED;
  arena->id = 0;
  wlh_commit(&wlh_member_at(arena, arena->member)->state, WLH_MEMBER_OUT);
  return wlh_cells_would_shrink(arena) ? wlh_cells_rebuild(arena) : WLH_CELLS_OK;
}

uint32_t wlh_cells_pending_count(const struct wlh_arena *arena)
{
  return wlh_member_at(arena, arena->member)->npending;
}

enum wlh_cells_status wlh_cells_add_agent(
    struct wlh_arena *arena, uint32_t thread, uint32_t number, const uint16_t *name, uint32_t units,
    uint32_t *agent)
{
  if (arena->poisoned) return WLH_CELLS_POISONED;
  if (!wlh_cells_is_member(arena, arena->member)) return WLH_CELLS_LOST;
  if (units > WLH_THREAD_NAME_UNITS) units = WLH_THREAD_NAME_UNITS;
  if (wlh_header_of(arena)->nfree < 1 + wlh_text_cell_count(units)) return WLH_CELLS_FULL;
  uint32_t text = wlh_text_write(arena, name, units);
  *agent = wlh_pool_take(arena);
  struct wlh_agent_cell *cell = wlh_agent_at(arena, *agent);
  WLH_PUT(cell->member, arena->member);
  WLH_PUT(cell->thread, thread);
  WLH_PUT(cell->number, number);
  WLH_PUT(cell->name, text);
  WLH_PUT(cell->units, units);
  WLH_PUT(cell->requests, (struct wlh_list){0});
  wlh_commit_kind(arena, *agent, WLH_KIND_AGENT);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

static void abort_pending_requests(struct wlh_arena *arena, const struct wlh_agent_cell *agent)
{
  uint32_t next;
  uint32_t steps = 0;
  for (uint32_t request = agent->requests.head; wlh_advance(arena, request, &steps);
       request = next) {
    if (!wlh_expect_request(arena, request)) return;
    /* An abort can grant other requests of the agent, but ends none of them. */
    next = wlh_list_next(arena, WLH_BY_AGENT, request);
    if (wlh_kind_of(arena, request) == WLH_KIND_PENDING) wlh_end_cell(arena, request);
  }
}

/* The agent's own cell is freed as well. */
static void terminate_remaining_locks_and_requests(struct wlh_arena *arena, uint32_t agent)
{
  const struct wlh_agent_cell *cell = wlh_agent_at(arena, agent);
  uint32_t request;
  abort_pending_requests(arena, cell);
  while ((request = cell->requests.head) != 0) {
    if (arena->poisoned || !wlh_expect_request(arena, request)) return;
    wlh_end_cell(arena, request);
  }
  uint32_t name = cell->name, units = wlh_read_length(arena, &cell->units, WLH_THREAD_NAME_UNITS);
  wlh_pool_free(arena, agent);
  wlh_text_free(arena, name, units);
}

enum wlh_cells_status wlh_cells_terminate_agent(struct wlh_arena *arena, uint32_t agent)
{
  enum wlh_cells_status found = wlh_find_agent(arena, agent);
  if (found != WLH_CELLS_OK) return found;
  terminate_remaining_locks_and_requests(arena, agent);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

bool wlh_cells_has_agent(const struct wlh_arena *arena, uint32_t agent)
{
  return wlh_is_agent(arena, agent);
}

/* A granted request becomes HELD; a request that was stolen or has passed ends. */
static void take_message(struct wlh_arena *arena, uint32_t request, struct wlh_message *message)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  bool broken = cell->kind == WLH_KIND_NEWS_BROKEN;
  *message = (struct wlh_message){
      .cookie = cell->cookie,
      .request = request,
      .agent = wlh_agent_at(arena, cell->agent)->number,
      .news = !broken             ? WLH_REPORTED_GRANTED
              : cell->passes != 0 ? WLH_REPORTED_PASSED
                                  : WLH_REPORTED_STOLEN,
      .token = cell->token,
      .marked = !broken && wlh_name_is_marked(arena, cell->resource),
  };
  if (broken && cell->passes == 0) {
    if (cell->unreported != 0) message->news |= WLH_REPORTED_GRANTED;
    message->thief = cell->thief;
  }
  wlh_mailbox_remove(arena, request);
  if (broken)
    wlh_end_broken_cell(arena, request);
  else
    wlh_commit_kind(arena, request, WLH_KIND_HELD);
}

uint32_t wlh_cells_take_messages(
    struct wlh_arena *arena, struct wlh_message *messages, uint32_t capacity)
{
  uint32_t count = 0, request;
  const struct wlh_member *member = wlh_member_at(arena, arena->member);
  while (count < capacity && !arena->poisoned && (request = member->mailbox.head) != 0) {
    if (!wlh_expect_request(arena, request)) break;
    const struct wlh_request_cell *cell = wlh_request_at(arena, request);
    if (cell->member != arena->member || !wlh_is_news(cell->kind)) {
      wlh_note_damage(arena);
      break;
    }
    take_message(arena, request, &messages[count++]);
  }
  return count;
}
