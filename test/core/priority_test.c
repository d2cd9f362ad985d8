/* The order of the queue by priorities, and what relies on it. */
#include "harness.h"

#include <string.h>

static const struct wlk_thread threads[] = {{1, NULL, 0}, {2, NULL, 0}};

/* Asks for "a" with what `extra` says. */
static struct outcome ask_with(
    struct world *w, int actor, enum wlk_mode mode, enum wlk_option option, uint32_t tag,
    const struct wlk_extra *extra)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  struct wlk_snapshot *cycle = NULL;
  uint16_t name = 'a';
  outcome.status = wlk_request_a_lock(
      w->actors[actor].agent, w->manager, &name, 1, mode, option, tag, extra, &outcome.request,
      &cycle, &events);
  outcome.count = events.count;
  if (outcome.status == WLK_DEADLOCK) wlk_snapshot_free(cycle);
  return outcome;
}

/* A request of actor 1 that has to wait. */
static struct wlk_request *wait_with(struct world *w, int32_t priority, uint32_t tag)
{
  struct wlk_extra extra = {.priority = priority};
  struct outcome outcome = ask_with(w, 1, WLK_EXCLUSIVE, WLK_WAIT, tag, &extra);
  CHECK(outcome.status == WLK_PENDING);
  return outcome.request;
}

/* Whether the requests of actor 1 for "a" are granted in this order, each after the end of the one
 * before. */
static bool is_granted_in_order(
    struct world *w, struct wlk_request *held, struct wlk_request **all, const uint32_t *tags,
    size_t count)
{
  struct wlk_request *last = held;
  for (size_t i = 0; i < count; i++) {
    CHECK(release_lock(last).status == WLK_OK);
    struct outcome news = take(w, 1);
    /* The first release is by actor 0, the others are by actor 1 itself. */
    if (i == 0 && (news.count != 1 || news.events[0].tag != tags[0])) return false;
    last = all[tags[i]];
    if (last->state != WLK_STATE_HELD) return false;
  }
  CHECK(release_lock(last).status == WLK_OK);
  return true;
}

TEST(order, "more priority goes first; of the same, who came first; 0 is between more and less")
{
  static const int32_t priorities[] = {0, -1, 5, 0, 3, -7, 5, -1, 0, 3, INT32_MIN, INT32_MAX, -7};
  static const uint32_t order[] = {11, 2, 6, 4, 9, 0, 3, 8, 1, 7, 5, 12, 10};
  enum { COUNT = sizeof order / sizeof *order };
  struct wlk_request *all[COUNT];
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 0);
  for (uint32_t i = 0; i < COUNT; i++) all[i] = wait_with(&w, priorities[i], i);
  CHECK(is_granted_in_order(&w, held.request, all, order, COUNT));
  end(&w);
}

TEST(leaving, "whoever leaves, whatever stands for its priority, the order of the others stays")
{
  static const int32_t priorities[] = {2, 2, 2, 0, 0, -2, -2, -2};
  enum { COUNT = sizeof priorities / sizeof *priorities };
  for (uint32_t gone = 0; gone < COUNT; gone++) {
    struct wlk_request *all[COUNT + 3];
    uint32_t order[COUNT + 2];
    size_t count = 0;
    struct world w;
    begin(&w);
    struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 0);
    for (uint32_t i = 0; i < COUNT; i++) all[i] = wait_with(&w, priorities[i], i);
    CHECK(abort_request(all[gone]).status == WLK_OK);
    /* Others come when it is gone: with its priority, between the priorities. */
    all[COUNT] = wait_with(&w, 2, COUNT);
    all[COUNT + 1] = wait_with(&w, 0, COUNT + 1);
    all[COUNT + 2] = wait_with(&w, -2, COUNT + 2);
    for (int32_t level = 2; level >= -2; level -= 2) {
      for (uint32_t i = 0; i < COUNT; i++)
        if (priorities[i] == level && i != gone) order[count++] = i;
      order[count++] = COUNT + (uint32_t)(2 - level) / 2;
    }
    CHECK(is_granted_in_order(&w, held.request, all, order, count));
    end(&w);
  }
}

