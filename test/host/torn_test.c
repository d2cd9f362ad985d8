/* Death at every store. Each operation is cut before its n-th store to the segment, for all n; as a
 * processor and a compiler may, the stores since the last commit are then undone in part. A
 * survivor takes over and must find everything whole. */
#include "table.h"

#include "../../src/host/segment/store.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

/* ---- cutting ---- */

struct undo {
  volatile unsigned char *place;
  size_t size;
  unsigned char bytes[256];
};

enum { UNDO_MOST = 4096 };

static struct undo journal[UNDO_MOST];
static size_t journal_length;
static long steps_left; /* 0: not cutting */
static long steps_done;
static jmp_buf cut;

void wlh_step(volatile void *place, size_t size)
{
  if (steps_left == 0) return;
  if (--steps_left == 0) longjmp(cut, 1);
  steps_done++;
  if (journal_length == UNDO_MOST || size > sizeof journal[0].bytes) abort();
  struct undo *undo = &journal[journal_length++];
  undo->place = place;
  undo->size = size;
  for (size_t i = 0; i < size; i++) undo->bytes[i] = undo->place[i];
}

void wlh_step_commit(void)
{
  journal_length = 0;
}

/* Undoes some of the stores that no commit has followed, the last first. */
static void undo_some(uint64_t *seed)
{
  while (journal_length > 0) {
    const struct undo *undo = &journal[--journal_length];
    if (draw(seed, 2) == 0) continue;
    for (size_t i = 0; i < undo->size; i++) undo->place[i] = undo->bytes[i];
  }
}

/* ---- states and operations ---- */

static const char long_name[] =
    "a name that is longer than what fits into the cell of a resource, and longer than what fits "
    "into one cell of text behind it, so that it needs several of them to be stored at all";

enum { MADE_MOST = 16 };

struct scene {
  struct table table;
  struct made made[MADE_MOST]; /* of everybody, before the operation */
  uint32_t kinds[MADE_MOST];   /* of their cells then */
  int count;
  struct made mine; /* what the victim, party 0, works on */
};

static void add(struct scene *scene, struct made made)
{
  scene->made[scene->count++] = made;
}

static struct wlh_ask labelled(uint32_t limit, uint32_t weight)
{
  static const uint16_t label[70] = {'l', 'a', 'b', 'e', 'l'};
  return (struct wlh_ask){
      .mode = limit > 0 ? WLH_SHARED : WLH_EXCLUSIVE,
      .limit = limit,
      .weight = weight,
      .label = label,
      .label_units = 70,
  };
}

struct operation {
  const char *title;
  bool steals;
  void (*prepare)(struct scene *scene);
  void (*run)(struct scene *scene);
};

static void ask_name(struct scene *scene)
{
  (void)want(&scene->table, 0, "name");
}

static void ask_long_name(struct scene *scene)
{
  (void)make(&scene->table, 0, long_name, labelled(0, 0));
}

static void ask_with_limit(struct scene *scene)
{
  (void)make(&scene->table, 0, "limited", labelled(3, 2));
}

static struct made ask_with(struct scene *scene, int party, int32_t priority)
{
  return make(&scene->table, party, "name", (struct wlh_ask){.priority = priority});
}

/* Ahead of all, behind some, between two of whom none has it, behind all. */
static void ask_highest(struct scene *scene)
{
  (void)ask_with(scene, 0, 9);
}

static void ask_middle(struct scene *scene)
{
  (void)ask_with(scene, 0, 5);
}

static void ask_between(struct scene *scene)
{
  (void)ask_with(scene, 0, 3);
}

static void ask_lowest(struct scene *scene)
{
  (void)ask_with(scene, 0, -9);
}

static struct made pass(struct scene *scene, int party)
{
  return make(&scene->table, party, "name", (struct wlh_ask){.option = WLH_PASS});
}

static void ask_to_pass(struct scene *scene)
{
  (void)pass(scene, 0);
}

static void ask_if_available(struct scene *scene)
{
  struct wlh_ask ask = {.option = WLH_IF_AVAILABLE};
  (void)make(&scene->table, 0, "name", ask);
}

static void steal_name(struct scene *scene)
{
  (void)steal(&scene->table, 0, "name");
}

static void drop_mine(struct scene *scene)
{
  (void)drop(&scene->table, &scene->mine);
}

static void give_up_mine(struct scene *scene)
{
  (void)give_up(&scene->table, &scene->mine);
}

