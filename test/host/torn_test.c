/* Death at every store. Each operation is cut before its n-th store to the segment, for all n. Some
 * of the stores since the last commit are then undone, since a processor or a compiler may reorder
 * them. A survivor takes over and must find everything intact. A reader outside the mutex looks at
 * every store, too. */
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
static long steps_left; /* 0: nothing is cut */
static jmp_buf cut;
static void (*watch)(void); /* NULL: nothing watches */

void wlh_step(volatile void *place, size_t size)
{
  if (watch) watch();
  if (steps_left == 0) return;
  if (--steps_left == 0) longjmp(cut, 1);
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

/* Undoes some of the stores since the last commit, the latest first. */
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

/* The victim is party 0, which the steps call A. */
struct scene {
  struct table table;
  struct made made[MADE_MOST]; /* by the numbers in the steps; one without a cookie is over */
  uint32_t kinds[MADE_MOST];   /* of their cells before the operation */
  bool marked;                 /* `a` and the long name were marked before the operation */
};

/* "A 15 shared limit 3 of l": agent A makes request 15 for the name `l`; without `of`, for `a`. */
static void ask_for(struct scene *scene, char **words, int count)
{
  static const uint16_t label[70] = {'l', 'a', 'b', 'e', 'l'};
  struct wlh_ask ask = {.label = label};
  char letter[] = "a";
  for (int i = 2; i < count; i++) {
    const char *word = words[i], *value = i + 1 < count ? words[i + 1] : "";
    if (strcmp(word, "shared") == 0) ask.mode = WLH_SHARED;
    if (strcmp(word, "ifAvailable") == 0) ask.option = WLH_IF_AVAILABLE;
    if (strcmp(word, "steal") == 0) ask.option = WLH_STEAL;
    if (strcmp(word, "pass") == 0) ask.option = WLH_PASS;
    if (strcmp(word, "labelled") == 0) ask.label_units = 70;
    if (strcmp(word, "of") == 0) letter[0] = value[0];
    if (strcmp(word, "priority") == 0) ask.priority = atoi(value);
    if (strcmp(word, "limit") == 0) ask.limit = (uint32_t)atoi(value), ask.weight = 1;
    if (strcmp(word, "weight") == 0) ask.weight = (uint32_t)atoi(value);
  }
  const char *name = letter[0] == 'l' ? long_name : letter;
  scene->made[atoi(words[1])] = make(&scene->table, words[0][0] - 'A', name, ask);
}

static void take_mail(struct scene *scene)
{
  (void)mail_of(&scene->table, 0);
}

static void terminate(struct scene *scene)
{
  (void)wlh_cells_terminate_agent(inside(&scene->table, 0), scene->table.parties[0].agents[0]);
}

static void add_agent(struct scene *scene)
{
  static const uint16_t name[64] = {'w', 'o', 'r', 'k', 'e', 'r'};
  uint32_t agent;
  (void)wlh_cells_add_agent(inside(&scene->table, 0), 9, 9, name, 64, &agent);
}

static void drop_member(struct scene *scene)
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

static void enlarge(struct scene *scene)
{
  (void)wlh_cells_grow(inside(&scene->table, 0), 512);
}

static void rebuild(struct scene *scene)
{
  (void)wlh_cells_rebuild(inside(&scene->table, 0));
}

static void kill_one(struct scene *scene)
{
  kill_party(&scene->table, 1);
}

static void let_marks_end(struct scene *scene)
{
  pass_time(&scene->table, 51);
  scene->marked = false;
}

/* Fills the memory behind the cells with leftovers of a longer, earlier segment. */
static void make_old(struct scene *scene)
{
  uint32_t *word = (uint32_t *)(void *)&scene->table.segment->cells[64] + 64;
  uint32_t *end = (uint32_t *)(void *)&scene->table.segment->cells[512];
  while (word < end) *word++ = WLH_KIND_KEPT + 1;
}

/* Leaves the tables like a half-done repair: the hash chains and the free list are empty. */
static void tear(struct scene *scene)
{
  uint32_t *bucket = (uint32_t *)(void *)&scene->table.segment->cells[64];
  memset(bucket, 0, 64 * sizeof *bucket);
  scene->table.segment->header.free = 0;
  scene->table.segment->header.nfree = 0;
}

static void take_step(char *step, void *data)
{
  struct scene *scene = data;
  static const struct {
    const char *words;
    void (*run)(struct scene *scene);
  } own[] = {
      {"take mail", take_mail},
      {"terminate A", terminate},
      {"add an agent", add_agent},
      {"drop A", drop_member},
      {"quit A", quit},
      {"join again", join_again},
      {"grow", grow},
      {"enlarge", enlarge},
      {"rebuild", rebuild},
      {"B dies", kill_one},
      {"make old", make_old},
      {"tear", tear},
      {"marks end", let_marks_end},
  };
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    if (strcmp(step, own[i].words) == 0) return own[i].run(scene);
  char *words[16];
  int count = 0;
  for (char *word = strtok(step, " "); word && count < 16; word = strtok(NULL, " "))
    words[count++] = word;
  struct made *made = &scene->made[atoi(words[1])];
  if (strcmp(words[0], "mark") == 0) {
    (void)drop_and_mark(&scene->table, made, 50);
    made->cookie = 0;
    scene->marked = true;
  } else if (strcmp(words[0], "release") == 0) {
    (void)drop(&scene->table, made);
    made->cookie = 0;
  } else if (strcmp(words[0], "publish") == 0) {
    (void)publish(&scene->table, made, words[3][0], (uint32_t)atoi(words[2]));
  } else if (strcmp(words[0], "abort") == 0) {
    (void)give_up(&scene->table, made);
  } else {
    ask_for(scene, words, count);
  }
}

/* Steps are written as in test/fixtures/cases.json, with a few more words. */
struct operation {
  const char *title;
  const char *before;
  const char *steps; /* A's steps, one of which is cut */
};

#define MANY      "B 1; C 2; B 3; D 4 of l"
#define SAME      "B 1; B 2; C 3"
#define LEVELS    "B 1; B 2; C 3 priority 5; D 4 priority -1; B 5; C 6 priority 5; D 7 priority -1"
#define TWO       "shared limit 3 weight 2 labelled"
#define ONE       "shared limit 3 labelled"
#define SOME_PASS "A 1; B 2 pass; A 3 pass; C 4; D 5 pass"
/* Shared requests, the later ones of which are granted first; then another one waits. */
#define BEFORE_LEVELS                                                                              \
  "A 1; B 2 shared priority 1; C 3 shared priority 2; D 4 shared priority 3; B 5 priority -1"
#define IN_LEVELS BEFORE_LEVELS "; release 1; C 6 priority 4; A 7 priority 1; A 8 priority 4"
#define MAIL      "B 1 of o; A 2 of o; A 3 labelled; C 4 of o; release 1; D 5 steal"
#define MUCH                                                                                       \
  MAIL "; A 6; B 7 shared; C 8 shared; D 9 shared; B 10; A 11 of i " TWO "; B 12 of i " ONE        \
       "; C 13 of i " TWO "; D 14 of i " ONE
#define MARKED       "B 1; mark 1; B 2 of l; mark 2"
#define DEATH        MANY "; A 5 of m; B dies"
#define IF_AVAILABLE "A 15 ifAvailable"

static const struct operation operations[] = {
    {"a new name", "", "A 15"},
    {"a new long name, with a label", "", "A 15 of l labelled"},
    {"a new name with a limit", "", "A 15 " TWO},
    {"queueing", "B 1", "A 15"},
    {"queueing behind many", MANY, "A 15"},
    {"queueing for a long name, with a label", MANY, "A 15 of l labelled"},
    {"queueing ahead of one priority", SAME, "A 15 priority 9"},
    {"queueing behind one priority", SAME, "A 15 priority -9"},
    {"queueing ahead of priorities", LEVELS, "A 15 priority 9"},
    {"queueing among priorities", LEVELS, "A 15 priority 5"},
    {"queueing between priorities", LEVELS, "A 15 priority 3"},
    {"queueing behind priorities", LEVELS, "A 15 priority -9"},
    {"a weight beside others", "A 1 " TWO "; B 2 " ONE "; C 3 " TWO "; D 4 " ONE, "A 15 " TWO},
    {"queueing to pass", MANY, "A 15 pass"},
    {"a release to some that pass", SOME_PASS, "release 1"},
    {"a release to none but those that pass", "A 1; B 2 pass; D 3 pass", "release 1"},
    {"taking mail of what has passed", SOME_PASS "; release 1", "take mail"},
    {"a theft behind what has passed", SOME_PASS "; release 1", "A 15 steal"},
    {"the end of an agent with what has passed", SOME_PASS "; release 1", "terminate A"},
    {"a death before those that pass", "B 1; C 2 pass; D 3 pass; B dies", "rebuild"},
    {"not available, of the living", MANY, IF_AVAILABLE},
    {"available after a death", DEATH, IF_AVAILABLE},
    {"a theft of nothing", "", "A 15 steal"},
    {"a theft of one, with a queue", MANY, "A 15 steal"},
    {"a theft of three", "B 1 shared; C 2 shared; D 3 shared; C 4", "A 15 steal"},
    {"a theft of a lock whose grant was not announced", "A 1; B 2; C 3; release 1", "A 15 steal"},
    {"a theft of locks that were granted in another order than requested", IN_LEVELS, "A 15 steal"},
    {"a release of the last", "A 1 of l labelled", "release 1"},
    {"a release with a hand-off", "A 1; B 2; C 3", "release 1"},
    {"a release to three shared", "A 1; B 2 shared; C 3 shared; D 4 shared; B 5", "release 1"},
    {"a release to three of other priorities", BEFORE_LEVELS, "release 1"},
    {"a release of units", "A 1 " TWO "; B 2 " ONE "; C 3 " TWO "; D 4 " ONE, "release 1"},
    {"an abort in between", "B 1 shared; A 2 labelled; C 3 shared; D 4 shared", "abort 2"},
    {"an abort of the only one of the highest priority", SAME "; A 4 priority 7", "abort 4"},
    {"an abort of the first of a priority",
     "B 1; B 2 priority 7; A 3 priority 3; C 4 priority 3; D 5 priority -2", "abort 3"},
    {"an abort of the only one of a priority",
     "B 1; B 2 priority 7; A 3 priority 3; D 4 priority -2", "abort 3"},
    {"a release that marks, with a hand-off", "A 1; B 2; C 3", "mark 1"},
    {"a release of the last that marks", "A 1 of l labelled", "mark 1"},
    {"publishing", "A 1 labelled; B 2", "publish 1 150 x"},
    {"publishing something else", "A 1; B 2; publish 1 150 x", "publish 1 70 y"},
    {"publishing no more", "A 1; B 2; publish 1 150 x", "publish 1 0 y"},
    {"a theft of what publishes", "B 1; publish 1 150 x; C 2", "A 15 steal"},
    {"a release of what publishes", "A 1 labelled; B 2; publish 1 150 x", "release 1"},
    {"a rebuild of what publishes", "C 1; publish 1 150 x; B 2 of m; publish 2 9 y; B dies",
     "rebuild"},
    {"a request for a marked name", MARKED, "A 15 " TWO},
    {"a release of a marked name", MARKED "; A 3 " TWO, "release 3"},
    {"a release of a name whose mark is over", MARKED "; A 3 " TWO "; marks end", "release 3"},
    {"growth of what has marks", MARKED, "grow"},
    {"a rebuild with marks", MARKED "; C 3 of m; B 4 " TWO "; B dies", "rebuild"},
    {"taking mail", MAIL, "take mail"},
    {"the end of an agent", MUCH, "terminate A"},
    {"the end of an agent in several levels", IN_LEVELS, "terminate A"},
    {"a new agent", "", "add an agent"},
    {"leaving", MUCH, "drop A"},
    {"joining after a predecessor", "A 1; B 2; C 3", "join again"},
    {"growth", MUCH "; make old", "grow"},
    {"a rebuild after a death", DEATH, "rebuild"},
    {"a rebuild of torn tables", MUCH "; tear", "rebuild"},
    {"a rebuild with priorities", IN_LEVELS, "rebuild"},
    {"a rebuild that leaves fewer cells", "enlarge; " DEATH, "rebuild"},
    {"leaving a large file", "enlarge; " MUCH, "quit A"},
};

/* ---- what must hold afterwards ---- */

/* Fills free cells with what would do most harm if the library read it: their content
 * is undefined. */
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
  for_each_step(operation->before, take_step, scene);
  scribble(scene->table.segment);
  for (int i = 0; i < PARTIES; i++) (void)rung_by(&scene->table, i);
  for (int i = 0; i < MADE_MOST; i++)
    scene->kinds[i] = wlh_kind_of(&scene->table.parties[0].arena, scene->made[i].request);
}

