/* Tests what the cells of a segment do beyond the core's locks: members, damage, marks that outlive
 * processes, shrinking, and readers outside. fuzz_compare.c compares the rest with the core. */
#include "table.h"

#include "../../src/host/segment/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static struct table t;

static long looks; /* how often the library read a cell or a number */
static long fuse;  /* looks until `meanwhile` is called; 0: it is not called */
static void (*meanwhile)(void);

void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
  looks++;
  if (fuse > 0 && --fuse == 0) meanwhile();
}

static void start(void)
{
  table_begin(&t, WLH_CELLS_LEAST, 256);
}

/* Ends each test: the tables are intact, and nothing is left once all members have left. */
static void stop(void)
{
  for (int i = 0; i < PARTIES; i++) {
    if (t.dead[i]) continue;
    CHECK(wrong(&t, i) == NULL);
    CHECK(wlh_cells_drop_member(inside(&t, i)) == WLH_CELLS_OK);
  }
  struct wlh_arena *arena = &t.parties[3].arena;
  (void)wlh_cells_reap(arena);
  CHECK(!arena->poisoned);
  CHECK(wlh_cells_free_count(arena) == arena->ncells - 1);
  table_end(&t);
}

static struct made if_available(int party, const char *name)
{
  return make(&t, party, name, (struct wlh_ask){.option = WLH_IF_AVAILABLE});
}

/* ---- members ---- */

TEST(full, "a full segment has room for a theft, and for what the dead leave")
{
  start();
  struct made held = want(&t, 0, "n"), other = want_shared(&t, 2, "m"), last;
  while ((last = want_shared(&t, 2, "m")).status == WLH_CELLS_GRANTED) continue;
  CHECK(last.status == WLH_CELLS_FULL);
  CHECK(publish(&t, &other, 'd', 1) == WLH_CELLS_FULL);
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &held, WLH_REPORTED_STOLEN));
  kill_party(&t, 2);
  CHECK(want(&t, 1, "other").status == WLH_CELLS_GRANTED);
  stop();
}

/* ---- damage ---- */

enum { HEADS = WLH_CELLS_LEAST, ALL_CELLS, ALL_BEHIND, PARTS };

/* Zeros a cell, the heads of all hash chains, all cells, or everything but the header. */
static void zero_part(uint32_t part)
{
  union wlh_cell *cells = t.segment->cells;
  size_t all = wlh_segment_bytes(WLH_CELLS_LEAST) - WLH_BYTES_BEFORE_CELLS;
  if (part < HEADS) memset(&cells[part], 0, sizeof *cells);
  if (part == HEADS) memset(&cells[HEADS], 0, all - HEADS * sizeof *cells);
  if (part >= ALL_CELLS) memset(cells, 0, all);
  if (part == ALL_BEHIND) memset(t.segment->members, 0, sizeof t.segment->members);
}

/* It needs two cells of text. */
static const char long_name[] =
    "a name that fits neither into the cell of a resource nor into one of text behind it, so that "
    "it is in three";

/* A lock of party 0, with a cell of every kind. */
static struct made hold_long_name(void)
{
  static const uint16_t label[70] = {'l', 'a'};
  struct made made = make(&t, 0, long_name, (struct wlh_ask){.label = label, .label_units = 70});
  CHECK(made.status == WLH_CELLS_GRANTED);
  CHECK(if_available(1, long_name).status == WLH_CELLS_NOT_AVAILABLE);
  return made;
}

TEST(zeroed, "no request is granted a held lock whose cells became zeros")
{
  for (uint32_t part = 0; part < PARTS; part++)
    for (int repaired = 0; repaired < 2; repaired++) {
      start();
      (void)hold_long_name();
      zero_part(part);
      /* A rebuild restores the heads from the cells. */
      if (repaired) CHECK((wlh_cells_rebuild(inside(&t, 2)) == WLH_CELLS_OK) == (part == HEADS));
      struct wlh_ask ask = {.option = WLH_IF_AVAILABLE};
      if (wlh_cells_add_agent(inside(&t, 1), 9, 9, NULL, 0, &ask.agent) == WLH_CELLS_OK)
        CHECK(make(&t, 1, long_name, ask).status != WLH_CELLS_GRANTED);
      CHECK(want_shared(&t, 2, long_name).status != WLH_CELLS_GRANTED);
      table_end(&t);
    }
}