static void take_mail(struct scene *scene)
{
  (void)mail_of(&scene->table, 0);
}

static void terminate_mine(struct scene *scene)
{
  (void)wlh_cells_terminate_agent(inside(&scene->table, 0), scene->table.parties[0].agents[0]);
}

static void add_agent(struct scene *scene)
{
  static const uint16_t name[64] = {'w', 'o', 'r', 'k', 'e', 'r'};
  uint32_t agent;
  (void)wlh_cells_add_agent(inside(&scene->table, 0), 9, 9, name, 64, &agent);
}

static void leave(struct scene *scene)
{
  (void)wlh_cells_drop_member(inside(&scene->table, 0));
}

static void quit(struct scene *scene)
{
  const struct party *party = &scene->table.parties[0];
  struct wlh_arena *arena = inside(&scene->table, 0);
  for (int i = 0; i < AGENTS_EACH; i++) (void)wlh_cells_terminate_agent(arena, party->agents[i]);
  (void)wlh_cells_leave(arena);
}

static void join_again(struct scene *scene)
{
  (void)wlh_cells_join(inside(&scene->table, 0), 200, 5000, "0.3.0");
}

static void grow(struct scene *scene)
{
  (void)wlh_cells_grow(inside(&scene->table, 0), scene->table.parties[0].arena.ncells * 4);
}

static void rebuild(struct scene *scene)
{
  (void)wlh_cells_rebuild(inside(&scene->table, 0));
}

static void nothing(struct scene *scene)
{
  (void)scene;
}

static void held_by_another(struct scene *scene)
{
  add(scene, want(&scene->table, 1, "name"));
}

static void queue_of_many(struct scene *scene)
{
  held_by_another(scene);
  add(scene, want(&scene->table, 2, "name"));
  add(scene, want(&scene->table, 1, "name"));
  add(scene, want(&scene->table, 3, long_name));
}

static void held_by_me(struct scene *scene)
{
  scene->mine = want(&scene->table, 0, "name");
  add(scene, want(&scene->table, 1, "name"));
  add(scene, want(&scene->table, 2, "name"));
}

static void long_held_by_me(struct scene *scene)
{
  scene->mine = make(&scene->table, 0, long_name, labelled(0, 0));
}

static void held_before_three_shared(struct scene *scene)
{
  scene->mine = want(&scene->table, 0, "name");
  for (int i = 1; i < PARTIES; i++) add(scene, want_shared(&scene->table, i, "name"));
  add(scene, want(&scene->table, 1, "name"));
}

static void limited_with_me(struct scene *scene)
{
  scene->mine = make(&scene->table, 0, "limited", labelled(3, 2));
  add(scene, make(&scene->table, 1, "limited", labelled(3, 1)));
  add(scene, make(&scene->table, 2, "limited", labelled(3, 2)));
  add(scene, make(&scene->table, 3, "limited", labelled(3, 1)));
}

/* One of mine among those that pass; the last one waits for nobody else. */
static void held_before_some_that_pass(struct scene *scene)
{
  scene->mine = want(&scene->table, 0, "name");
  add(scene, pass(scene, 1));
  (void)pass(scene, 0);
  add(scene, want(&scene->table, 2, "name"));
  add(scene, pass(scene, 3));
}

static void held_before_only_those_that_pass(struct scene *scene)
{
  scene->mine = want(&scene->table, 0, "name");
  add(scene, pass(scene, 1));
  add(scene, pass(scene, 3));
}

static void some_have_passed(struct scene *scene)
{
  held_before_some_that_pass(scene);
  (void)drop(&scene->table, &scene->mine);
}

static void shared_by_others(struct scene *scene)
{
  for (int i = 1; i < PARTIES; i++) add(scene, want_shared(&scene->table, i, "name"));
  add(scene, want(&scene->table, 2, "name"));
}

static void granted_untold(struct scene *scene)
{
  struct made before = want(&scene->table, 0, "name");
  add(scene, want(&scene->table, 1, "name"));
  add(scene, want(&scene->table, 2, "name"));
  (void)drop(&scene->table, &before);
}

static void i_wait_in_between(struct scene *scene)
{
  add(scene, want_shared(&scene->table, 1, "name"));
  scene->mine = make(&scene->table, 0, "name", labelled(0, 0));
  add(scene, want_shared(&scene->table, 2, "name"));
  add(scene, want_shared(&scene->table, 3, "name"));
}

