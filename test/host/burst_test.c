/* What a burst leaves behind: a leave, a death and a newcomer look at as many cells as are in use, and
 * not at the most that there ever were. Whoever reads cells from outside finds them there. */
#include "table.h"

#include <sys/mman.h>
#include <unistd.h>

static struct table t;
static long looks;

static long fuse = -1; /* looks until another member gives up cells; -1: none does */
static void give_up_cells(void);

/* The library looks at a cell, or has read a number. */
void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
  looks++;
  if (fuse >= 0 && fuse-- == 0) give_up_cells();
}

enum {
  BURST = 20000,
  AT_MOST = 8 * WLH_CELLS_AT_FIRST /* looks, where a segment of 32,768 cells would take 100,000 */
};

/* Requests of a party that wait for another one's lock; then, unless it dies, all are over. */
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

static void start(void)
{
  table_begin(&t, WLH_CELLS_AT_FIRST, 32768);
}

/* A newcomer, a leave and a death: each looks at few cells. */
static void stop(int dies)
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
    start();
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
    stop(3);
  }
}

TEST(high, "a lock in a high cell keeps the cells until it is released")
{
  start();
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

/* ---- readers outside ---- */

/* The room behind the fewest cells, in whole pages; nobody may touch it once it was given back. */
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

static struct made mine;

static void look_for_holders(void)
{
  static struct wlh_entry entries[4];
  static struct wlh_client clients[4];
  static uint16_t units[400];
  struct wlh_view view = {entries, clients, units, 4, 4, 400, 0, 0, 0};
  CHECK(wlh_cells_find_holders(t.segment, t.bytes, u"n", 1, &view) == WLH_CELLS_OK);
  CHECK(view.entry_count == 1 && view.entries[0].token == mine.token);
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

/* Another member gives up cells at the `moment`-th step of a look, or before it if that is -1.
 * Returns whether it came to that. */
static bool give_up_during(void (*look)(void), long moment)
{
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  table_begin(&t, 16 * WLH_CELLS_AT_FIRST, 16 * WLH_CELLS_AT_FIRST);
  uintptr_t from = (uintptr_t)t.segment + wlh_segment_bytes(WLH_CELLS_AT_FIRST);
  slack_from = (char *)((from + page - 1) / page * page);
  slack_to = (char *)(((uintptr_t)t.segment + t.bytes) / page * page);
  mine = want(&t, 0, "n");
  given_back = false;
  if (moment < 0) give_up_cells();
  wlh_cells_begin_look(t.segment, 0);
  fuse = moment;
  look();
  bool done = fuse < 0;
  fuse = -1;
  CHECK(given_back == (moment < 0));
  CHECK(wlh_cells_end_look(t.segment, 0) == (moment >= 0 && done));
  if (done) leave(0), CHECK(given_back);
  CHECK(mprotect(slack_from, (size_t)(slack_to - slack_from), PROT_READ | PROT_WRITE) == 0);
  table_end(&t);
  return done;
}

TEST(outside, "a reader outside finds the cells that others give up meanwhile")
{
  static void (*const all[])(void) = {look_for_holders, look_for_own, look_for_room};
  for (int i = 0; i < 3; i++) {
    long moment = -1;
    while (give_up_during(all[i], moment)) moment++;
    CHECK(moment >= 3);
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

/* How often a request of `priority` looks, and its abort, where so many wait with each of three. */
static long looks_of(int32_t priority, int waiting)
{
  struct wlh_ask ask = {.priority = priority};
  start();
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

int main(void)
{
  return run_tests();
}
