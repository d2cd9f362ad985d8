/* Sections 2.6 and 4 of the specification over cells, in its order. A turn is a task of the lock
 * task queue. Where it enqueues steps on an agent's event loop, the agent's member gets mail, or,
 * if it is the caller, the result of the call. */
#include "requests.h"

#include "lists.h"
#include "names.h"
#include "pool.h"

/* ---- mail ---- */

void wlh_mail(struct wlh_arena *arena, uint32_t request)
{
  uint32_t member = wlh_request_at(arena, request)->member & (WLH_MEMBERS - 1);
  wlh_list_add(arena, &wlh_member_at(arena, member)->mail, WLH_BY_MAIL, request);
  arena->rung[member / 64] |= UINT64_C(1) << (member % 64);
}

void wlh_unmail(struct wlh_arena *arena, uint32_t request)
{
  struct wlh_member *member = wlh_member_at(arena, wlh_request_at(arena, request)->member);
  wlh_list_drop(arena, &member->mail, WLH_BY_MAIL, request);
}

/* ---- 2.5 lock requests ---- */

bool wlh_fits(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t mode,
    uint32_t weight)
{
  if (resource->held.head == 0) return true;
  /* An exclusive lock is alone, so any one of the held locks tells the mode of all. Without a limit
   * all three numbers are 0. */
  return mode == WLH_SHARED && wlh_request_at(arena, resource->held.head)->mode == WLH_SHARED &&
         (uint64_t)resource->weight + weight <= wlh_limit_number(resource->limit);
}

static void count_pending(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t member, uint32_t by)
{
  struct wlh_member *whose = wlh_member_at(arena, member);
  WLH_PUT(resource->pending, resource->pending + by);
  WLH_PUT(whose->npending, whose->npending + by);
}

/* ---- 4.4 process the lock request queue ---- */

/* The commit of a grant: HELD if the caller tells it, NEWS_HELD if mail does. */
static void grant(struct wlh_arena *arena, uint32_t request, enum wlh_kind kind)
{
  struct wlh_header *header = wlh_header_of(arena);
  struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint64_t token = header->token + 1;
  if (token >= WLH_COUNT_MOST) wlh_damage(arena);
  wlh_raise(&header->token, token);
  WLH_PUT(cell->token, token);
  WLH_PUT(cell->since, arena->now);
  wlh_commit_kind(arena, request, kind);
}

/* Derived: what is granted is in the held list. */
static void enter_held(
    struct wlh_arena *arena, struct wlh_resource_cell *resource, uint32_t request)
{
  wlh_list_add(arena, &resource->held, WLH_BY_RESOURCE, request);
  WLH_PUT(resource->weight, resource->weight + wlh_request_at(arena, request)->weight);
}

void wlh_process_queue(struct wlh_arena *arena, uint32_t resource)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t request;
  while ((request = cell->queue.head) != 0 && !arena->poisoned) {
    if (!wlh_expect(arena, request, WLH_KIND_PENDING)) return;
    const struct wlh_request_cell *first = wlh_request_at(arena, request);
    if (!wlh_fits(arena, cell, first->mode, first->weight)) return;
    grant(arena, request, WLH_KIND_NEWS_HELD);
    wlh_list_drop(arena, &cell->queue, WLH_BY_RESOURCE, request);
    count_pending(arena, cell, first->member, UINT32_MAX);
    enter_held(arena, cell, request);
    wlh_mail(arena, request);
  }
}

/* ---- 4.1 request a lock ---- */

/* A call of wlh_cells_request, as far as it got. */
struct asking {
  const struct wlh_ask *ask;
  uint32_t name_units, label_units;
  uint32_t weight;
  uint32_t limit; /* as it is in a RESOURCE cell; UNSET if the mode is exclusive */
  uint32_t hash;
  uint32_t resource; /* 0: the name is new */
};