/* Two of each of three priorities, not in their order. */
static void queue_with_priorities(struct scene *scene)
{
  held_by_another(scene);
  for (int i = 0; i < 6; i++) add(scene, ask_with(scene, 1 + i % 3, i % 3 == 2 ? -1 : i % 3 * 5));
}

static void same_for_two(struct scene *scene)
{
  held_by_another(scene);
  for (int i = 1; i < PARTIES - 1; i++) add(scene, ask_with(scene, i, 0));
}

static void i_am_alone_ahead(struct scene *scene)
{
  same_for_two(scene);
  scene->mine = ask_with(scene, 0, 7);
}

static void i_begin_a_level(struct scene *scene)
{
  held_by_another(scene);
  add(scene, ask_with(scene, 1, 7));
  scene->mine = ask_with(scene, 0, 3);
  add(scene, ask_with(scene, 2, 3));
  add(scene, ask_with(scene, 3, -2));
}

static void i_am_a_level(struct scene *scene)
{
  held_by_another(scene);
  add(scene, ask_with(scene, 1, 7));
  scene->mine = ask_with(scene, 0, 3);
  add(scene, ask_with(scene, 3, -2));
}

/* Shared ones, of which the later is granted first; then another waits. */
static void held_before_levels(struct scene *scene)
{
  struct wlh_ask ask = {.mode = WLH_SHARED};
  scene->mine = want(&scene->table, 0, "name");
  for (int i = 1; i < PARTIES; i++) {
    ask.priority = i;
    add(scene, make(&scene->table, i, "name", ask));
  }
  add(scene, ask_with(scene, 1, -1));
}

static void i_have_mail(struct scene *scene)
{
  struct made before = want(&scene->table, 1, "one");
  (void)want(&scene->table, 0, "one");
  (void)make(&scene->table, 0, "name", labelled(0, 0));
  add(scene, want(&scene->table, 2, "one"));
  (void)drop(&scene->table, &before);
  add(scene, steal(&scene->table, 3, "name"));
}

static void i_have_much(struct scene *scene)
{
  i_have_mail(scene);
  held_before_three_shared(scene);
  limited_with_me(scene);
}

static void i_have_levels(struct scene *scene)
{
  held_before_levels(scene);
  (void)drop(&scene->table, &scene->mine);
  add(scene, ask_with(scene, 2, 4));
  (void)ask_with(scene, 0, 1);
  (void)ask_with(scene, 0, 4);
}

/* Behind the cells there is what a longer segment left, before it was formatted anew. */
static void old_file(struct scene *scene)
{
  i_have_much(scene);
  uint32_t *word = (uint32_t *)(void *)&scene->table.segment->cells[64] + 64;
  uint32_t *end = (uint32_t *)(void *)&scene->table.segment->cells[512];
  while (word < end) *word++ = WLH_KIND_KEPT + 1;
}

static void a_dead_predecessor(struct scene *scene)
{
  held_by_me(scene);
}

static void somebody_died(struct scene *scene)
{
  queue_of_many(scene);
  (void)want(&scene->table, 0, "mine");
  kill_party(&scene->table, 1);
}

static void somebody_died_before_those_that_pass(struct scene *scene)
{
  (void)want(&scene->table, 1, "name");
  add(scene, pass(scene, 2));
  add(scene, pass(scene, 3));
  kill_party(&scene->table, 1);
}

static void somebody_died_in_a_large_file(struct scene *scene)
{
  (void)wlh_cells_grow(inside(&scene->table, 0), 512);
  somebody_died(scene);
}

static void large_file(struct scene *scene)
{
  (void)wlh_cells_grow(inside(&scene->table, 0), 512);
  i_have_much(scene);
}

/* Every store above, once more while a dead one's tables are being repaired. */
static void torn_tables(struct scene *scene)
{
  i_have_much(scene);
  uint32_t *bucket = (uint32_t *)(void *)&scene->table.segment->cells[64];
  memset(bucket, 0, 64 * sizeof *bucket);
  scene->table.segment->header.free = 0;
  scene->table.segment->header.nfree = 0;
}