TEST(no_theft, "a request of more priority waits for the lock that is held")
{
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 0);
  struct wlk_request *urgent = wait_with(&w, 9, 1);
  CHECK(take(&w, 0).count == 0);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(take(&w, 1).count == 1);
  CHECK(release_lock(urgent).status == WLK_OK);
  end(&w);
}

TEST(at_once, "who would be first and fits beside the locks that are held is granted at once")
{
  struct world w;
  struct wlk_extra more = {.priority = 1}, less = {.priority = -1};
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 0);
  struct outcome writer = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_IF_AVAILABLE, 2, NULL).status == WLK_NOT_AVAILABLE);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_IF_AVAILABLE, 2, &less).status == WLK_NOT_AVAILABLE);
  CHECK(ask_with(&w, 2, WLK_EXCLUSIVE, WLK_IF_AVAILABLE, 2, &more).status == WLK_NOT_AVAILABLE);
  struct outcome reader = ask_with(&w, 2, WLK_SHARED, WLK_IF_AVAILABLE, 2, &more);
  struct outcome other = ask_with(&w, 3, WLK_SHARED, WLK_WAIT, 3, &more);
  CHECK(reader.status == WLK_GRANTED && other.status == WLK_GRANTED);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(release_lock(reader.request).status == WLK_OK);
  CHECK(take(&w, 1).count == 0);
  CHECK(release_lock(other.request).status == WLK_OK);
  CHECK(take(&w, 1).count == 1);
  CHECK(release_lock(writer.request).status == WLK_OK);
  end(&w);
}

TEST(thief, "a theft is ahead of every priority, and who waits goes on waiting behind it")
{
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 0);
  struct wlk_request *urgent = wait_with(&w, INT32_MAX, 1);
  struct outcome thief = ask(&w, 2, "a", WLK_EXCLUSIVE, WLK_STEAL, 2);
  CHECK(thief.status == WLK_GRANTED && take(&w, 1).count == 0);
  CHECK(release_lock(held.request).status == WLK_STOLEN);
  CHECK(release_lock(thief.request).status == WLK_OK);
  CHECK(take(&w, 1).count == 1);
  CHECK(release_lock(urgent).status == WLK_OK);
  end(&w);
}

TEST(bounded, "a bounded queue counts all that wait, whatever their priority")
{
  struct world w;
  struct wlk_extra urgent = {.priority = 9, .bounded = true, .max_pending = 1};
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 0);
  struct wlk_request *least = wait_with(&w, -9, 1);
  CHECK(ask_with(&w, 2, WLK_EXCLUSIVE, WLK_WAIT, 2, &urgent).status == WLK_QUEUE_FULL);
  urgent.max_pending = 2;
  struct outcome waiting = ask_with(&w, 2, WLK_EXCLUSIVE, WLK_WAIT, 2, &urgent);
  CHECK(waiting.status == WLK_PENDING);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(take(&w, 2).count == 1 && take(&w, 1).count == 0);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  CHECK(release_lock(least).status == WLK_OK);
  end(&w);
}

TEST(snapshot, "a snapshot has the queue in its order, and the priorities, of locks too")
{
  struct world w;
  struct wlk_snapshot *s;
  struct wlk_extra extra = {.priority = -3};
  uint16_t name = 'a';
  begin(&w);
  struct outcome held = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, 0, &extra);
  struct wlk_request *none = wait_with(&w, 0, 1);
  struct wlk_request *more = wait_with(&w, 4, 2);
  CHECK(wlk_snapshot_a_name(w.manager, &name, 1, true, &s) == WLK_OK);
  CHECK(s->lock_count == 3 && s->locks[0].held == 1 && s->locks[0].priority == -3);
  CHECK(s->locks[1].priority == 4 && s->locks[2].priority == 0);
  wlk_snapshot_free(s);
  CHECK(abort_request(none).status == WLK_OK);
  CHECK(abort_request(more).status == WLK_OK);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

/* ---- deadlocks ---- */

