#include "requests.h"

#include "../../core/held_set.h"

#include "lists.h"
#include "marks.h"
#include "names.h"
#include "pool.h"
#include "queue.h"
#include "rebuild.h"

enum { RESERVED_SHARE = 64, RESERVED_MOST = 1024 };

struct attempt {
  const struct wlh_ask *ask;
  uint32_t name_units, label_units;
  uint32_t weight;
  uint32_t limit; /* as in a RESOURCE cell; unused if the mode is exclusive */
  uint32_t hash;
  uint32_t resource; /* 0 if the name is new */
  bool passes, waits;
  bool grantable; /* whether the request is granted at once */
};

static bool is_grantable(const struct wlh_arena *arena, const struct attempt *attempt)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, attempt->resource);
  return attempt->resource == 0 || attempt->ask->option == WLH_STEAL ||
         (wlh_would_be_first(arena, cell, attempt->ask->priority) &&
          wlh_fits(arena, cell, attempt->ask->mode, attempt->weight));
}

static enum wlh_cells_status find_refusal(
    const struct wlh_arena *arena, const struct attempt *attempt, struct wlh_answer *answer)
{
  const struct wlh_ask *ask = attempt->ask;
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, attempt->resource);
  if (attempt->resource == 0) return WLH_CELLS_OK;
  if (ask->mode == WLH_SHARED && cell->limit != WLH_LIMIT_UNSET && cell->limit != attempt->limit) {
    answer->limit = wlh_limit_number(cell->limit);
    return WLH_CELLS_OTHER_LIMIT;
  }
  if (attempt->grantable) return WLH_CELLS_OK;
  if (!attempt->waits) return WLH_CELLS_NOT_AVAILABLE;
  return ask->bounded && cell->pending >= ask->max_pending ? WLH_CELLS_QUEUE_FULL : WLH_CELLS_OK;
}

/* Returns how many cells the request must leave free, so that a theft is possible when the segment
 * is full. */
static uint32_t reserved_cells(const struct wlh_arena *arena, bool steals)
{
  uint32_t share = arena->ncells / RESERVED_SHARE;
  if (steals) return 0;
  return share < RESERVED_MOST ? share : RESERVED_MOST;
}

/* Sets `resource`, `grantable` and `needed`, and returns why the request is refused, or OK. */
static enum wlh_cells_status check_once(
    struct wlh_arena *arena, struct attempt *attempt, struct wlh_answer *answer)
{
  attempt->resource = wlh_name_find(arena, attempt->ask->name, attempt->name_units, attempt->hash);
  attempt->grantable = is_grantable(arena, attempt);
  enum wlh_cells_status refusal = find_refusal(arena, attempt, answer);
  if (refusal != WLH_CELLS_OK || (attempt->passes && attempt->grantable)) return refusal;
  answer->needed = 1 + wlh_text_cell_count(attempt->label_units) +
                   (attempt->resource == 0 ? wlh_name_cell_count(attempt->name_units) : 0) +
                   reserved_cells(arena, attempt->ask->option == WLH_STEAL);
  return wlh_header_of(arena)->nfree >= answer->needed ? WLH_CELLS_OK : WLH_CELLS_FULL;
}

/* A search for a living member that obstructs a request: only such a member justifies a refusal. */
struct survey {
  uint64_t living[WLH_MEMBERS / 64];
  uint32_t steps;
};

/* Returns whether the member is alive, and records a living one for the next call. */
static bool check_living(struct wlh_arena *arena, struct survey *survey, uint32_t member)
{
  uint64_t bit = UINT64_C(1) << (member % 64);
  uint64_t *known = &survey->living[member / 64 % (WLH_MEMBERS / 64)];
  if (*known & bit) return true;
  bool lives = member < WLH_MEMBERS && wlh_is_alive(arena, member);
  if (lives) *known |= bit;
  return lives;
}

/* Whether this one request of a living member is reason enough for the refusal. */
static bool proves_refusal(
    const struct attempt *attempt, enum wlh_cells_status refusal,
    const struct wlh_request_cell *other, uint32_t kind)
{
  if (refusal == WLH_CELLS_OTHER_LIMIT) return true;
  if (refusal == WLH_CELLS_QUEUE_FULL || !wlh_is_held(kind)) return false;
  return attempt->ask->mode == WLH_EXCLUSIVE || other->mode == WLH_EXCLUSIVE;
}