static const struct operation operations[] = {
    {"a new name", false, nothing, ask_name},
    {"a new long name, with a label", false, nothing, ask_long_name},
    {"a new name with a limit", false, nothing, ask_with_limit},
    {"queueing", false, held_by_another, ask_name},
    {"queueing behind many", false, queue_of_many, ask_name},
    {"queueing for a long name, with a label", false, queue_of_many, ask_long_name},
    {"queueing ahead of one priority", false, same_for_two, ask_highest},
    {"queueing behind one priority", false, same_for_two, ask_lowest},
    {"queueing ahead of priorities", false, queue_with_priorities, ask_highest},
    {"queueing among priorities", false, queue_with_priorities, ask_middle},
    {"queueing between priorities", false, queue_with_priorities, ask_between},
    {"queueing behind priorities", false, queue_with_priorities, ask_lowest},
    {"a weight beside others", false, limited_with_me, ask_with_limit},
    {"queueing to pass", false, queue_of_many, ask_to_pass},
    {"a release to some that pass", false, held_before_some_that_pass, drop_mine},
    {"a release to none but those that pass", false, held_before_only_those_that_pass, drop_mine},
    {"taking mail of what has passed", false, some_have_passed, take_mail},
    {"a theft behind what has passed", true, some_have_passed, steal_name},
    {"the end of an agent with what has passed", false, some_have_passed, terminate_mine},
    {"a death before those that pass", false, somebody_died_before_those_that_pass, rebuild},
    {"not available, of the living", false, queue_of_many, ask_if_available},
    {"available after a death", false, somebody_died, ask_if_available},
    {"a theft of nothing", true, nothing, steal_name},
    {"a theft of one, with a queue", true, queue_of_many, steal_name},
    {"a theft of three", true, shared_by_others, steal_name},
    {"a theft of what was not told", true, granted_untold, steal_name},
    {"a theft of what was not granted as it was asked for", true, i_have_levels, steal_name},
    {"a release of the last", false, long_held_by_me, drop_mine},
    {"a release with a hand-off", false, held_by_me, drop_mine},
    {"a release to three shared", false, held_before_three_shared, drop_mine},
    {"a release to three of other priorities", false, held_before_levels, drop_mine},
    {"a release of units", false, limited_with_me, drop_mine},
    {"an abort in between", false, i_wait_in_between, give_up_mine},
    {"an abort of the only one of the highest priority", false, i_am_alone_ahead, give_up_mine},
    {"an abort of the first of a priority", false, i_begin_a_level, give_up_mine},
    {"an abort of the only one of a priority", false, i_am_a_level, give_up_mine},
    {"taking mail", false, i_have_mail, take_mail},
    {"the end of an agent", false, i_have_much, terminate_mine},
    {"the end of an agent in several levels", false, i_have_levels, terminate_mine},
    {"a new agent", false, nothing, add_agent},
    {"leaving", false, i_have_much, leave},
    {"joining after a predecessor", false, a_dead_predecessor, join_again},
    {"growth", false, old_file, grow},
    {"a rebuild after a death", false, somebody_died, rebuild},
    {"a rebuild of torn tables", false, torn_tables, rebuild},
    {"a rebuild with priorities", false, i_have_levels, rebuild},
    {"a rebuild that leaves fewer cells", false, somebody_died_in_a_large_file, rebuild},
    {"leaving a large file", false, large_file, quit},
};

/* ---- what must be true then ---- */

/* What is in a free cell means nothing: here it is what would do most harm if it did. */
static void scribble(struct wlh_segment *segment)
{
  const struct wlh_arena arena = {.segment = segment, .ncells = segment->header.ncells};
  uint64_t seed = 5;
  for (uint32_t i = 1; i < arena.ncells; i++) {
    union wlh_cell *cell = wlh_cell_at(&arena, i);
    if (cell->kind != WLH_KIND_FREE) continue;
    uint32_t next = cell->free.next;
    uint32_t *words = (uint32_t *)(void *)cell;
    for (size_t j = 1; j < sizeof *cell / sizeof *words; j++) words[j] = draw(&seed, 64);
    cell->request.member = (uint16_t)(1 + draw(&seed, 3));
    cell->request.mode = (uint8_t)draw(&seed, 2);
    cell->request.agent = 1;
    cell->free.next = next;
  }
}

static void begin_scene(struct scene *scene, const struct operation *operation)
{
  memset(scene, 0, sizeof *scene);
  table_begin(&scene->table, 64, 512);
  operation->prepare(scene);
  scribble(scene->table.segment);
  for (int i = 0; i < PARTIES; i++) (void)rung_by(&scene->table, i);
  for (int i = 0; i < scene->count; i++)
    scene->kinds[i] = wlh_kind_of(&scene->table.parties[0].arena, scene->made[i].request);
}

