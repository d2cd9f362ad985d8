/* Runs both cores side by side. Bytes are operations of agents of several processes on a few names,
 * which run on the cells of a segment and on the core of the process scope. Answers, grants,
 * tokens, events and snapshots must be the same in the same order, and every invariant must hold
 * after every operation. In the core, the death of a process is the end of its agents. In the
 * cells, a request that the dead process blocks notices the death, or another process does.
 *
 * This is a libFuzzer target. With -DWLH_STANDALONE its own main() makes up the bytes. */
#include "table.h"

#include "../../src/host/segment/marks.h"

#include <stdlib.h>
#include <string.h>

enum { AGENTS = PARTIES * AGENTS_EACH, CELLS_ROOM = 512, NAMES = 5, MOST = 40, LABEL = 70 };
enum { DAY = 86400000 };

struct pair {
  bool used;
  bool blocked; /* the blocking wait asked whether it waits for itself */
  int agent, name;
  struct made cells;
  struct wlk_request *core;
  uint64_t cells_token, core_token; /* once the grant was read */
  bool marked;                      /* whether the name was marked at the grant */
  uint64_t granted_at;              /* the time when the grant was read */
};

static struct table table;
static struct wlk_process process;
static struct wlk_manager *manager;
static struct wlk_agent *agents[AGENTS];
static uint32_t numbers[AGENTS]; /* the core assigns these; the cells get the same */
static struct pair all[MOST];
static uint16_t names[NAMES][300];
static const uint32_t lengths[NAMES] = {
    0, WLH_NAME_INLINE, WLH_NAME_INLINE, WLH_NAME_INLINE + 1, 300};
static uint16_t label[LABEL];

static void must(bool condition, const char *sentence)
{
  if (condition) return;
  (void)fprintf(stderr, "the cells and the core differ: %s\n", sentence);
  abort();
}

static void ignore(void *data)
{
  (void)data;
}

static int party_of(int agent)
{
  return agent / AGENTS_EACH;
}

static uint32_t agent_cell(int agent)
{
  return table.parties[party_of(agent)].agents[agent % AGENTS_EACH];
}

/* Both agents of process 0 share one thread. */
static uint32_t thread_of(int agent)
{
  return party_of(agent) == 0 ? 0 : (uint32_t)(agent % AGENTS_EACH);
}

static void start_agent(int agent)
{
  struct wlk_thread thread = {1 + (uint32_t)party_of(agent) * 10 + thread_of(agent), NULL, 0};
  if (wlk_agent_create(&process, "f-", &thread, ignore, NULL, &agents[agent]) != WLK_OK) abort();
  numbers[agent] = (uint32_t)strtoul(wlk_agent_client_id(agents[agent]) + 2, NULL, 10);
  uint32_t *cell = &table.parties[party_of(agent)].agents[agent % AGENTS_EACH];
  struct wlh_arena *arena = inside(&table, party_of(agent));
  if (wlh_cells_add_agent(arena, thread_of(agent), numbers[agent], NULL, 0, cell) != WLH_CELLS_OK)
    abort();
}

static void forget(int agent)
{
  for (int i = 0; i < MOST; i++)
    if (all[i].used && all[i].agent == agent) all[i].used = false;
}

static void check_cells(void)
{
  const char *sentence = wrong(&table, 0);
  if (!sentence) return;
  (void)fprintf(stderr, "broken: %s\n", sentence);
  abort();
}

/* ---- news ---- */

static void check_token(struct pair *pair, uint64_t cells, uint64_t core)
{
  pair->cells_token = cells;
  pair->core_token = core;
  /* The core counts the grants of a shard of names, the cells all: each name's tokens grow in both.
   * */
  must(cells > 0 && core > 0, "a token");
  for (int i = 0; i < MOST; i++) {
    const struct pair *other = &all[i];
    if (!other->used || other == pair || other->name != pair->name || other->cells_token == 0)
      continue;
    must((other->cells_token < cells) == (other->core_token < core), "the order of tokens");
  }
}

