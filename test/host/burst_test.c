/* What a burst leaves behind: the cells that are looked at for a leave, a death and a newcomer are
 * in proportion to those in use, and not to the most that there ever were. */
#include "table.h"

static struct table t;
static long looks;

/* The library looks at a cell, or has read a number. */
void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
  looks++;
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
    CHECK(wlh_cells_terminate(arena, t.parties[party].agents[i]) == WLH_CELLS_OK);
  CHECK(wlh_cells_quit(arena) == WLH_CELLS_OK);
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

/* A leave, a newcomer and a death: each looks at few cells. */
static void stop(int quits, int dies)
{
  CHECK(t.segment->header.ncells == WLH_CELLS_AT_FIRST);
  looks = 0;
  quit(quits);
  CHECK(looks < AT_MOST);
  looks = 0;
  come_and_go(quits);
  CHECK(looks < AT_MOST);
  struct made held = want(&t, dies, "n"), next = want(&t, 0, "n");
  kill_party(&t, dies);
  looks = 0;
  CHECK(wlh_cells_bury(inside(&t, 0)));
  CHECK(looks < AT_MOST && held.token < t.segment->header.token);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &next, WLH_TOLD_GRANTED) && wrong(&t, 0) == NULL);
  table_end(&t);
}

TEST(left, "when somebody leaves after a burst, few cells stay")
{
  start();
  burst(1, false);
  CHECK(wlh_cells_is_roomy(inside(&t, 1)));
  quit(1);
  CHECK(t.parties[1].arena.shrank);
  stop(2, 3);
}

TEST(died, "when who made a burst dies, few cells stay")
{
  start();
  burst(1, true);
  CHECK(!wlh_cells_is_roomy(inside(&t, 0)));
  kill_party(&t, 1);
  CHECK(wlh_cells_bury(inside(&t, 2)));
  stop(2, 3);
}

TEST(in_use, "while a burst goes on, who comes and goes looks at few cells")
{
  start();
  burst(1, true);
  looks = 0;
  quit(2);
  come_and_go(2);
  CHECK(looks < AT_MOST && t.segment->header.ncells == 32768);
  table_end(&t);
}

TEST(high, "a lock in a high cell is kept, and few cells stay once it is released")
{
  start();
  burst(1, false);
  struct made high = want(&t, 2, "high");
  while (high.request < 16384) high = want_shared(&t, 2, "high ones");
  CHECK(wlh_cells_rebuild(inside(&t, 0)) == WLH_CELLS_OK);
  CHECK(t.segment->header.ncells == 32768);
  kill_party(&t, 1);
  CHECK(wlh_cells_bury(inside(&t, 0)) && wrong(&t, 0) == NULL);
  table_end(&t);
}

TEST(others, "other members go on with fewer cells")
{
  start();
  struct made held = want(&t, 3, "mine");
  burst(1, false);
  CHECK(inside(&t, 3)->ncells == 32768);
  CHECK(wlh_cells_rebuild(inside(&t, 1)) == WLH_CELLS_OK);
  CHECK(t.segment->header.ncells == WLH_CELLS_AT_FIRST);
  CHECK(drop(&t, &held) == WLH_CELLS_OK && t.parties[3].arena.ncells == WLH_CELLS_AT_FIRST);
  burst(2, false);
  CHECK(wlh_cells_rebuild(inside(&t, 2)) == WLH_CELLS_OK);
  stop(1, 3);
}

int main(void)
{
  RUN(left), RUN(died), RUN(in_use), RUN(high), RUN(others);
  return finish_tests();
}