/* Asks as one that rejects deadlocks. */
static struct outcome declare(
    struct world *w, int actor, char name, enum wlk_mode mode, int32_t priority,
    struct wlk_request *inside, struct wlk_snapshot **cycle)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  uint16_t unit = (unsigned char)name;
  struct wlk_extra extra = {
      .reject_deadlock = true,
      .inside = &inside,
      .inside_count = inside != NULL,
      .priority = priority,
  };
  outcome.status = wlk_request_a_lock(
      w->actors[actor].agent, w->manager, &unit, 1, mode, WLK_WAIT, (uint32_t)actor, &extra,
      &outcome.request, cycle, &events);
  outcome.count = events.count;
  return outcome;
}

/* Actor 0 holds "a", shared. Actor 1 holds "b", and waits inside of it for "a", shared, behind an
 * exclusive request that does not declare, and so counts for nothing. */
struct readers {
  struct wlk_request *a, *b, *writer, *inner;
};

static struct readers begin_readers(struct world *w)
{
  begin(w);
  struct readers r = {
      .a = declare(w, 0, 'a', WLK_SHARED, 0, NULL, NULL).request,
      .b = declare(w, 1, 'b', WLK_EXCLUSIVE, 0, NULL, NULL).request,
      .writer = ask(w, 2, "a", WLK_EXCLUSIVE, WLK_WAIT, 2).request,
  };
  struct outcome inner = declare(w, 1, 'a', WLK_SHARED, 0, r.b, NULL);
  CHECK(inner.status == WLK_PENDING);
  r.inner = inner.request;
  return r;
}

static void end_readers(struct world *w, const struct readers *r)
{
  CHECK(abort_request(r->writer).status == WLK_OK);
  CHECK(release_lock(r->inner).status == WLK_OK);
  CHECK(release_lock(r->b).status == WLK_OK);
  CHECK(release_lock(r->a).status == WLK_OK);
  end(w);
}

TEST(overtaken, "a request that gets ahead of another one, which then waits for itself, is refused")
{
  struct world w;
  struct wlk_snapshot *cycle = NULL;
  struct readers r = begin_readers(&w);
  /* The lock "a" waits for "b", which waits for "a" behind the writer. */
  struct outcome outer = declare(&w, 0, 'b', WLK_SHARED, 0, r.a, &cycle);
  CHECK(outer.status == WLK_PENDING);
  if (!CHECK(declare(&w, 3, 'a', WLK_EXCLUSIVE, 1, NULL, &cycle).status == WLK_DEADLOCK)) return;
  CHECK(cycle->lock_count == 4);
  CHECK(!cycle->locks[0].held && cycle->locks[0].priority == 1);
  CHECK(cycle->names[cycle->locks[0].name].units[0] == 'a' && cycle->locks[1].held);
  CHECK(cycle->names[cycle->locks[2].name].units[0] == 'b' && cycle->locks[3].held);
  wlk_snapshot_free(cycle);
  CHECK(abort_request(outer.request).status == WLK_OK);
  end_readers(&w, &r);
}

TEST(not_overtaken, "a request that gets ahead of nobody, or of nobody in a cycle, waits")
{
  struct world w;
  struct wlk_snapshot *cycle = NULL;
  struct readers r = begin_readers(&w);
  struct outcome alone = declare(&w, 3, 'a', WLK_EXCLUSIVE, 1, NULL, &cycle);
  CHECK(alone.status == WLK_PENDING);
  CHECK(abort_request(alone.request).status == WLK_OK);
  struct outcome outer = declare(&w, 0, 'b', WLK_SHARED, 0, r.a, &cycle);
  struct outcome behind = declare(&w, 3, 'a', WLK_EXCLUSIVE, 0, NULL, &cycle);
  CHECK(behind.status == WLK_PENDING);
  CHECK(abort_request(behind.request).status == WLK_OK);
  CHECK(abort_request(outer.request).status == WLK_OK);
  end_readers(&w, &r);
}