static bool still_fits(uint32_t before, uint32_t after, bool passes, bool steals)
{
  uint32_t turn = passes ? WLH_KIND_NEWS_BROKEN : WLH_KIND_NEWS_HELD;
  if (before == WLH_KIND_PENDING) return after == before || after == turn;
  return after == before || (steals && after == WLH_KIND_NEWS_BROKEN);
}

/* What the living had they have still; what the dead had is nowhere. */
static const char *look_at_cells(const struct scene *scene, const struct operation *operation)
{
  const struct wlh_arena *arena = &scene->table.parties[3].arena;
  for (int i = 0; i < scene->count; i++) {
    const struct made *made = &scene->made[i];
    const struct wlh_request_cell *cell = wlh_request_at(arena, made->request);
    if (scene->table.dead[made->party]) continue;
    if (cell->cookie != made->cookie || cell->member != made->party) return "a request is gone";
    if (!still_fits(scene->kinds[i], cell->kind, cell->passes != 0, operation->steals))
      return "a request became what it was not to be";
    if (cell->kind == WLH_KIND_NEWS_BROKEN && !cell->passes && scene->kinds[i] != cell->kind &&
        (cell->thief.id != 100 || cell->thief.pid != 4000 || cell->thief.number != 1))
      return "a theft by nobody";
  }
  for (uint32_t i = 1; i < arena->ncells; i++) {
    uint32_t kind = wlh_kind_of(arena, i);
    uint32_t member = kind == WLH_KIND_AGENT ? wlh_agent_at(arena, i)->member
                      : wlh_is_request(kind) ? wlh_request_at(arena, i)->member
                                             : PARTIES - 1;
    if (member >= PARTIES || scene->table.dead[member]) return "the dead have a cell";
  }
  return NULL;
}

/* Members with mail that the survivor has not woken. */
static bool has_forgotten_bell(struct scene *scene)
{
  uint64_t to_notify = rung_by(&scene->table, 3);
  for (int i = 0; i < 3; i++)
    if (scene->table.segment->members[i].mailbox.head != 0 && !(to_notify >> i & 1)) return true;
  return false;
}

/* Everybody alive takes mail and releases what is held, until nothing is left. */
static const char *drain(struct scene *scene, uint64_t last_token)
{
  for (int round = 0; round < MADE_MOST; round++)
    for (int party = 0; party < PARTIES; party++) {
      if (scene->table.dead[party]) continue;
      struct mail mail = mail_of(&scene->table, party);
      for (uint32_t i = 0; i < mail.count; i++)
        if (mail.letters[i].token == 0) return "a lock without a token";
      for (int i = 0; i < scene->count; i++) {
        struct made *made = &scene->made[i];
        const struct wlh_arena *arena = inside(&scene->table, party);
        if (made->party != party || made->cookie == 0) continue;
        const struct wlh_request_cell *cell = wlh_request_at(arena, made->request);
        bool mine = cell->cookie == made->cookie && wlh_is_request(cell->kind);
        if (mine && cell->kind == WLH_KIND_PENDING) continue;
        if (mine && drop(&scene->table, made) != WLH_CELLS_OK) return "a lock is not released";
        made->cookie = 0;
        if (wrong(&scene->table, party)) return wrong(&scene->table, party);
      }
    }
  for (int i = 0; i < scene->count; i++)
    if (!scene->table.dead[scene->made[i].party] && scene->made[i].cookie != 0)
      return "a request waits for ever";
  struct made fresh = make(&scene->table, 3, "name", (struct wlh_ask){.option = WLH_IF_AVAILABLE});
  if (fresh.status != WLH_CELLS_GRANTED) return "a name cannot be had";
  if (fresh.token <= last_token) return "a token came again";
  (void)drop(&scene->table, &fresh);
  struct wlh_arena *arena = inside(&scene->table, 3);
  for (int i = 0; i < PARTIES; i++)
    for (int j = 0; !scene->table.dead[i] && j < AGENTS_EACH; j++)
      (void)wlh_cells_terminate_agent(inside(&scene->table, i), scene->table.parties[i].agents[j]);
  if (wlh_cells_free_count(arena) != arena->ncells - 1) return "a cell leaked";
  return wlh_cells_check(arena);
}

/* Runs the operation up to the n-th store. Returns whether it was cut there. */
static bool run_cut(struct scene *scene, const struct operation *operation, long n)
{
  journal_length = 0;
  steps_done = 0;
  if (setjmp(cut) != 0) return true;
  steps_left = n;
  operation->run(scene);
  steps_left = 0;
  return false;
}