static void check_letter(const struct wlh_message *letter, const struct wlk_event *event)
{
  struct pair *pair = &all[event->tag];
  must(letter->cookie == pair->cells.cookie, "who is told");
  must(letter->news == event->news, "what is told");
  must(letter->agent == numbers[pair->agent], "the agent of a letter");
  uint64_t high = event->token_high;
  if (letter->news & WLH_REPORTED_GRANTED)
    check_token(pair, letter->token, high << 32 | event->token_low);
  pair->marked = letter->marked;
  pair->granted_at = table.time;
  if (letter->news & WLH_REPORTED_PASSED) pair->used = false;
  if (letter->news & WLH_REPORTED_STOLEN) {
    pair->used = false;
    must(event->thief_number == letter->thief.number, "the thief");
  }
}

static const struct wlh_message *find_letter(const struct mail *mail, uint32_t tag)
{
  for (uint32_t i = 0; i < mail->count; i++)
    if (mail->letters[i].cookie == all[tag].cells.cookie) return &mail->letters[i];
  return NULL;
}

/* Reads all events of a process. If `ordered`, each agent gets them in the same order from both. */
static void take_mail_of(int party, bool ordered)
{
  struct mail mail = mail_of(&table, party);
  uint32_t told = 0;
  for (int j = 0; j < AGENTS_EACH; j++) {
    struct wlk_event items[MOST];
    struct wlk_events events = {.items = items, .capacity = MOST};
    wlk_agent_take_events(agents[party * AGENTS_EACH + j], true, &events);
    uint32_t at = 0, number = numbers[party * AGENTS_EACH + j];
    for (size_t i = 0; i < events.count; i++) {
      while (ordered && at < mail.count && mail.letters[at].agent != number) at++;
      const struct wlh_message *letter = ordered ? (at < mail.count ? &mail.letters[at++] : NULL)
                                                 : find_letter(&mail, items[i].tag);
      must(letter, "something is not told");
      check_letter(letter, &items[i]);
      told++;
    }
  }
  must(told == mail.count, "something is told too much");
}

static void take_all(bool ordered)
{
  for (int i = 0; i < PARTIES; i++) take_mail_of(i, ordered);
}

/* ---- operations ---- */

static enum wlk_status in_core(enum wlh_cells_status status)
{
  static const struct {
    enum wlh_cells_status cells;
    enum wlk_status core;
  } same[] = {
      {WLH_CELLS_OK, WLK_OK},
      {WLH_CELLS_GRANTED, WLK_GRANTED},
      {WLH_CELLS_PENDING, WLK_PENDING},
      {WLH_CELLS_NOT_AVAILABLE, WLK_NOT_AVAILABLE},
      {WLH_CELLS_STOLEN, WLK_STOLEN},
      {WLH_CELLS_NOT_HELD, WLK_NOT_HELD},
      {WLH_CELLS_OTHER_LIMIT, WLK_OTHER_LIMIT},
      {WLH_CELLS_QUEUE_FULL, WLK_QUEUE_FULL},
  };
  size_t i = 0;
  while (i < sizeof same / sizeof *same && same[i].cells != status) i++;
  must(i < sizeof same / sizeof *same, "a status the core does not have");
  return same[i].core;
}

/* Frees the names whose marks are over. Returns whether a request has room then. */
static bool make_room(struct wlh_arena *arena)
{
  enum { NEEDED = 16 };
  bool made = wlh_cells_make_room(arena, NEEDED);
  uint32_t nfree = wlh_cells_free_count(arena), marks = arena->segment->header.marks;
  must(made == (marks == 1 && nfree >= arena->ncells / 4 + NEEDED), "whether marks made room");
  for (uint32_t i = 1; i < arena->ncells && marks == 1; i++) {
    const struct wlh_resource_cell *cell = &arena->segment->cells[i].resource;
    bool is_unused = cell->kind == WLH_KIND_RESOURCE && cell->queue.head + cell->held.head == 0;
    must(!is_unused || wlh_name_is_marked(arena, i), "a name whose mark is over takes room");
  }
  return made;
}

/* Grows the segment if it is full. A rebuild may reorder mail, so the mail is read before it. */
static struct made ask_cells(int agent, int name, struct wlh_ask ask)
{
  int party = party_of(agent);
  ask.agent = agent_cell(agent);
  for (;;) {
    struct made made = make_units(&table, party, names[name], lengths[name], ask);
    if (made.status != WLH_CELLS_FULL) return made;
    (void)wlh_cells_reap(inside(&table, party));
    take_all(false);
    if (make_room(inside(&table, party))) continue;
    uint32_t ncells = table.parties[party].arena.ncells;
    if (ncells == CELLS_ROOM) abort();
    if (wlh_cells_grow(inside(&table, party), ncells * 2) != WLH_CELLS_OK) abort();
  }
}