/* Why the request is not made; OK if it is. */
static enum wlh_cells_status refuse(
    const struct wlh_arena *arena, const struct asking *asking, struct wlh_answer *answer)
{
  const struct wlh_ask *ask = asking->ask;
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, asking->resource);
  if (asking->resource == 0 || ask->option == WLH_STEAL) return WLH_CELLS_OK;
  if (ask->mode == WLH_SHARED && cell->limit != WLH_LIMIT_UNSET && cell->limit != asking->limit) {
    answer->limit = wlh_limit_number(cell->limit);
    return WLH_CELLS_OTHER_LIMIT;
  }
  if (cell->queue.head == 0 && wlh_fits(arena, cell, ask->mode, asking->weight))
    return WLH_CELLS_OK;
  if (ask->option == WLH_IF_AVAILABLE) return WLH_CELLS_NOT_AVAILABLE;
  return ask->bounded && cell->pending >= ask->max_pending ? WLH_CELLS_QUEUE_FULL : WLH_CELLS_OK;
}

/* Whom a refused request asked for already. */
struct survey {
  uint64_t living[WLH_MEMBERS / 64];
  uint32_t steps;
};

static bool is_living(struct wlh_arena *arena, struct survey *survey, uint32_t member)
{
  uint64_t bit = UINT64_C(1) << (member % 64);
  uint64_t *known = &survey->living[member / 64 % (WLH_MEMBERS / 64)];
  if (*known & bit) return true;
  bool lives = member < WLH_MEMBERS && wlh_lives(arena, member);
  if (lives) *known |= bit;
  return lives;
}

/* Whether one living member's request is reason enough for the refusal. */
static bool is_reason(
    const struct asking *asking, enum wlh_cells_status refusal,
    const struct wlh_request_cell *other, uint32_t kind)
{
  if (refusal == WLH_CELLS_OTHER_LIMIT) return true;
  if (refusal == WLH_CELLS_QUEUE_FULL || !wlh_is_held(kind)) return false;
  return asking->ask->mode == WLH_EXCLUSIVE || other->mode == WLH_EXCLUSIVE;
}

/* Looks at a list of requests. Returns whether to go on; `dead`: whether one is of the dead. */
static bool survey_list(
    struct wlh_arena *arena, const struct asking *asking, enum wlh_cells_status refusal,
    uint32_t request, struct survey *survey, bool *dead)
{
  for (; request != 0; request = wlh_list_next(arena, WLH_BY_RESOURCE, request)) {
    if (++survey->steps > arena->ncells) wlh_damage(arena);
    if (arena->poisoned || !wlh_expect_request(arena, request)) return false;
    const struct wlh_request_cell *cell = wlh_request_at(arena, request);
    *dead = !is_living(arena, survey, cell->member);
    if (*dead || is_reason(asking, refusal, cell, cell->kind)) return false;
  }
  return true;
}

/* Nobody waits for whom a refused request would have waited, so nobody watches whether they live:
 * asks. If one is dead, rebuilds, and returns true: to be looked at again. */
static bool bury_obstacles(
    struct wlh_arena *arena, const struct asking *asking, enum wlh_cells_status refusal)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, asking->resource);
  struct survey survey = {.steps = 0};
  bool dead = false;
  if (survey_list(arena, asking, refusal, cell->held.head, &survey, &dead))
    (void)survey_list(arena, asking, refusal, cell->queue.head, &survey, &dead);
  return dead && !arena->poisoned && wlh_cells_rebuild(arena) == WLH_CELLS_OK;
}

/* Whether there are too few cells, even without the dead. */
static bool is_full(
    struct wlh_arena *arena, const struct asking *asking, struct wlh_answer *answer, bool *again)
{
  uint32_t needed = 1 + wlh_text_cells(asking->label_units) +
                    (asking->resource == 0 ? wlh_name_cells(asking->name_units) : 0);
  *again = false;
  if (wlh_header_of(arena)->nfree >= needed) return false;
  uint64_t rebuilds = wlh_header_of(arena)->rebuilds;
  if (wlh_cells_bury(arena) != WLH_CELLS_OK) return true;
  *again = wlh_header_of(arena)->rebuilds != rebuilds;
  answer->needed = needed;
  return true;
}