TEST(behind, "a request waits for what those wait for that have more priority, and not for less")
{
  struct world w;
  struct wlk_snapshot *cycle = NULL;
  begin(&w);
  struct outcome held = declare(&w, 0, 'a', WLK_SHARED, 0, NULL, NULL);
  struct outcome less = declare(&w, 1, 'a', WLK_EXCLUSIVE, -1, NULL, NULL);
  struct outcome inner = declare(&w, 0, 'a', WLK_SHARED, 0, held.request, &cycle);
  CHECK(less.status == WLK_PENDING && inner.status == WLK_GRANTED);
  CHECK(release_lock(inner.request).status == WLK_OK);
  struct outcome more = declare(&w, 2, 'a', WLK_EXCLUSIVE, 1, NULL, &cycle);
  CHECK(more.status == WLK_PENDING);
  struct outcome waits = declare(&w, 0, 'a', WLK_SHARED, 0, held.request, &cycle);
  if (!CHECK(waits.status == WLK_DEADLOCK)) return;
  wlk_snapshot_free(cycle);
  CHECK(abort_request(more.request).status == WLK_OK);
  CHECK(abort_request(less.request).status == WLK_OK);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

TEST(declared, "the declared requests of a queue stay in its order, whoever comes and goes")
{
  static const int32_t priorities[] = {1, -1, -1, -2, 0, -1, 2, 0, -3, 3};
  enum { COUNT = sizeof priorities / sizeof *priorities };
  struct wlk_request *all[COUNT];
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 0);
  for (uint32_t i = 0; i < COUNT; i++) {
    struct outcome waiting = declare(&w, 1, 'a', WLK_EXCLUSIVE, priorities[i], NULL, NULL);
    CHECK(waiting.status == WLK_PENDING);
    all[i] = waiting.request;
    CHECK(broken(&w.process) == NULL);
  }
  for (uint32_t i = 0; i < COUNT; i++) {
    CHECK(abort_request(all[i * 7 % COUNT]).status == WLK_OK);
    CHECK(broken(&w.process) == NULL);
  }
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

/* ---- threads that block ---- */

/* Replaces the agent of an actor by one in thread `thread`. */
static void move_to_thread(struct world *w, int actor, int thread)
{
  stop_actor(w, actor);
  CHECK(
      wlk_agent_create(
          &w->process, "t-", &threads[thread], w->actors[3].agent->wake, &w->actors[actor],
          &w->actors[actor].agent) == WLK_OK);
}

static enum wlk_status block(struct wlk_request *request, struct wlk_snapshot **cycle)
{
  struct wlk_events events = {.items = NULL, .capacity = 0};
  return wlk_wait_for_the_lock(request, 0, cycle, &events);
}

TEST(
    blocked, "a thread that blocks is told when it waits for itself behind who got ahead meanwhile")
{
  struct world w;
  struct wlk_snapshot *cycle = NULL;
  struct wlk_extra unit = {.limit = 2, .weight = 1}, urgent = {.priority = 1};
  begin(&w);
  move_to_thread(&w, 0, 0);
  move_to_thread(&w, 1, 1);
  struct outcome own = ask_with(&w, 0, WLK_SHARED, WLK_WAIT, 0, &unit);
  struct outcome other = ask_with(&w, 1, WLK_SHARED, WLK_WAIT, 1, &unit);
  struct outcome waiting = ask_with(&w, 0, WLK_SHARED, WLK_WAIT, 2, &unit);
  CHECK(waiting.status == WLK_PENDING);
  CHECK(block(waiting.request, &cycle) == WLK_PENDING);
  struct outcome writer = ask_with(&w, 1, WLK_EXCLUSIVE, WLK_WAIT, 3, &urgent);
  CHECK(writer.status == WLK_PENDING);
  if (!CHECK(block(waiting.request, &cycle) == WLK_DEADLOCK)) return;
  CHECK(cycle->lock_count == 2 && !cycle->locks[0].held && cycle->locks[1].held);
  wlk_snapshot_free(cycle);
  CHECK(release_lock(own.request).status == WLK_OK);
  CHECK(release_lock(other.request).status == WLK_OK);
  CHECK(release_lock(writer.request).status == WLK_OK);
  end(&w);
}

int main(void)
{
  RUN(order);
  RUN(leaving);
  RUN(no_theft);
  RUN(at_once);
  RUN(thief);
  RUN(bounded);
  RUN(snapshot);
  RUN(overtaken);
  RUN(not_overtaken);
  RUN(behind);
  RUN(declared);
  RUN(blocked);
  return finish_tests();
}