TEST(own, "a process notices that others cannot find its lock any more")
{
  enum { NO_HEAD, HASH, HELD, NEXT, PREV, WAYS };
  const struct wlh_ask ask = {.mode = WLH_SHARED};
  for (int way = 0; way < WAYS; way++) {
    start();
    struct made first = make(&t, 1, "n", ask), lock = make(&t, 0, "n", ask);
    struct made last = make(&t, 2, "n", ask);
    const struct wlh_arena *arena = &t.parties[0].arena;
    CHECK(wlh_cells_has_request(arena, lock.request, lock.cookie));
    union wlh_cell *cells = t.segment->cells;
    struct wlh_resource_cell *name = &cells[cells[lock.request].request.resource].resource;
    if (way == NO_HEAD) memset(&cells[HEADS], 0, HEADS * sizeof(uint32_t));
    if (way == HASH) name->hash++;
    if (way == HELD) CHECK(drop(&t, &first) == WLH_CELLS_OK && drop(&t, &last) == WLH_CELLS_OK);
    if (way == HELD) name->held = (struct wlh_list){0};
    if (way == NEXT) cells[first.request].request.links[WLH_BY_RESOURCE].next = last.request;
    if (way == PREV) cells[last.request].request.links[WLH_BY_RESOURCE].prev = 0;
    if (!CHECK(!wlh_cells_has_request(arena, lock.request, lock.cookie))) printf("# way %d\n", way);
    table_end(&t);
  }
}

/* ---- marks ---- */

static void mark(int party, const char *name, uint64_t keep)
{
  struct made made = want(&t, party, name);
  CHECK(made.status == WLH_CELLS_GRANTED && !made.marked);
  CHECK(drop_and_mark(&t, &made, keep) == WLH_CELLS_OK);
}

/* Closes the segment in all processes. */
static void all_leave(void)
{
  for (int i = 0; i < PARTIES; i++) {
    CHECK(wlh_cells_drop_member(inside(&t, i)) == WLH_CELLS_OK);
    t.dead[i] = true;
  }
}

TEST(marks_torn, "after a boot, a mark counts only if the disk has all of it")
{
  for (uint32_t what = 0; what < 6; what++) {
    start();
    char name[201] = "";
    memset(name, 'n', 200);
    mark(0, name, UINT64_MAX);
    mark(0, "whole", UINT64_MAX);
    all_leave();
    union wlh_cell *cells = t.segment->cells;
    uint32_t i = 1;
    while (cells[i].kind != WLH_KIND_RESOURCE || cells[i].resource.units != 200) i++;
    struct wlh_resource_cell *cell = &cells[i].resource;
    struct wlh_text_cell *text = &cells[cell->text].text;
    if (what == 0) cell->marked = 5000;
    if (what == 1) text->text[3] = 'm';
    if (what == 2) text->kind = WLH_KIND_FREE;
    if (what == 3) text->next = cell->text;
    if (what == 4) cell->units = WLH_NAME_MOST + 1;
    if (what == 5) cell->kind = WLH_KIND_PENDING;
    cells[63].kind = 77;
    CHECK(wlh_cells_reuse(t.segment, t.bytes, 8, false));
    uint32_t kept = 0;
    for (i = 0; i < 64; i++) kept += cells[i].kind != WLH_KIND_FREE;
    CHECK(kept == 1);
    table_end(&t);
  }
}

/* ---- room ---- */

enum {
  BURST = 20000,
  AT_MOST = 8 * WLH_CELLS_AT_FIRST /* looks; a segment of 32,768 cells would take 100,000 */
};

/* Makes requests that wait for another party's lock, and aborts them unless the party dies. */
static void burst(int party, bool dies)
{
  static struct made all[BURST];
  struct made held = want(&t, 0, "n");
  for (int i = 0; i < BURST; i++) {
    struct made made = want(&t, party, "n");
    if (made.status == WLH_CELLS_FULL) {
      struct wlh_arena *arena = inside(&t, party);
      CHECK(wlh_cells_grow(arena, arena->ncells * 2) == WLH_CELLS_OK);
      made = want(&t, party, "n");
    }
    CHECK(made.status == WLH_CELLS_PENDING);
    all[i] = made;
  }
  CHECK(t.segment->header.ncells == 32768);
  for (int i = 0; i < BURST && !dies; i++) CHECK(give_up(&t, &all[i]) == WLH_CELLS_OK);
  CHECK(drop(&t, &held) == WLH_CELLS_OK);
}

static void quit(int party)
{
  struct wlh_arena *arena = inside(&t, party);
  for (int i = 0; i < AGENTS_EACH; i++)
    CHECK(wlh_cells_terminate_agent(arena, t.parties[party].agents[i]) == WLH_CELLS_OK);
  CHECK(wlh_cells_leave(arena) == WLH_CELLS_OK);
}