/* Whether the request is to be made; OK if it is. Each further round has fewer members. */
static enum wlh_cells_status prepare(
    struct wlh_arena *arena, struct asking *asking, struct wlh_answer *answer)
{
  const struct wlh_ask *ask = asking->ask;
  for (unsigned round = 0; round <= WLH_MEMBERS && !arena->poisoned; round++) {
    bool again = false;
    asking->resource = wlh_name_find(arena, ask->name, asking->name_units, asking->hash);
    enum wlh_cells_status refusal = refuse(arena, asking, answer);
    if (refusal != WLH_CELLS_OK) {
      if (!bury_obstacles(arena, asking, refusal)) return refusal;
    } else if (!is_full(arena, asking, answer, &again)) {
      return WLH_CELLS_OK;
    } else if (!again) {
      return WLH_CELLS_FULL;
    }
  }
  wlh_damage(arena);
  return WLH_CELLS_POISONED;
}

static void note_thief(struct wlh_arena *arena, struct wlh_request_cell *lock, uint32_t agent)
{
  const struct wlh_agent_cell *thief = wlh_agent_at(arena, agent);
  const struct wlh_member *member = wlh_member_at(arena, arena->member);
  struct wlh_thief who = {member->id, member->pid, thief->thread, thief->number, 0};
  WLH_PUT(lock->thief, who);
}

static void steal_the_held_locks(struct wlh_arena *arena, const struct asking *asking)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, asking->resource);
  uint32_t request;
  while ((request = cell->held.head) != 0) {
    if (arena->poisoned || !wlh_expect_request(arena, request)) return;
    struct wlh_request_cell *lock = wlh_request_at(arena, request);
    if (!wlh_is_held(lock->kind)) wlh_damage(arena);
    bool untold = lock->kind == WLH_KIND_NEWS_HELD;
    WLH_PUT(lock->untold, untold);
    note_thief(arena, lock, asking->ask->agent);
    wlh_commit_kind(arena, request, WLH_KIND_NEWS_BROKEN);
    wlh_list_drop(arena, &cell->held, WLH_BY_RESOURCE, request);
    if (!untold) wlh_mail(arena, request);
  }
  WLH_PUT(cell->weight, 0);
}

/* Fills a cell with the request; the commit is the caller's. */
static uint32_t fill(struct wlh_arena *arena, const struct asking *asking, uint32_t label)
{
  struct wlh_header *header = wlh_header_of(arena);
  uint64_t ticket = header->ticket;
  uint32_t request = wlh_pool_take(arena);
  struct wlh_request_cell *cell = wlh_request_at(arena, request);
  if (ticket >= WLH_COUNT_MOST) wlh_damage(arena);
  wlh_raise(&header->ticket, ticket + 1);
  WLH_PUT(cell->resource, asking->resource);
  WLH_PUT(cell->agent, asking->ask->agent);
  WLH_PUT(cell->member, (uint16_t)arena->member);
  WLH_PUT(cell->mode, asking->ask->mode);
  WLH_PUT(cell->ticket, ticket);
  WLH_PUT(cell->weight, asking->weight);
  WLH_PUT(cell->label, label);
  WLH_PUT(cell->label_units, asking->label_units);
  WLH_PUT(cell->token, 0);
  WLH_PUT(cell->cookie, asking->ask->cookie);
  WLH_PUT(cell->since, arena->now);
  return request;
}

/* Makes the request; there are cells for it, and nothing speaks against it. */
static enum wlh_cells_status make(
    struct wlh_arena *arena, struct asking *asking, struct wlh_answer *answer)
{
  const struct wlh_ask *ask = asking->ask;
  uint32_t label = wlh_text_put(arena, ask->label, asking->label_units);
  if (asking->resource == 0)
    asking->resource = wlh_name_add(arena, ask->name, asking->name_units, asking->hash);
  struct wlh_resource_cell *cell = wlh_resource_at(arena, asking->resource);
  if (ask->option == WLH_STEAL)
    steal_the_held_locks(arena, asking);
  else if (ask->mode == WLH_SHARED && cell->limit == WLH_LIMIT_UNSET)
    wlh_commit(&cell->limit, asking->limit);

  uint32_t request = fill(arena, asking, label);
  answer->request = request;
  bool waits = ask->option != WLH_STEAL && cell->queue.head != 0;
  if (waits || !wlh_fits(arena, cell, ask->mode, asking->weight)) {
    wlh_commit_kind(arena, request, WLH_KIND_PENDING);
    wlh_list_add(arena, &cell->queue, WLH_BY_RESOURCE, request);
    count_pending(arena, cell, arena->member, 1);
  } else {
    grant(arena, request, WLH_KIND_HELD);
    enter_held(arena, cell, request);
    answer->token = wlh_request_at(arena, request)->token;
  }
  wlh_list_add(arena, &wlh_agent_at(arena, ask->agent)->requests, WLH_BY_AGENT, request);
  return wlh_kind_of(arena, request) == WLH_KIND_PENDING ? WLH_CELLS_PENDING : WLH_CELLS_GRANTED;
}

