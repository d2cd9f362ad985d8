/* Priorities in the cells of the host scope: the order of a queue, what follows from it, and that it
 * outlives a death. */
#include "table.h"

#include <stdlib.h>

static struct table t;
static long looks;

/* The library looks at a cell, or has read a number. */
void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
  looks++;
}

static void start(void)
{
  table_begin(&t, 256, 256);
}

/* Whatever was tested: all is whole, and nothing is left once all have left. */
static void stop(void)
{
  for (int i = 0; i < PARTIES; i++) {
    if (t.dead[i]) continue;
    CHECK(wrong(&t, i) == NULL);
    CHECK(wlh_cells_leave(inside(&t, i)) == WLH_CELLS_OK);
  }
  CHECK(!t.parties[3].arena.poisoned);
  CHECK(wlh_cells_free(&t.parties[3].arena) == t.parties[3].arena.ncells - 1);
  table_end(&t);
}

static struct made want_with(int party, int32_t priority)
{
  return make(&t, party, "n", (struct wlh_ask){.priority = priority});
}

static struct made want_shared_with(int party, int32_t priority)
{
  return make(&t, party, "n", (struct wlh_ask){.mode = WLH_SHARED, .priority = priority});
}

/* A request that is not to wait. */
static struct made try_with(int party, uint8_t mode, int32_t priority)
{
  struct wlh_ask ask = {.mode = mode, .option = WLH_IF_AVAILABLE, .priority = priority};
  return make(&t, party, "n", ask);
}

/* Has a lock released, and says whether that grants the other one, and only that. */
static bool hands_over(const struct made *from, const struct made *to)
{
  if (drop(&t, from) != WLH_CELLS_OK) return false;
  for (int i = 0; i < PARTIES; i++) {
    if (t.dead[i]) continue;
    struct mail mail = mail_of(&t, i);
    if (i == to->party ? !is_letter(&mail, to, WLH_REPORTED_GRANTED) : mail.count > 0) return false;
  }
  return true;
}

/* Whether they get the lock one after the other, the first from `holder`; then nobody has it. */
static bool follow(const struct made *holder, const struct made *const *others, int count)
{
  for (int i = 0; i < count; i++) {
    if (wrong(&t, 3) || !hands_over(holder, others[i])) return false;
    holder = others[i];
  }
  return drop(&t, holder) == WLH_CELLS_OK;
}

/* ---- the order ---- */

TEST(higher_first, "of those that wait, who has more priority is granted first")
{
  start();
  struct made held = want_with(0, 0);
  struct made low = want_with(1, -1), middle = want_with(2, 0), high = want_with(3, 7);
  CHECK(low.status == WLH_CELLS_PENDING && high.status == WLH_CELLS_PENDING);
  const struct made *order[] = {&high, &middle, &low};
  CHECK(follow(&held, order, 3));
  stop();
}

TEST(equals, "of those with the same priority, who came first is granted first")
{
  start();
  struct made held = want_with(0, 0);
  struct made c = want_with(1, 0), a = want_with(2, 5), d = want_with(3, 0), b = want_with(1, 5);
  const struct made *order[] = {&a, &b, &c, &d};
  CHECK(follow(&held, order, 4));
  stop();
}

TEST(
    between,
    "a priority that nobody had is put between those that are more and those that are less")
{
  start();
  struct made held = want_with(0, 0);
  struct made a = want_with(1, 9), d = want_with(2, -9), b = want_with(3, 9), c = want_with(1, 0);
  const struct made *order[] = {&a, &b, &c, &d};
  CHECK(follow(&held, order, 4));
  stop();
}

TEST(extremes, "the least and the greatest number there is are priorities as any other")
{
  start();
  struct made held = want_with(0, INT32_MAX);
  struct made c = want_with(1, INT32_MIN), b = want_with(2, 0), a = want_with(3, INT32_MAX);
  const struct made *order[] = {&a, &b, &c};
  CHECK(follow(&held, order, 3));
  stop();
}

TEST(holder, "no priority takes a lock away from who holds it")
{
  start();
  struct made held = want_with(0, -5);
  CHECK(want_with(1, INT32_MAX).status == WLH_CELLS_PENDING);
  CHECK(mail_of(&t, 0).count == 0);
  CHECK(drop(&t, &held) == WLH_CELLS_OK);
  stop();
}

TEST(thefts, "a theft is ahead of every priority")
{
  start();
  struct made held = want_with(0, 0), high = want_with(1, INT32_MAX);
  struct made stolen = steal(&t, 2, "n");
  CHECK(stolen.status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &held, WLH_REPORTED_STOLEN));
  CHECK(hands_over(&stolen, &high));
  stop();
}

/* How often a request of `priority` looks, and its abort, where so many wait with each of three. */
static long looks_of(int32_t priority, int waiting)
{
  start();
  (void)want_with(0, 0);
  for (int i = 0; i < waiting; i++)
    for (int32_t other = -4; other <= 4; other += 4) (void)want_with(1 + i % 3, other);
  looks = 0;
  struct made made = want_with(1, priority);
  CHECK(give_up(&t, &made) == WLH_CELLS_OK);
  long counted = looks;
  stop();
  return counted;
}