static void come_and_go(int party)
{
  struct wlh_arena *arena = inside(&t, party);
  CHECK(wlh_cells_join(arena, 200, 1, "1") == WLH_CELLS_OK);
  for (uint32_t i = 0; i < AGENTS_EACH; i++)
    CHECK(wlh_cells_add_agent(arena, 0, i, NULL, 0, &t.parties[party].agents[i]) == WLH_CELLS_OK);
  struct made made = want(&t, party, "m");
  CHECK(drop(&t, &made) == WLH_CELLS_OK);
  quit(party);
}

static void start_large(void)
{
  table_begin(&t, WLH_CELLS_AT_FIRST, 32768);
}

/* A join, a leave and a death each look at few cells. */
static void stay_few(int dies)
{
  CHECK(t.segment->header.ncells == WLH_CELLS_AT_FIRST);
  looks = 0;
  come_and_go(2);
  CHECK(looks < AT_MOST);
  struct made held = want(&t, dies, "n"), next = want(&t, 0, "n");
  kill_party(&t, dies);
  looks = 0;
  CHECK(wlh_cells_reap(inside(&t, 0)));
  CHECK(looks < AT_MOST && held.token < t.segment->header.token);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &next, WLH_REPORTED_GRANTED) && wrong(&t, 0) == NULL);
  table_end(&t);
}

TEST(after_burst, "once a burst is over, few cells stay; while it goes on, few are looked at")
{
  for (int dies = 0; dies < 2; dies++) {
    start_large();
    burst(1, true);
    CHECK(!wlh_cells_would_shrink(inside(&t, 0)));
    looks = 0;
    quit(2);
    come_and_go(2);
    CHECK(looks < AT_MOST && t.segment->header.ncells == 32768);
    if (dies) {
      kill_party(&t, 1);
      CHECK(wlh_cells_reap(inside(&t, 0)));
    } else {
      quit(1);
      CHECK(wlh_cells_begin_give_back(&t.parties[1].arena));
    }
    stay_few(3);
  }
}

TEST(high, "a lock in a high cell keeps the cells until it is released")
{
  start_large();
  burst(1, false);
  struct made high = want(&t, 2, "high");
  while (high.request < 16384) high = want_shared(&t, 2, "high ones");
  CHECK(wlh_cells_rebuild(inside(&t, 0)) == WLH_CELLS_OK);
  CHECK(t.segment->header.ncells == 32768);
  CHECK(drop(&t, &high) == WLH_CELLS_OK);
  CHECK(wlh_cells_rebuild(inside(&t, 0)) == WLH_CELLS_OK);
  CHECK(t.segment->header.ncells < 32768 && wrong(&t, 0) == NULL);
  table_end(&t);
}

/* Counts the looks of a request of `priority` and its abort, while `waiting` requests wait with
 * each of three priorities. */
static long looks_of(int32_t priority, int waiting)
{
  struct wlh_ask ask = {.priority = priority};
  start_large();
  (void)want(&t, 0, "n");
  for (int i = 0; i < waiting; i++)
    for (int32_t other = -4; other <= 4; other += 4)
      (void)make(&t, 1 + i % 3, "n", (struct wlh_ask){.priority = other});
  looks = 0;
  struct made made = make(&t, 1, "n", ask);
  CHECK(made.status == WLH_CELLS_PENDING && give_up(&t, &made) == WLH_CELLS_OK);
  long counted = looks;
  table_end(&t);
  return counted;
}

TEST(levels, "a request and its abort look at as many requests however many have the same priority")
{
  for (int32_t priority = -6; priority <= 6; priority += 2)
    CHECK(looks_of(priority, 3) == looks_of(priority, 60));
}

/* ---- readers outside the mutex ---- */

static uint16_t units[600];
static struct made mine;

/* Reads the lock of "n" without the mutex. */
static struct wlh_entry look_at_n(void)
{
  static struct wlh_entry entry;
  static struct wlh_client clients[4];
  struct wlh_view view = {&entry, clients, units, 1, 4, 600, 0, 0, 0};
  CHECK(wlh_cells_find_holders(t.segment, t.bytes, u"n", 1, &view) == WLH_CELLS_OK);
  CHECK(view.entry_count == 1 && entry.token == mine.token);
  return entry;
}

/* Publishes two texts: the second reuses the cells of the one before the first. */
static void publish_twice(void)
{
  CHECK(publish(&t, &mine, 'b', 130) == WLH_CELLS_OK);
  CHECK(publish(&t, &mine, 'c', 130) == WLH_CELLS_OK);
}