/* Whether `agent` is one of ours; OK if it is. */
static enum wlh_cells_status find_agent(const struct wlh_arena *arena, uint32_t agent)
{
  bool is = agent < arena->ncells && wlh_kind_of(arena, agent) == WLH_KIND_AGENT &&
            wlh_agent_at(arena, agent)->member == arena->member;
  return wlh_answer(arena, is ? WLH_CELLS_OK : WLH_CELLS_LOST);
}

enum wlh_cells_status wlh_cells_request(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer)
{
  bool has_limit = ask->mode == WLH_SHARED && ask->limit > 0;
  struct asking asking = {
      .ask = ask,
      .name_units = ask->name_units,
      .label_units = ask->label_units < WLH_LABEL_MOST ? ask->label_units : WLH_LABEL_MOST,
      .weight = has_limit ? ask->weight : 0,
      .limit = has_limit ? ask->limit : WLH_LIMIT_NONE,
  };
  *answer = (struct wlh_answer){.needed = UINT32_MAX};
  if (ask->name_units > WLH_NAME_MOST) return WLH_CELLS_FULL;
  enum wlh_cells_status status = find_agent(arena, ask->agent);
  if (status != WLH_CELLS_OK) return status;
  asking.hash = wlh_name_hash(arena, ask->name, ask->name_units);
  status = prepare(arena, &asking, answer);
  if (status == WLH_CELLS_OK) status = make(arena, &asking, answer);
  return wlh_answer(arena, status);
}

/* ---- 4.2 release the lock, 4.3 abort the request ---- */

/* Whether `request` is one of ours; OK if it is. */
static enum wlh_cells_status find_request(
    const struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  bool is = request < arena->ncells && wlh_is_request(cell->kind) &&
            cell->member == arena->member && cell->cookie == cookie;
  return wlh_answer(arena, is ? WLH_CELLS_OK : WLH_CELLS_LOST);
}

/* Takes a request that is in no other list off its agent, and frees it. */
static void free_request(struct wlh_arena *arena, uint32_t request)
{
  const struct wlh_request_cell *cell = wlh_request_at(arena, request);
  uint32_t label = cell->label, units = cell->label_units;
  struct wlh_agent_cell *agent = wlh_agent_at(arena, cell->agent);
  wlh_list_drop(arena, &agent->requests, WLH_BY_AGENT, request);
  wlh_pool_give(arena, request);
  wlh_text_give(arena, label, units);
}

void wlh_end_broken(struct wlh_arena *arena, uint32_t request)
{
  free_request(arena, request);
}

/* Takes a lock or a request off its resource, ends it, and lets in who waits behind it. */
static void remove_from_resource(struct wlh_arena *arena, uint32_t request)
{
  const struct wlh_request_cell *request_cell = wlh_request_at(arena, request);
  uint32_t resource = request_cell->resource;
  if (!wlh_expect(arena, resource, WLH_KIND_RESOURCE)) return;
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  if (request_cell->kind == WLH_KIND_PENDING) {
    wlh_list_drop(arena, &cell->queue, WLH_BY_RESOURCE, request);
    count_pending(arena, cell, request_cell->member, UINT32_MAX);
  } else {
    if (request_cell->kind == WLH_KIND_NEWS_HELD) wlh_unmail(arena, request);
    wlh_list_drop(arena, &cell->held, WLH_BY_RESOURCE, request);
    WLH_PUT(cell->weight, cell->weight - request_cell->weight);
  }
  free_request(arena, request);
  wlh_process_queue(arena, resource);
  if (cell->queue.head == 0 && cell->held.head == 0) wlh_name_remove(arena, resource);
}

static void end_request(struct wlh_arena *arena, uint32_t request)
{
  if (wlh_kind_of(arena, request) != WLH_KIND_NEWS_BROKEN) {
    remove_from_resource(arena, request);
    return;
  }
  wlh_unmail(arena, request);
  wlh_end_broken(arena, request);
}