/* Returns whether the next list must also be surveyed. Sets `*dead` if a member is dead. */
static bool survey_list(
    struct wlh_arena *arena, const struct attempt *attempt, enum wlh_cells_status refusal,
    uint32_t request, struct survey *survey, bool *dead)
{
  for (; wlh_advance(arena, request, &survey->steps);
       request = wlh_list_next(arena, WLH_BY_RESOURCE, request)) {
    if (!wlh_expect_request(arena, request)) return false;
    const struct wlh_request_cell *cell = wlh_request_at(arena, request);
    *dead = !check_living(arena, survey, cell->member);
    if (*dead || proves_refusal(attempt, refusal, cell, cell->kind)) return false;
  }
  return !arena->poisoned;
}

/* Returns whether a dead member obstructs the request before a living one justifies the refusal. */
static bool is_refused_for_the_dead(
    struct wlh_arena *arena, const struct attempt *attempt, enum wlh_cells_status refusal)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, attempt->resource);
  struct survey survey = {.steps = 0};
  bool dead = false;
  if (survey_list(arena, attempt, refusal, cell->held.head, &survey, &dead))
    (void)survey_list(arena, attempt, refusal, cell->queue.head, &survey, &dead);
  return dead;
}

/* Removes dead members that obstruct a request, and returns whether there were any. This process
 * may not know of their deaths: only a process whose requests wait watches other members. */
static bool reap_obstacles(
    struct wlh_arena *arena, const struct attempt *attempt, enum wlh_cells_status refusal)
{
  if (refusal == WLH_CELLS_FULL) return wlh_cells_reap(arena);
  if (!is_refused_for_the_dead(arena, attempt, refusal)) return false;
  (void)wlh_cells_rebuild(arena);
  return true;
}

/* A dead member may have been the reason for the refusal, so the request is then checked again. */
static enum wlh_cells_status check_until_decided(
    struct wlh_arena *arena, struct attempt *attempt, struct wlh_answer *answer)
{
  for (unsigned round = 0; round <= WLH_MEMBERS && !arena->poisoned; round++) {
    enum wlh_cells_status status = check_once(arena, attempt, answer);
    if (status == WLH_CELLS_OK || !reap_obstacles(arena, attempt, status)) return status;
  }
  wlh_note_damage(arena); /* more members have died than there can be */
  return WLH_CELLS_POISONED;
}

static void note_thief(struct wlh_arena *arena, struct wlh_request_cell *lock, uint32_t agent)
{
  const struct wlh_agent_cell *thief = wlh_agent_at(arena, agent);
  const struct wlh_member *member = wlh_member_at(arena, arena->member);
  struct wlh_thief who = {member->id, member->pid, thief->thread, thief->number, 0};
  WLH_PUT(lock->thief, who);
}

static void steal_the_held_locks(struct wlh_arena *arena, const struct attempt *attempt)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, attempt->resource);
  uint32_t request;
  while ((request = cell->held.head) != 0) {
    if (arena->poisoned || !wlh_expect_request(arena, request)) return;
    struct wlh_request_cell *lock = wlh_request_at(arena, request);
    if (!wlh_is_held(lock->kind)) wlh_note_damage(arena);
    bool unreported = lock->kind == WLH_KIND_NEWS_HELD;
    WLH_PUT(lock->unreported, unreported);
    note_thief(arena, lock, attempt->ask->agent);
    wlh_commit_kind(arena, request, WLH_KIND_NEWS_BROKEN);
    wlh_list_remove(arena, &cell->held, WLH_BY_RESOURCE, request);
    if (!unreported) wlh_mailbox_put(arena, request);
  }
  WLH_PUT(cell->weight, 0);
}

/* Takes a cell and fills it; the caller must commit it. */
static uint32_t fill_request_cell(
    struct wlh_arena *arena, const struct attempt *attempt, uint32_t label)
{
  struct wlh_header *header = wlh_header_of(arena);
  uint64_t ticket = header->ticket;
  uint32_t request = wlh_pool_take(arena);
  struct wlh_request_cell *cell = wlh_request_at(arena, request);
  if (ticket >= WLH_COUNT_MOST) wlh_note_damage(arena);
  wlh_raise_count(&header->ticket, ticket + 1);
  WLH_PUT(cell->resource, attempt->resource);
  WLH_PUT(cell->agent, attempt->ask->agent);
  WLH_PUT(cell->member, (uint16_t)arena->member);
  WLH_PUT(cell->mode, attempt->ask->mode);
  WLH_PUT(cell->ticket, ticket);
  WLH_PUT(cell->weight, attempt->weight);
  WLH_PUT(cell->label, label);
  WLH_PUT(cell->label_units, attempt->label_units);
  WLH_PUT(cell->priority, attempt->ask->priority);
  WLH_PUT(cell->passes, attempt->passes);
  WLH_PUT(cell->data, 0);
  WLH_PUT(cell->token, 0);
  WLH_PUT(cell->cookie, attempt->ask->cookie);
  WLH_PUT(cell->since, arena->now);
  return request;
}