static void do_request(int agent, int name, struct wlh_ask ask)
{
  int id = 0;
  while (id < MOST && all[id].used) id++;
  if (id == MOST) return;
  struct made made = ask_cells(agent, name, ask);
  struct wlk_extra extra = {
      .label = label,
      .label_length = ask.label_units,
      .limit = ask.limit,
      .weight = ask.weight,
      .bounded = ask.bounded,
      .max_pending = ask.max_pending,
      .priority = ask.priority,
  };
  struct wlk_events events = {.capacity = 0};
  struct wlk_request *request = NULL;
  enum wlk_status status = wlk_request_a_lock(
      agents[agent], manager, names[name], lengths[name], (enum wlk_mode)ask.mode,
      (enum wlk_option)ask.option, (uint32_t)id, &extra, &request, NULL, &events);
  must(in_core(made.status) == status, "the answer to a request");
  must(status != WLK_OTHER_LIMIT || made.limit == events.limit, "the limit of an answer");
  if (status != WLK_GRANTED && status != WLK_PENDING) return;
  all[id] = (struct pair){true, false, agent, name, made, request, 0, 0, made.marked, table.time};
  if (status == WLK_GRANTED) check_token(&all[id], made.token, events.token);
}

static int choose(int pick)
{
  for (int i = 0; i < MOST; i++)
    if (all[(pick + i) % MOST].used) return (pick + i) % MOST;
  return -1;
}

/* Whether the lock is exclusive and its process knows of it, and its name is not marked. */
static bool can_mark(const struct pair *pair)
{
  const struct wlh_request_cell *cell = &table.segment->cells[pair->cells.request].request;
  struct wlk_events events = {.capacity = 0};
  if (pair->cells_token == 0 || cell->kind != WLH_KIND_HELD || cell->mode != WLH_EXCLUSIVE)
    return false;
  bool marked = wlk_prepare_mark(pair->core, &events) == WLK_MARKED;
  must(
      marked == wlh_name_is_marked(inside(&table, pair->cells.party), cell->resource),
      "whether a name is marked");
  must(marked == pair->marked || pair->granted_at < table.time, "whether a name was marked");
  return !marked;
}

/* The release of a stolen lock marks nothing, even if it asks for that. */
static void do_release(struct pair *pair, bool mark, uint64_t time)
{
  struct wlk_events events = {.capacity = 0};
  struct wlh_thief thief;
  const struct wlh_request_cell *cell = &table.segment->cells[pair->cells.request].request;
  bool is_stolen = cell->kind == WLH_KIND_NEWS_BROKEN && !cell->passes;
  uint64_t keep = mark && can_mark(pair) ? time : 0;
  enum wlk_status status = keep > 0 ? wlk_release_and_mark(pair->core, keep, &events)
                                    : wlk_release_the_lock(pair->core, &events);
  enum wlh_cells_status said = wlh_cells_release_the_lock(
      inside(&table, pair->cells.party), pair->cells.request, pair->cells.cookie,
      mark && is_stolen ? DAY : keep, &thief);
  must(in_core(said) == status, "the answer to a release");
  if (status != WLK_NOT_HELD) pair->used = false;
}

/* The core has no limit of room, so it publishes only if the cells have room. */
static void do_publish(struct pair *pair, uint32_t units)
{
  uint32_t needed;
  enum wlh_cells_status said = wlh_cells_publish(
      inside(&table, pair->cells.party), pair->cells.request, pair->cells.cookie, label, units,
      &needed);
  if (said == WLH_CELLS_FULL) return;
  must(in_core(said) == wlk_publish(pair->core, label, units), "the answer to a publication");
}

static void do_abort(struct pair *pair)
{
  struct wlk_events events = {.capacity = 0};
  enum wlk_status status = wlk_abort_the_request(pair->core, &events);
  must(in_core(give_up(&table, &pair->cells)) == status, "the answer to an abort");
  if (status == WLK_OK) pair->used = false;
}

/* The cells reject further calls of a request that has ended. */
static void must_be_over(const struct pair *pair)
{
  struct made gone = pair->cells;
  must(drop(&table, &gone) == WLH_CELLS_LOST, "the release of a request that has ended");
  must(give_up(&table, &gone) == WLH_CELLS_LOST, "the abort of a request that has ended");
}