TEST(published_meanwhile, "a reader never sees parts of two texts, whenever the holder publishes")
{
  bool more = true;
  meanwhile = publish_twice;
  for (long n = 1; more; n++) {
    start();
    mine = want(&t, 0, "n");
    CHECK(publish(&t, &mine, 'a', 130) == WLH_CELLS_OK);
    fuse = n;
    struct wlh_entry entry = look_at_n();
    CHECK(entry.data_units == 130);
    more = fuse == 0;
    fuse = 0;
    const uint16_t *text = units + entry.data;
    CHECK(memcmp(text, text + 1, 129 * sizeof *text) == 0);
    stop();
  }
}

/* The room behind the fewest cells, in whole pages: once given back, it must not be accessed. */
static char *slack_from, *slack_to;
static bool given_back;

static void leave(int party)
{
  struct wlh_arena *arena = &t.parties[party].arena;
  if (!wlh_cells_begin_give_back(arena)) return;
  CHECK(mprotect(slack_from, (size_t)(slack_to - slack_from), PROT_NONE) == 0);
  wlh_cells_end_give_back(arena);
  given_back = true;
}

static void give_up_cells(void)
{
  CHECK(wlh_cells_rebuild(inside(&t, 1)) == WLH_CELLS_OK);
  CHECK(t.segment->header.ncells == WLH_CELLS_AT_FIRST);
  leave(1);
}

static void look_for_holders(void)
{
  (void)look_at_n();
}

static void look_for_own(void)
{
  struct wlh_arena *arena = &t.parties[0].arena;
  if (wlh_cells_has_member(arena) && wlh_cells_has_agent(arena, t.parties[0].agents[0]))
    (void)wlh_cells_has_request(arena, mine.request, mine.cookie);
}

static void look_for_room(void)
{
  struct wlh_arena *arena = &t.parties[0].arena;
  if (wlh_cells_has_member(arena)) (void)wlh_cells_would_shrink(arena);
}

/* Another member gives up cells at the `moment`-th step of a look, or before it if that is 0.
 * Returns whether the look had so many steps. */
static bool give_up_during(void (*look)(void), long moment)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  table_begin(&t, 16 * WLH_CELLS_AT_FIRST, 16 * WLH_CELLS_AT_FIRST);
  uintptr_t from = (uintptr_t)t.segment + wlh_segment_bytes(WLH_CELLS_AT_FIRST);
  slack_from = (char *)((from + page - 1) / page * page);
  slack_to = (char *)(((uintptr_t)t.segment + t.bytes) / page * page);
  mine = want(&t, 0, "n");
  given_back = false;
  if (moment == 0) give_up_cells();
  wlh_cells_begin_look(t.segment, 0);
  meanwhile = give_up_cells;
  fuse = moment;
  look();
  bool done = fuse == 0;
  fuse = 0;
  CHECK(given_back == (moment == 0));
  CHECK(wlh_cells_end_look(t.segment, 0) == (moment > 0 && done));
  if (done) leave(0), CHECK(given_back);
  CHECK(mprotect(slack_from, (size_t)(slack_to - slack_from), PROT_READ | PROT_WRITE) == 0);
  table_end(&t);
  return done;
}

TEST(outside, "a reader outside finds the cells that others give up meanwhile")
{
  static void (*const all[])(void) = {look_for_holders, look_for_own, look_for_room};
  for (int i = 0; i < 3; i++) {
    long moment = 0;
    while (give_up_during(all[i], moment)) moment++;
    CHECK(moment >= 4);
  }
}

TEST(looker_dies, "a process that dies while it reads from outside does not keep the room")
{
  table_begin(&t, 16 * WLH_CELLS_AT_FIRST, 16 * WLH_CELLS_AT_FIRST);
  wlh_cells_begin_look(t.segment, 3);
  CHECK(wlh_cells_rebuild(inside(&t, 1)) == WLH_CELLS_OK);
  CHECK(!wlh_cells_begin_give_back(&t.parties[1].arena));
  uint64_t shrinks = inside(&t, 2)->shrinks;
  kill_party(&t, 3);
  CHECK(wlh_cells_reap(inside(&t, 1)) && wlh_cells_begin_give_back(&t.parties[1].arena));
  CHECK(inside(&t, 2)->shrinks > shrinks);
  CHECK(wlh_cells_join(inside(&t, 3), 200, 1, "1") == WLH_CELLS_OK);
  CHECK(wlh_cells_begin_give_back(&t.parties[1].arena));
  table_end(&t);
}

int main(void)
{
  return run_tests();
}