TEST(cost, "who comes and goes looks at no more requests however many have the same priority")
{
  for (int32_t priority = -6; priority <= 6; priority += 2)
    CHECK(looks_of(priority, 3) == looks_of(priority, 60));
}

/* ---- what follows from it ---- */

TEST(overtakes, "a shared request of more priority does not wait for an exclusive one that waits")
{
  start();
  struct made reader = want_shared_with(0, 0), writer = want_with(1, 0);
  CHECK(want_shared_with(2, 0).status == WLH_CELLS_PENDING);
  struct made other = want_shared_with(2, 1);
  CHECK(other.status == WLH_CELLS_GRANTED);
  CHECK(give_up(&t, &writer) == WLH_CELLS_OK);
  CHECK(mail_of(&t, 2).count == 1);
  CHECK(drop(&t, &reader) == WLH_CELLS_OK && drop(&t, &other) == WLH_CELLS_OK);
  stop();
}

TEST(held_back, "a shared request of less priority waits for an exclusive one that waits")
{
  start();
  struct made reader = want_shared_with(0, 0), writer = want_with(1, 0);
  struct made low = want_shared_with(2, -1);
  CHECK(low.status == WLH_CELLS_PENDING);
  CHECK(hands_over(&reader, &writer));
  CHECK(hands_over(&writer, &low));
  stop();
}

TEST(available, "what is not to wait is available if it fits and nobody has as much priority")
{
  start();
  CHECK(want_shared_with(0, 0).status == WLH_CELLS_GRANTED);
  CHECK(want_with(1, 3).status == WLH_CELLS_PENDING);
  CHECK(want_with(1, 0).status == WLH_CELLS_PENDING);
  CHECK(try_with(2, WLH_SHARED, 2).status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(try_with(2, WLH_SHARED, 3).status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(try_with(2, WLH_EXCLUSIVE, 4).status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(try_with(2, WLH_SHARED, 4).status == WLH_CELLS_GRANTED);
  stop();
}

TEST(limit, "units go to the one with more priority, even if those with less would fit sooner")
{
  start();
  struct wlh_ask ask = {.mode = WLH_SHARED, .limit = 3, .weight = 2};
  struct made two = make(&t, 0, "n", ask);
  ask.priority = 1, ask.weight = 3;
  struct made all = make(&t, 1, "n", ask);
  ask.priority = 0, ask.weight = 1;
  struct made one = make(&t, 2, "n", ask);
  CHECK(all.status == WLH_CELLS_PENDING && one.status == WLH_CELLS_PENDING);
  CHECK(hands_over(&two, &all));
  CHECK(hands_over(&all, &one));
  stop();
}

TEST(abort_head, "the abort of one with more priority lets in who waits behind it")
{
  start();
  CHECK(want_shared_with(0, 0).status == WLH_CELLS_GRANTED);
  struct made writer = want_with(1, 2), reader = want_shared_with(2, 1);
  CHECK(give_up(&t, &writer) == WLH_CELLS_OK);
  struct mail mail = mail_of(&t, 2);
  CHECK(is_letter(&mail, &reader, WLH_REPORTED_GRANTED));
  stop();
}

TEST(itself, "a request waits for itself once another of more priority waits for its own thread")
{
  start();
  struct wlh_ask ask = {.mode = WLH_SHARED, .limit = 2, .weight = 1};
  CHECK(make(&t, 1, "n", ask).status == WLH_CELLS_GRANTED);
  CHECK(make(&t, 2, "n", ask).status == WLH_CELLS_GRANTED);
  struct made waiting = make(&t, 1, "n", ask);
  CHECK(!wlh_cells_waits_for_itself(inside(&t, 1), waiting.request, waiting.cookie));
  CHECK(want_with(3, -1).status == WLH_CELLS_PENDING);
  CHECK(!wlh_cells_waits_for_itself(inside(&t, 1), waiting.request, waiting.cookie));
  CHECK(want_with(3, 1).status == WLH_CELLS_PENDING);
  CHECK(wlh_cells_waits_for_itself(inside(&t, 1), waiting.request, waiting.cookie));
  stop();
}

TEST(snapshot, "a snapshot has the queue in its order, and each priority")
{
  struct wlh_entry entries[4];
  struct wlh_client clients[4];
  uint16_t units[64];
  struct wlh_view view = {entries, clients, units, 4, 4, 64, 0, 0, 0};
  start();
  CHECK(want_with(0, -3).status == WLH_CELLS_GRANTED);
  CHECK(want_with(1, 0).status == WLH_CELLS_PENDING);
  CHECK(want_with(2, 4).status == WLH_CELLS_PENDING);
  CHECK(wlh_cells_snapshot(inside(&t, 3), &view) == WLH_CELLS_OK && view.entry_count == 3);
  CHECK(entries[0].held == 1 && entries[0].priority == -3);
  CHECK(entries[1].priority == 4 && clients[entries[1].client].member == 2);
  CHECK(entries[2].priority == 0 && clients[entries[2].client].member == 1);
  stop();
}

/* ---- after a death ---- */

TEST(rebuilt, "a queue that is made anew has the same order")
{
  start();
  struct made held = want_with(0, 0);
  struct made d = want_with(1, 0), b = want_with(2, 5), c = want_with(1, 2), f = want_with(2, -1);
  CHECK(want_with(3, 9).status == WLH_CELLS_PENDING);
  struct made e = want_with(2, 0), a = want_with(1, 6);
  kill_party(&t, 3);
  CHECK(wlh_cells_reap(inside(&t, 0)));
  const struct made *order[] = {&a, &b, &c, &d, &e, &f};
  for (int i = 0; i < 6; i++) {
    const struct made *from = i == 0 ? &held : order[i - 1];
    CHECK(wrong(&t, 0) == NULL && hands_over(from, order[i]));
  }
  stop();
}

TEST(granted_early, "locks that were not granted in the order of their requests outlive a death")
{
  start();
  struct made held = want_with(0, 0);
  struct made early = want_shared_with(1, 0), late = want_shared_with(2, 1);
  CHECK(drop(&t, &held) == WLH_CELLS_OK); /* grants the later one first */
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 3)));
  CHECK(wrong(&t, 3) == NULL);
  CHECK(mail_of(&t, 1).count == 1 && mail_of(&t, 2).count == 1);
  CHECK(try_with(3, WLH_EXCLUSIVE, 9).status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(drop(&t, &late) == WLH_CELLS_OK && drop(&t, &early) == WLH_CELLS_OK);
  stop();
}

TEST(mail_order, "grants of a process are told in their order after a death, too")
{
  start();
  struct made held = want_with(0, 0);
  struct made second = want_shared_with(1, 0), first = want_shared_with(1, 1);
  CHECK(drop(&t, &held) == WLH_CELLS_OK);
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 3)));
  struct mail mail = mail_of(&t, 1);
  CHECK(mail.count == 2);
  CHECK(mail.letters[0].cookie == first.cookie && mail.letters[1].cookie == second.cookie);
  stop();
}