static void do_end(struct pair *pair)
{
  struct made theirs = pair->cells;
  theirs.party = (theirs.party + 1) % PARTIES;
  must(drop(&table, &theirs) == WLH_CELLS_LOST, "the release of a lock of another process");
  wlk_end_the_request(pair->core);
  struct wlh_arena *arena = inside(&table, pair->cells.party);
  must(
      wlh_cells_end_the_request(arena, pair->cells.request, pair->cells.cookie) == WLH_CELLS_OK,
      "the end of a request");
  pair->used = false;
  must_be_over(pair);
}

static void do_block(struct pair *pair)
{
  struct wlh_arena *arena = inside(&table, pair->cells.party);
  struct wlk_events events = {.capacity = 0};
  struct wlk_snapshot *cycle = NULL;
  if (pair->blocked || arena->segment->cells[pair->cells.request].kind != WLH_KIND_PENDING) return;
  bool waits = wlh_cells_waits_for_itself(arena, pair->cells.request, pair->cells.cookie);
  enum wlk_status status = wlk_wait_for_the_lock(pair->core, 0, &cycle, &events);
  must(waits == (status == WLK_DEADLOCK), "who waits for itself");
  pair->blocked = true;
  if (!waits) return;
  wlk_snapshot_free(cycle);
  must(give_up(&table, &pair->cells) == WLH_CELLS_OK, "the abort of who waits for itself");
  pair->used = false;
}

static void do_terminate(int agent)
{
  wlk_agent_terminate(agents[agent]);
  struct wlh_arena *arena = inside(&table, party_of(agent));
  if (wlh_cells_terminate_agent(arena, agent_cell(agent)) != WLH_CELLS_OK) abort();
  forget(agent);
  start_agent(agent);
}

/* A rebuild changes only the order of mail. */
static void do_rebuild(int party)
{
  take_all(true);
  if (wlh_cells_rebuild(inside(&table, party)) != WLH_CELLS_OK) abort();
}

static uint32_t count_waiting(int name)
{
  uint32_t count = 0;
  for (int i = 0; i < MOST; i++) {
    const struct pair *pair = &all[i];
    count += pair->used && pair->name == name &&
             table.segment->cells[pair->cells.request].kind == WLH_KIND_PENDING;
  }
  return count;
}

/* Returns the limit of the name, or 0 if it has none. */
static uint32_t limit_of(int name)
{
  for (int i = 0; i < MOST; i++) {
    const union wlh_cell *cell = &table.segment->cells[all[i].cells.request];
    if (!all[i].used || all[i].name != name) continue;
    if (cell->kind == WLH_KIND_NEWS_BROKEN) continue;
    uint32_t limit = table.segment->cells[cell->request.resource].resource.limit;
    return limit == WLH_LIMIT_NONE || limit == WLH_LIMIT_UNSET ? 0 : limit;
  }
  return 0;
}

/* Another process notices the death by a request that the dead process blocks. Such a request does
 * not wait, or waits only in a queue that was shorter before. Otherwise another request, or the
 * process that gets the number, notices. A rebuild may reorder mail, so it is read before. */
static void do_die(int party, int name, uint8_t more, struct wlh_ask ask)
{
  bool waits = more % 2 == 1;
  int next = (party + 1) % PARTIES;
  take_all(true);
  ask.bounded = waits;
  ask.max_pending = count_waiting(name);
  if (ask.mode == WLH_SHARED) ask.limit = limit_of(name);
  if (ask.limit > 0) ask.weight = 1 + more / 2 % ask.limit;
  kill_party(&table, party);
  for (int j = 0; j < AGENTS_EACH; j++) {
    wlk_agent_terminate(agents[party * AGENTS_EACH + j]);
    forget(party * AGENTS_EACH + j);
  }
  ask.option = waits ? WLH_WAIT : WLH_IF_AVAILABLE;
  ask.priority = -2; /* not ahead of requests that wait for the dead in the cells alone */
  do_request(next * AGENTS_EACH, name, ask);
  if (ask.mode == WLH_SHARED) (void)wlh_cells_reap(inside(&table, next));
  table.dead[party] = false;
  if (wlh_cells_join(inside(&table, party), 100 + (uint64_t)party, 1, "1") != WLH_CELLS_OK) abort();
  for (int j = 0; j < AGENTS_EACH; j++) start_agent(party * AGENTS_EACH + j);
  take_all(false);
}