static uint64_t greatest_token(const struct scene *scene)
{
  const struct wlh_arena *arena = &scene->table.parties[3].arena;
  uint64_t token = 0;
  for (uint32_t i = 1; i < arena->ncells; i++)
    if (wlh_is_held(wlh_kind_of(arena, i)) && wlh_request_at(arena, i)->token > token)
      token = wlh_request_at(arena, i)->token;
  return token;
}

/* As every process does once in a while: what it does not find, it takes for damage. */
static const char *look_for_own(struct scene *scene)
{
  for (int i = 0; i < scene->count; i++) {
    const struct made *made = &scene->made[i];
    const struct party *party = &scene->table.parties[made->party];
    if (scene->table.dead[made->party]) continue;
    (void)inside(&scene->table, made->party);
    if (!wlh_cells_has_member(&party->arena)) return "who lives does not find itself";
    if (!wlh_cells_has_agent(&party->arena, party->agents[0])) return "an agent is not found";
    if (!wlh_cells_has_request(&party->arena, made->request, made->cookie))
      return "a request is not found";
  }
  return NULL;
}

static const char *survive(struct scene *scene, const struct operation *operation)
{
  uint64_t token = greatest_token(scene);
  kill_party(&scene->table, 0);
  if (wlh_cells_rebuild(inside(&scene->table, 3)) != WLH_CELLS_OK) return "damage was seen";
  if (wrong(&scene->table, 3)) return wrong(&scene->table, 3);
  if (has_forgotten_bell(scene)) return "mail without a bell";
  const char *sentence = look_for_own(scene);
  if (!sentence) sentence = look_at_cells(scene, operation);
  return sentence ? sentence : drain(scene, token);
}

static long points, repairs;

static bool report(const struct operation *operation, long n, long m, const char *sentence)
{
  if (!sentence) return true;
  (void)fprintf(
      stderr, "%s, cut at %ld, repair cut at %ld: %s\n", operation->title, n, m, sentence);
  return check_that(false, sentence, __FILE__, __LINE__);
}

/* The operation, cut at n. Returns false at its end. */
static bool cut_at(const struct operation *operation, long n, bool undo, uint64_t seed)
{
  struct scene scene;
  begin_scene(&scene, operation);
  bool was_cut = run_cut(&scene, operation, n);
  if (was_cut && undo) undo_some(&seed);
  const char *sentence = was_cut ? survive(&scene, operation) : NULL;
  table_end(&scene.table);
  points += was_cut;
  return report(operation, n, 0, sentence) && was_cut;
}

/* The same, and the process that repairs dies at the m-th store of that. Returns false at its end. */
static bool cut_repair_at(const struct operation *operation, long n, long m, uint64_t seed)
{
  static const struct operation repair = {"", false, NULL, rebuild};
  struct scene scene;
  begin_scene(&scene, operation);
  bool was_cut = run_cut(&scene, operation, n);
  if (was_cut) undo_some(&seed);
  scene.table.dead[0] = true;
  scene.table.parties[0].arena = scene.table.parties[2].arena; /* the repairer is party 2 */
  bool was_cut_again = was_cut && run_cut(&scene, &repair, m);
  if (was_cut_again) undo_some(&seed);
  scene.table.dead[2] = true;
  const char *sentence = was_cut_again ? survive(&scene, operation) : NULL;
  table_end(&scene.table);
  repairs += was_cut_again;
  return report(operation, n, m, sentence) && was_cut_again;
}

static long stride = 61;

static void cut_everywhere(const struct operation *operation)
{
  for (long n = 1; cut_at(operation, n, false, 0); n++) {
    bool ends = false;
    for (uint64_t seed = 1; seed <= 8 && !ends; seed++)
      ends = !cut_at(operation, n, true, seed * 77 + (uint64_t)n);
    if (ends) return;
    for (long m = 1 + n % stride; cut_repair_at(operation, n, m, (uint64_t)(n * m)); m += stride)
      continue;
  }
}

TEST(every_store, "a death before any store of any operation, or of the repair, leaves all whole")
{
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    long before = points;
    cut_everywhere(&operations[i]);
    CHECK(points > before || operations[i].run == ask_if_available);
  }
  printf("# %ld deaths in operations, %ld more in repairs\n", points, repairs);
}

int main(int argc, char **argv)
{
  if (argc > 1) stride = atol(argv[1]);
  return run_tests();
}