static bool still_fits(uint32_t before, uint32_t after, bool passes, bool steals)
{
  uint32_t turn = passes ? WLH_KIND_NEWS_BROKEN : WLH_KIND_NEWS_HELD;
  if (before == WLH_KIND_PENDING) return after == before || after == turn;
  return after == before || (steals && after == WLH_KIND_NEWS_BROKEN);
}

static bool is_over(const struct scene *scene, const struct made *made)
{
  return made->cookie == 0 || scene->table.dead[made->party];
}

/* The locks of the living must be unchanged, and those of the dead must be gone. */
static const char *look_at_cells(const struct scene *scene, const struct operation *operation)
{
  const struct wlh_arena *arena = &scene->table.parties[3].arena;
  for (int i = 0; i < MADE_MOST; i++) {
    const struct made *made = &scene->made[i];
    const struct wlh_request_cell *cell = wlh_request_at(arena, made->request);
    if (is_over(scene, made)) continue;
    if (cell->cookie != made->cookie || cell->member != made->party) return "a request is gone";
    if (!still_fits(
            scene->kinds[i], cell->kind, cell->passes != 0,
            strstr(operation->steps, "steal") != NULL))
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

/* Whether a member has mail but the survivor has not woken it. */
static bool has_forgotten_bell(struct scene *scene)
{
  uint64_t to_notify = rung_by(&scene->table, 3);
  for (int i = 0; i < 3; i++)
    if (scene->table.segment->members[i].mailbox.head != 0 && !(to_notify >> i & 1)) return true;
  return false;
}

/* After a rebuild, thefts are reported before grants, and grants in order of their tokens. */
static bool is_in_order(const struct mail *mail)
{
  uint64_t last = 0;
  for (uint32_t i = 0; i < mail->count; i++) {
    const struct wlh_message *letter = &mail->letters[i];
    bool is_grant = letter->news == WLH_REPORTED_GRANTED;
    if (letter->token <= (is_grant ? last : 0) || (!is_grant && last > 0)) return false;
    if (is_grant) last = letter->token;
  }
  return true;
}

/* All live parties take their mail and release what they hold, until nothing is left. */
static const char *drain(struct scene *scene, uint64_t last_token)
{
  for (int round = 0; round < MADE_MOST; round++)
    for (int party = 0; party < PARTIES; party++) {
      if (scene->table.dead[party]) continue;
      struct mail mail = mail_of(&scene->table, party);
      if (!is_in_order(&mail)) return "mail out of order";
      for (int i = 0; i < MADE_MOST; i++) {
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
  for (int i = 0; i < MADE_MOST; i++)
    if (!is_over(scene, &scene->made[i])) return "a request waits for ever";
  if (scene->marked && !has_mark(&scene->table, 3, "a")) return "a mark is gone";
  if (scene->marked && !has_mark(&scene->table, 3, long_name)) return "a long name's mark is gone";
  pass_time(&scene->table, 100);
  if (wlh_cells_rebuild(inside(&scene->table, 3)) != WLH_CELLS_OK) return "marks did damage";
  struct made fresh = make(&scene->table, 3, "a", (struct wlh_ask){.option = WLH_IF_AVAILABLE});
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
  if (setjmp(cut) != 0) return true;
  steps_left = n;
  for_each_step(operation->steps, take_step, scene);
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

/* Every process checks its own cells from time to time, and reports missing ones as damage. */
static const char *look_for_own(struct scene *scene)
{
  for (int i = 0; i < MADE_MOST; i++) {
    const struct made *made = &scene->made[i];
    const struct party *party = &scene->table.parties[made->party];
    if (is_over(scene, made)) continue;
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

/* Runs the operation cut at the n-th store. Returns false at its end. */
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

/* Cuts the repair at its m-th store, too. Returns false at its end. */
static bool cut_repair_at(const struct operation *operation, long n, long m, uint64_t seed)
{
  static const struct operation repair = {"", "", "rebuild"};
  struct scene scene;
  begin_scene(&scene, operation);
  bool was_cut = run_cut(&scene, operation, n);
  if (was_cut) undo_some(&seed);
  scene.table.dead[0] = true;
  scene.table.parties[0].arena = scene.table.parties[2].arena; /* party 2 repairs */
  bool was_cut_again = was_cut && run_cut(&scene, &repair, m);
  if (was_cut_again) undo_some(&seed);
  scene.table.dead[2] = true;
  const char *sentence = was_cut_again ? survive(&scene, operation) : NULL;
  table_end(&scene.table);
  repairs += was_cut_again;
  return report(operation, n, m, sentence) && was_cut_again;
}

static long stride = 499;

/* ---- readers outside the mutex ---- */

/* The holders of a name, as a reader sees them. */
struct sight {
  uint32_t count;
  struct wlh_entry entries[4];
  uint16_t units[600];
};

static const char *const watched[] = {"a", long_name};
static struct scene *scene_watched;
static struct sight before[2], after[2];
static bool rebuilds;
static const char *seen_wrong;

static bool look(struct scene *scene, const char *name, struct sight *sight)
{
  static struct wlh_client clients[4];
  uint16_t units[200];
  uint32_t length = 0;
  for (; name[length]; length++) units[length] = (unsigned char)name[length];
  struct wlh_view view = {sight->entries, clients, sight->units, 4, 4, 600, 0, 0, 0};
  const struct table *table = &scene->table;
  enum wlh_cells_status status =
      wlh_cells_find_holders(table->segment, table->bytes, units, length, &view);
  sight->count = status == WLH_CELLS_OK ? view.entry_count : 0;
  return status == WLH_CELLS_OK;
}

/* Returns the lock with this token, or NULL. */
static const struct wlh_entry *find(const struct sight *sight, uint64_t token)
{
  for (uint32_t i = 0; i < sight->count; i++)
    if (sight->entries[i].token == token) return &sight->entries[i];
  return NULL;
}

/* Whether the reader sees the complete text that the lock published in `sight`. */
static bool has_text_of(
    const struct sight *now, const struct wlh_entry *entry, const struct sight *sight)
{
  const struct wlh_entry *other = find(sight, entry->token);
  return other && other->data_units == entry->data_units &&
         memcmp(
             now->units + entry->data, sight->units + other->data,
             entry->data_units * sizeof *now->units) == 0;
}

static void watch_names(void)
{
  for (int i = 0; i < 2; i++) {
    struct sight now;
    bool is_known = look(scene_watched, watched[i], &now); /* a rebuild may hide it */
    for (uint32_t j = 0; j < before[i].count && (is_known || !rebuilds); j++)
      if (find(&after[i], before[i].entries[j].token) && !find(&now, before[i].entries[j].token))
        seen_wrong = "a reader does not see a holder";
    for (uint32_t j = 0; j < now.count; j++)
      if (!has_text_of(&now, &now.entries[j], &before[i]) &&
          !has_text_of(&now, &now.entries[j], &after[i]))
        seen_wrong = "a reader sees a lock or a text that never was";
  }
}

/* Runs an operation twice: the first run finds out what a reader may see in the second. */
static void watch_all(const struct operation *operation)
{
  seen_wrong = NULL;
  for (int round = 0; round < 2; round++) {
    struct scene scene;
    begin_scene(&scene, operation);
    struct wlh_header *header = &scene.table.segment->header;
    uint64_t rebuilds_before = header->rebuilds;
    scene_watched = &scene;
    for (int i = 0; i < 2; i++) (void)look(&scene, watched[i], &before[i]);
    atomic_store(&header->word, 1); /* a process is inside */
    if (round == 1) watch = watch_names;
    for_each_step(operation->steps, take_step, &scene);
    watch = NULL;
    atomic_store(&header->word, 0);
    rebuilds = header->rebuilds > rebuilds_before;
    for (int i = 0; i < 2; i++) CHECK(look(&scene, watched[i], &after[i]));
    table_end(&scene.table);
  }
  if (!CHECK(!seen_wrong)) printf("# %s: %s\n", operation->title, seen_wrong);
}

TEST(watched_by_others, "at every store of any operation, a reader outside sees who holds a name")
{
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) watch_all(&operations[i]);
}

/* ---- deaths ---- */

static void cut_everywhere(const struct operation *operation)
{
  for (long n = 1; cut_at(operation, n, false, 0); n++) {
    bool ends = false;
    for (uint64_t seed = 1; seed <= 4 && !ends; seed++)
      ends = !cut_at(operation, n, true, seed * 77 + (uint64_t)n);
    if (ends) return;
    for (long m = 1 + n % stride; cut_repair_at(operation, n, m, (uint64_t)(n * m)); m += stride)
      continue;
  }
}

TEST(every_store, "a death before any store of any operation, or of the repair, leaves all whole")
{
  for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
    long so_far = points;
    cut_everywhere(&operations[i]);
    CHECK(points > so_far || strcmp(operations[i].steps, IF_AVAILABLE) == 0);
  }
  printf("# %ld deaths in operations, %ld more in repairs\n", points, repairs);
}

int main(int argc, char **argv)
{
  if (argc > 1) stride = atol(argv[1]);
  return run_tests();
}