/* ---- snapshots ---- */

static bool is_same_text(
    const struct wlk_snapshot *core, uint32_t text, const uint16_t *units, uint32_t count)
{
  if (text == WLK_NO_TEXT || count == 0) return text == WLK_NO_TEXT && count == 0;
  const struct wlk_name *said = &core->names[text];
  return said->length == count && memcmp(said->units, units, count * sizeof *units) == 0;
}

static void compare_entry(
    const struct wlh_view *view, const struct wlh_entry *entry, const struct wlk_snapshot *core,
    const struct wlk_lock_info *info)
{
  const struct wlh_client *client = &view->clients[entry->client];
  const char *id = core->clients[info->client].id;
  must(strtoul(id + 2, NULL, 10) == client->number, "a client in a snapshot");
  must(entry->mode == info->mode && entry->held == info->held, "a mode in a snapshot");
  must(entry->limit == info->limit && entry->weight == info->weight, "a limit in a snapshot");
  must(entry->priority == info->priority, "a priority in a snapshot");
  must(
      is_same_text(core, info->label, view->units + entry->label, entry->label_units),
      "a label in a snapshot");
  must(
      is_same_text(core, info->data, view->units + entry->data, entry->data_units),
      "what a lock has published in a snapshot");
}

enum { UNITS = 2 * MOST * LABEL + 1000 };

static uint16_t units[UNITS];

/* Compares both snapshots, of a name or of all names (-1). */
static void compare_snapshot_of(int name, bool pending)
{
  static struct wlh_entry entries[MOST];
  static struct wlh_client clients[AGENTS];
  struct wlh_view view = {entries, clients, units, MOST, AGENTS, UNITS, 0, 0, 0}, none = {0};
  struct wlk_snapshot *core;
  struct wlh_arena *arena = inside(&table, 0);
  enum wlk_status status =
      name < 0 ? wlk_snapshot_the_lock_state(manager, &core)
               : wlk_snapshot_a_name(manager, names[name], lengths[name], pending, &core);
  if (status != WLK_OK) abort();
  for (int i = 0; i < 2; i++) {
    struct wlh_view *to = i == 0 ? &none : &view;
    enum wlh_cells_status said =
        name < 0 ? wlh_cells_snapshot_the_lock_state(arena, to)
                 : wlh_cells_snapshot_a_name(arena, names[name], lengths[name], pending, to);
    bool has_room = to == &view || to->entry_count + to->unit_count == 0;
    must(said == (has_room ? WLH_CELLS_OK : WLH_CELLS_FULL), "a snapshot");
  }
  must(
      none.entry_count >= view.entry_count && none.client_count >= view.client_count &&
          none.unit_count >= view.unit_count,
      "the size of a snapshot without room");
  must(core->lock_count == view.entry_count, "the size of a snapshot");
  for (uint32_t i = 0; i < view.entry_count && name >= 0; i++) {
    must(entries[i].name_units == lengths[name], "the length of a name in a snapshot");
    must(
        memcmp(units + entries[i].name, names[name], lengths[name] * 2) == 0,
        "a name in a snapshot");
    compare_entry(&view, &entries[i], core, &core->locks[i]);
  }
  wlk_snapshot_free(core);
}

/* ---- bytes to operations ---- */