enum wlh_cells_status wlh_cells_release(
    struct wlh_arena *arena, uint32_t request, uint64_t cookie, struct wlh_thief *thief)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  uint32_t kind = wlh_kind_of(arena, request);
  if (kind == WLH_KIND_PENDING) return WLH_CELLS_NOT_HELD;
  bool stolen = kind == WLH_KIND_NEWS_BROKEN;
  if (stolen) *thief = wlh_request_at(arena, request)->thief;
  end_request(arena, request);
  return wlh_answer(arena, stolen ? WLH_CELLS_STOLEN : WLH_CELLS_OK);
}

enum wlh_cells_status wlh_cells_abort(struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  uint32_t kind = wlh_kind_of(arena, request);
  if (kind == WLH_KIND_NEWS_BROKEN) return WLH_CELLS_STOLEN;
  if (kind != WLH_KIND_PENDING) return WLH_CELLS_GRANTED;
  end_request(arena, request);
  return wlh_answer(arena, WLH_CELLS_OK);
}

enum wlh_cells_status wlh_cells_end(struct wlh_arena *arena, uint32_t request, uint64_t cookie)
{
  enum wlh_cells_status found = find_request(arena, request, cookie);
  if (found != WLH_CELLS_OK) return found;
  end_request(arena, request);
  return wlh_answer(arena, WLH_CELLS_OK);
}

/* ---- blocking ---- */

/* What a thread that blocks has of a resource, and will have: it ends nothing. */
struct own_locks {
  bool any, exclusive;
  uint64_t units;
};

static void add_own(struct own_locks *own, const struct wlh_request_cell *request)
{
  own->any = true;
  own->exclusive = own->exclusive || request->mode == WLH_EXCLUSIVE;
  own->units += request->weight;
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
  struct own_locks own = {0};
  for (uint32_t i = cell->held.head; i != 0 && steps < arena->ncells; steps++) {
    const struct wlh_request_cell *lock = wlh_request_at(arena, i);
    if (is_of_thread(arena, lock, thread)) add_own(&own, lock);
    i = wlh_list_next(arena, WLH_BY_RESOURCE, i);
  }
  for (uint32_t i = cell->queue.head; i != 0 && steps < arena->ncells; steps++) {
    const struct wlh_request_cell *other = wlh_request_at(arena, i);
    bool excluded = own.exclusive || other->mode == WLH_EXCLUSIVE ||
                    own.units + other->weight > wlh_limit_number(cell->limit);
    if (own.any && excluded) return true;
    if (i == request) return false;
    if (is_of_thread(arena, other, thread)) add_own(&own, other);
    i = wlh_list_next(arena, WLH_BY_RESOURCE, i);
  }
  return false;
}

/* ---- 2.6 termination of locks ---- */

static void abort_requests(struct wlh_arena *arena, const struct wlh_agent_cell *agent)
{
  uint32_t next;
  uint32_t steps = 0;
  for (uint32_t request = agent->requests.head; request != 0; request = next) {
    if (++steps > arena->ncells) wlh_damage(arena);
    if (arena->poisoned || !wlh_expect_request(arena, request)) return;
    /* An abort can grant other requests of the agent, but ends none of them. */
    next = wlh_list_next(arena, WLH_BY_AGENT, request);
    if (wlh_kind_of(arena, request) == WLH_KIND_PENDING) end_request(arena, request);
  }
}

static void terminate(struct wlh_arena *arena, uint32_t agent)
{
  const struct wlh_agent_cell *cell = wlh_agent_at(arena, agent);
  uint32_t request;
  abort_requests(arena, cell);
  while ((request = cell->requests.head) != 0) {
    if (arena->poisoned || !wlh_expect_request(arena, request)) return;
    end_request(arena, request);
  }
  uint32_t name = cell->name, units = cell->units;
  wlh_pool_give(arena, agent);
  wlh_text_give(arena, name, units);
}

enum wlh_cells_status wlh_cells_terminate(struct wlh_arena *arena, uint32_t agent)
{
  enum wlh_cells_status found = find_agent(arena, agent);
  if (found != WLH_CELLS_OK) return found;
  terminate(arena, agent);
  return wlh_answer(arena, WLH_CELLS_OK);
}