/* The caller must have checked that there are enough cells, and no reason to refuse the request. */
static enum wlh_cells_status make_request(
    struct wlh_arena *arena, struct attempt *attempt, struct wlh_answer *answer)
{
  const struct wlh_ask *ask = attempt->ask;
  uint32_t label = wlh_text_write(arena, ask->label, attempt->label_units);
  if (attempt->resource == 0)
    attempt->resource = wlh_name_add(arena, ask->name, attempt->name_units, attempt->hash);
  struct wlh_resource_cell *cell = wlh_resource_at(arena, attempt->resource);
  if (ask->option == WLH_STEAL)
    steal_the_held_locks(arena, attempt);
  else if (ask->mode == WLH_SHARED && cell->limit == WLH_LIMIT_UNSET)
    wlh_commit(&cell->limit, attempt->limit);

  uint32_t request = fill_request_cell(arena, attempt, label);
  answer->request = request;
  if (attempt->grantable)
    wlh_grant(arena, request, WLH_KIND_HELD);
  else
    wlh_commit_kind(arena, request, WLH_KIND_PENDING);
  wlh_add_to_resource(arena, cell, request);
  wlh_list_add(arena, &wlh_agent_at(arena, ask->agent)->requests, WLH_BY_AGENT, request);
  if (!attempt->grantable) return WLH_CELLS_PENDING;
  answer->token = wlh_request_at(arena, request)->token;
  answer->marked = wlh_name_is_marked(arena, attempt->resource);
  return WLH_CELLS_GRANTED;
}

/* Section 4.1: https://www.w3.org/TR/2023/WD-web-locks-20230105/#request-a-lock */
enum wlh_cells_status wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer)
{
  bool has_limit = ask->mode == WLH_SHARED && ask->limit > 0;
  struct attempt attempt = {
      .ask = ask,
      .name_units = ask->name_units,
      .label_units = ask->label_units < WLH_LABEL_MOST ? ask->label_units : WLH_LABEL_MOST,
      .weight = has_limit ? ask->weight : 0,
      .limit = has_limit ? ask->limit : WLH_LIMIT_NONE,
      .passes = ask->option == WLH_PASS || ask->option == WLH_PASS_IF_AVAILABLE,
      .waits = ask->option == WLH_WAIT || ask->option == WLH_PASS,
  };
  *answer = (struct wlh_answer){.needed = UINT32_MAX};
  if (ask->name_units > WLH_NAME_MOST) return WLH_CELLS_FULL;
  enum wlh_cells_status status = wlh_find_agent(arena, ask->agent);
  if (status != WLH_CELLS_OK) return status;
  attempt.hash = wlh_name_hash(arena, ask->name, ask->name_units);
  status = check_until_decided(arena, &attempt, answer);
  bool is_done = attempt.passes && attempt.grantable;
  if (status == WLH_CELLS_OK && !is_done) status = make_request(arena, &attempt, answer);
  return wlh_status_or_poisoned(arena, status);
}

static bool is_own_request(const struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  return request < arena->ncells && wlh_is_request(cell->kind) && cell->member == arena->member &&
         cell->cookie == cookie;
}

/* Returns WLH_CELLS_OK, LOST if we have no such request, or POISONED. */
static enum wlh_cells_status find_request(
    const struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  return wlh_status_or_poisoned(
      arena, is_own_request(arena, request, cookie) ? WLH_CELLS_OK : WLH_CELLS_LOST);
}

bool wlh_cells_has_request(const struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  if (!is_own_request(arena, request, cookie)) return false;
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint32_t kind = wlh_read(&cell->kind), resource = wlh_read(&cell->resource);
  if (kind == WLH_KIND_NEWS_BROKEN) return true;
  const struct wlh_resource_cell *name = wlh_resource_at(arena, resource);
  const struct wlh_list *list = kind == WLH_KIND_PENDING ? &name->queue : &name->held;
  return wlh_name_is_listed(arena, resource) && wlh_list_has(arena, list, WLH_BY_RESOURCE, request);
}