TEST(dead_ahead, "who is not to wait is not kept by a dead one of more priority")
{
  start();
  CHECK(want_shared_with(1, 0).status == WLH_CELLS_GRANTED);
  CHECK(want_with(0, 5).status == WLH_CELLS_PENDING);
  kill_party(&t, 0);
  CHECK(try_with(2, WLH_SHARED, 2).status == WLH_CELLS_GRANTED);
  stop();
}

/* ---- whatever enters and leaves ---- */

enum { MOST = 60 };

/* Where the next to be granted is, by the meaning alone. */
static int best(const struct made *made, const int32_t *priorities, int count)
{
  int found = -1;
  for (int i = 0; i < count; i++)
    if (made[i].request != 0 && (found < 0 || priorities[i] > priorities[found])) found = i;
  return found;
}

static void play(uint64_t seed, uint32_t levels)
{
  struct made made[MOST] = {0};
  int32_t priorities[MOST] = {0};
  int count = 0;
  start();
  struct made held = want_with(0, 0);
  while (count < MOST) {
    int i = (int)draw(&seed, MOST);
    uint32_t what = draw(&seed, 20);
    if (i < count && made[i].request != 0 && what < 7) {
      CHECK(give_up(&t, &made[i]) == WLH_CELLS_OK);
      made[i].request = 0;
    } else if (what == 7) {
      CHECK(wlh_cells_rebuild(inside(&t, 3)) == WLH_CELLS_OK);
    } else {
      priorities[count] = (int32_t)draw(&seed, levels) - 1;
      made[count] = want_with(1 + (int)draw(&seed, 3), priorities[count]);
      count++;
    }
    if (!CHECK(wrong(&t, 3) == NULL)) break;
  }
  for (int next; (next = best(made, priorities, count)) >= 0; made[next].request = 0) {
    if (!CHECK(hands_over(&held, &made[next]) && wrong(&t, 3) == NULL)) break;
    held = made[next];
  }
  stop();
}

TEST(many, "the queue is in its order, whatever comes and goes")
{
  for (uint64_t seed = 1; seed <= 40; seed++) play(seed, 1 + (uint32_t)seed % 7 * 3);
}

int main(void)
{
  RUN(higher_first), RUN(equals), RUN(between), RUN(extremes), RUN(holder), RUN(thefts), RUN(cost);
  RUN(overtakes), RUN(held_back), RUN(available), RUN(limit), RUN(abort_head), RUN(itself);
  RUN(snapshot);
  RUN(rebuilt), RUN(granted_early), RUN(mail_order), RUN(dead_ahead);
  RUN(many);
  return finish_tests();
}