static void operate(uint8_t operation, uint8_t argument)
{
  int agent = argument % AGENTS, name = argument / AGENTS % NAMES;
  uint8_t more = operation / 16;
  struct wlh_ask ask = {.mode = argument & 0x80 ? WLH_SHARED : WLH_EXCLUSIVE};
  ask.label = label;
  static const uint32_t label_lengths[] = {1, WLH_TEXT_UNITS, WLH_TEXT_UNITS + 1, LABEL};
  ask.label_units = more % 4 == 3 ? label_lengths[argument / 2 % 4] : 0;
  int chosen = choose(argument % MOST);
  switch (operation % 16) {
  case 5:
    ask.option = WLH_STEAL;
    ask.mode = WLH_EXCLUSIVE;
    do_request(agent, name, ask);
    break;
  case 6:
  case 7:
    if (chosen >= 0 && more % 4 == 2)
      do_publish(&all[chosen], argument % (LABEL + 1));
    else if (chosen >= 0)
      do_release(&all[chosen], more % 4 == 3, more < 8 ? 2 : DAY);
    break;
  case 8:
    if (chosen >= 0) do_abort(&all[chosen]);
    break;
  case 9:
    take_mail_of(party_of(agent), true);
    break;
  case 10:
    compare_snapshot_of(name, argument & 0x80);
    compare_snapshot_of(-1, true);
    break;
  case 11:
    if (more < 4)
      do_terminate(agent);
    else if (more < 10)
      do_die(party_of(agent), name, more, ask);
    else if (more < 12)
      pass_time(&table, more % 2 ? DAY : 1);
    else
      do_rebuild(party_of(agent));
    break;
  case 12:
    if (chosen >= 0) do_end(&all[chosen]);
    break;
  case 15:
    if (chosen >= 0) do_block(&all[chosen]);
    break;
  default:
    if (operation % 16 == 4) ask.option = WLH_IF_AVAILABLE;
    if (operation % 16 == 1) ask.option = more % 4 == 0 ? WLH_PASS_IF_AVAILABLE : WLH_PASS;
    if (operation % 16 == 3 && more % 2 == 0) ask.option = WLH_PASS;
    if (operation % 16 >= 2) ask.priority = more % 5 - 2;
    if (operation % 16 >= 13) {
      ask.mode = operation % 16 == 14 ? WLH_SHARED : ask.mode;
      ask.limit = 1 + more % 3;
      ask.weight = 1 + more / 3 % (1 + more % 3);
      ask.bounded = more % 2 == 1;
      ask.max_pending = more / 4;
      ask.option = more % 5 == 4 ? WLH_IF_AVAILABLE : WLH_WAIT;
    }
    if (ask.option >= WLH_PASS) ask.mode = WLH_EXCLUSIVE;
    do_request(agent, name, ask);
    break;
  }
  check_cells();
}

static void begin_both(void)
{
  memset(all, 0, sizeof all);
  for (uint16_t i = 0; i < LABEL; i++) label[i] = i;
  for (int i = 0; i < NAMES; i++)
    for (uint16_t j = 0; j < 300; j++) names[i][j] = (uint16_t)(j == 31 ? i : j * 7);
  process = (struct wlk_process)WLK_PROCESS_INIT;
  if (wlk_manager_open(&process, NULL, 0, &manager) != WLK_OK) abort();
  table_begin(&table, WLH_CELLS_LEAST, CELLS_ROOM);
  for (int i = 0; i < AGENTS; i++) {
    if (wlh_cells_terminate_agent(inside(&table, party_of(i)), agent_cell(i)) != WLH_CELLS_OK)
      abort();
    start_agent(i);
  }
}

static void end_both(void)
{
  take_all(true);
  compare_snapshot_of(-1, true);
  for (int i = 0; i < AGENTS; i++) wlk_agent_terminate(agents[i]);
  wlk_manager_close(manager);
  must(live_blocks() == 0, "memory was not given back");
  for (int i = 0; i < PARTIES; i++)
    if (wlh_cells_drop_member(inside(&table, i)) != WLH_CELLS_OK) abort();
  pass_time(&table, 2 * (uint64_t)DAY);
  if (wlh_cells_rebuild(inside(&table, 0)) != WLH_CELLS_OK) abort();
  must(
      wlh_cells_free_count(inside(&table, 0)) == table.parties[0].arena.ncells - 1,
      "a cell leaked");
  check_cells();
  table_end(&table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  begin_both();
  for (size_t i = 0; i + 1 < size; i += 2) operate(data[i], data[i + 1]);
  end_both();
  return 0;
}

#if defined(WLH_STANDALONE)
int main(int argc, char **argv)
{
  long rounds = argc > 1 ? atol(argv[1]) : 1000;
  for (long round = 0; round < rounds; round++) {
    static uint8_t data[600];
    uint64_t seed = (uint64_t)round;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)draw(&seed, 256);
    /* Every other run uses few names, whose queues become long. */
    for (size_t i = 1; i < sizeof data && round % 2 == 1; i += 2) data[i] &= 0x8f;
    (void)LLVMFuzzerTestOneInput(data, sizeof data);
  }
  printf("ok - both cores did the same in %ld runs of 300 operations\n", rounds);
  return 0;
}
#endif