/* Section 4.2: https://www.w3.org/TR/2023/WD-web-locks-20230105/#release-the-lock */
enum wlh_cells_status wlh_cells_release_the_lock(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, uint64_t keep,
    struct wlh_thief *thief)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  uint32_t kind = wlh_kind_of(arena, request);
  if (kind == WLH_KIND_PENDING) return WLH_CELLS_NOT_HELD;
  bool stolen = kind == WLH_KIND_NEWS_BROKEN && wlh_request_at(arena, request)->passes == 0;
  if (stolen)
    *thief = wlh_request_at(arena, request)->thief;
  else if (keep > 0)
    wlh_name_mark(arena, wlh_request_at(arena, request)->resource, keep);
  wlh_end_cell(arena, request);
  return wlh_status_or_poisoned(arena, stolen ? WLH_CELLS_STOLEN : WLH_CELLS_OK);
}

enum wlh_cells_status wlh_cells_publish(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, const uint16_t *text,
    uint32_t units, uint32_t *needed)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  uint32_t kind = wlh_kind_of(arena, request);
  if (kind == WLH_KIND_PENDING) return WLH_CELLS_NOT_HELD;
  if (kind == WLH_KIND_NEWS_BROKEN) return WLH_CELLS_STOLEN;
  if (units > WLH_DATA_MOST) units = WLH_DATA_MOST;
  *needed = units > 0 ? wlh_text_cell_count(units) + reserved_cells(arena, false) : 0;
  if (wlh_header_of(arena)->nfree < *needed) return wlh_status_or_poisoned(arena, WLH_CELLS_FULL);
  struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint64_t former = cell->data;
  uint32_t first = wlh_text_write(arena, text, units);
  if (arena->poisoned) return WLH_CELLS_POISONED;
  wlh_commit_wide(&cell->data, wlh_data(former, first, units));
  wlh_text_free(arena, wlh_data_cell(former), wlh_data_units(former));
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

/* Section 4.3: https://www.w3.org/TR/2023/WD-web-locks-20230105/#abort-the-request */
enum wlh_cells_status wlh_cells_abort_the_request(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  uint32_t kind = wlh_kind_of(arena, request);
  bool passed = kind == WLH_KIND_NEWS_BROKEN && wlh_request_at(arena, request)->passes != 0;
  if (kind == WLH_KIND_NEWS_BROKEN && !passed) return WLH_CELLS_STOLEN;
  if (kind != WLH_KIND_PENDING && !passed) return WLH_CELLS_GRANTED;
  wlh_end_cell(arena, request);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

enum wlh_cells_status wlh_cells_end_the_request(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  wlh_end_cell(arena, request);
  return wlh_status_or_poisoned(arena, WLH_CELLS_OK);
}

/* `own` has the locks and requests of one thread, which ends none of them while it blocks. */
static void add_own(struct wlk_held_set *own, const struct wlh_request_cell *request)
{
  wlk_held_set_add(own, request->mode == WLH_EXCLUSIVE, request->weight);
}

static bool is_of_thread(
    const struct wlh_arena *arena, const struct wlh_request_cell *request, uint32_t thread)
{
  return request->member == arena->member && wlh_agent_at(arena, request->agent)->thread == thread;
}

bool wlh_cells_waits_for_itself(struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  const struct wlh_request_cell *self = wlh_request_at(arena, request);
  if (find_request(arena, request, cookie) != WLH_CELLS_OK) return false;
  if (self->kind != WLH_KIND_PENDING) return false;
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, self->resource);
  uint32_t thread = wlh_agent_at(arena, self->agent)->thread, steps = 0;
  struct wlk_held_set own = {0};
  for (uint32_t i = cell->held.head; wlh_advance(arena, i, &steps);) {
    const struct wlh_request_cell *lock = wlh_request_at(arena, i);
    if (is_of_thread(arena, lock, thread)) add_own(&own, lock);
    i = wlh_list_next(arena, WLH_BY_RESOURCE, i);
  }
  for (uint32_t i = cell->queue.head; wlh_advance(arena, i, &steps);) {
    const struct wlh_request_cell *other = wlh_request_at(arena, i);
    uint32_t limit = wlh_limit_number(cell->limit);
    if (!wlk_held_set_admits(own, other->mode == WLH_EXCLUSIVE, other->weight, limit)) return true;
    if (i == request) return false;
    if (is_of_thread(arena, other, thread) && other->passes == 0) add_own(&own, other);
    i = wlh_list_next(arena, WLH_BY_RESOURCE, i);
  }
  return false;
}
