/* Limits and weights, tokens, bounded queues, the snapshot of one name. */
#include "harness.h"

#include <string.h>

enum { LIMIT = 3 };

static struct outcome ask_with(
    struct world *w, int actor, enum wlk_mode mode, enum wlk_option option,
    const struct wlk_extra *extra, struct wlk_events *told)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  struct wlk_snapshot *cycle = NULL;
  uint16_t name = 'a';
  outcome.status = wlk_request_a_lock(
      w->actors[actor].agent, w->manager, &name, 1, mode, option, (uint32_t)actor, extra,
      &outcome.request, &cycle, &events);
  outcome.count = events.count;
  if (outcome.status == WLK_DEADLOCK) wlk_snapshot_free(cycle);
  if (told) *told = events;
  return outcome;
}

static struct outcome ask_units(
    struct world *w, int actor, uint32_t weight, enum wlk_option option, struct wlk_events *told)
{
  struct wlk_extra extra = {.limit = LIMIT, .weight = weight};
  return ask_with(w, actor, WLK_SHARED, option, &extra, told);
}

static struct outcome take_units(struct world *w, int actor, uint32_t weight)
{
  return ask_units(w, actor, weight, WLK_WAIT, NULL);
}

/* A request that rejects deadlocks, made inside of two locks at most. */
static struct outcome take_inside(
    struct world *w, int actor, uint32_t weight, struct wlk_request *one, struct wlk_request *other)
{
  struct wlk_request *inside[] = {one, other};
  struct wlk_extra extra = {
      .reject_deadlock = true,
      .inside = inside,
      .inside_count = (uint32_t)((one != NULL) + (other != NULL)),
      .limit = LIMIT,
      .weight = weight,
  };
  return ask_with(w, actor, WLK_SHARED, WLK_WAIT, &extra, NULL);
}

static uint64_t token_of(const struct outcome *outcome, size_t event)
{
  uint64_t high = outcome->events[event].token_high;
  return high << 32 | outcome->events[event].token_low;
}

TEST(units, "locks of a name with a limit are held together as long as their units fit")
{
  struct world w;
  begin(&w);
  struct outcome one = take_units(&w, 0, 2);
  struct outcome two = take_units(&w, 1, 1);
  struct outcome three = take_units(&w, 2, 1);
  CHECK(one.status == WLK_GRANTED && two.status == WLK_GRANTED && three.status == WLK_PENDING);
  CHECK(ask_units(&w, 3, 1, WLK_IF_AVAILABLE, NULL).status == WLK_NOT_AVAILABLE);
  CHECK(release_lock(two.request).status == WLK_OK);
  struct outcome news = take(&w, 2);
  CHECK(is_event(&news, 0, 2, WLK_NEWS_GRANTED));
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(three.request).status == WLK_OK);
  end(&w);
}

TEST(order, "a heavy request at the head of the queue is not overtaken by light ones")
{
  struct world w;
  begin(&w);
  struct outcome held = take_units(&w, 0, 1);
  struct outcome heavy = take_units(&w, 1, 3);
  struct outcome light = take_units(&w, 2, 1);
  CHECK(heavy.status == WLK_PENDING && light.status == WLK_PENDING);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(take(&w, 1).count == 1 && take(&w, 2).count == 0);
  CHECK(release_lock(heavy.request).status == WLK_OK);
  CHECK(take(&w, 2).count == 1);
  CHECK(release_lock(light.request).status == WLK_OK);
  end(&w);
}

TEST(abort_of_heavy, "an abort of a heavy request lets in those behind it that fit")
{
  struct world w;
  begin(&w);
  struct outcome held = take_units(&w, 0, 1);
  struct outcome heavy = take_units(&w, 1, 3);
  struct outcome light = take_units(&w, 2, 2);
  CHECK(abort_request(heavy.request).status == WLK_OK);
  CHECK(take(&w, 2).count == 1);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(release_lock(light.request).status == WLK_OK);
  end(&w);
}

TEST(other_limit, "another limit, or none, is refused with that of the name, while it is in use")
{
  struct world w;
  struct wlk_events told;
  struct wlk_extra other = {.limit = LIMIT + 1, .weight = 1};
  begin(&w);
  struct outcome held = take_units(&w, 0, 1);
  CHECK(ask_with(&w, 1, WLK_SHARED, WLK_WAIT, &other, &told).status == WLK_OTHER_LIMIT);
  CHECK(told.limit == LIMIT);
  CHECK(ask_with(&w, 1, WLK_SHARED, WLK_IF_AVAILABLE, NULL, &told).status == WLK_OTHER_LIMIT);
  CHECK(told.limit == LIMIT);
  /* Those who wait exclusively keep it, too. */
  struct outcome exclusive = ask_with(&w, 1, WLK_EXCLUSIVE, WLK_WAIT, NULL, NULL);
  CHECK(exclusive.status == WLK_PENDING);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_WAIT, &other, NULL).status == WLK_OTHER_LIMIT);
  CHECK(release_lock(exclusive.request).status == WLK_OK);
  struct outcome next = ask_with(&w, 2, WLK_SHARED, WLK_WAIT, &other, NULL);
  CHECK(next.status == WLK_GRANTED);
  CHECK(release_lock(next.request).status == WLK_OK);
  end(&w);
}

TEST(no_limit, "a limit is refused on a name that is shared without one")
{
  struct world w;
  struct wlk_events told;
  begin(&w);
  struct outcome held = ask_with(&w, 0, WLK_SHARED, WLK_WAIT, NULL, NULL);
  CHECK(ask_units(&w, 1, 1, WLK_WAIT, &told).status == WLK_OTHER_LIMIT && told.limit == 0);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

TEST(limit_behind_exclusive, "a name that is held exclusively has no limit yet")
{
  struct world w;
  begin(&w);
  struct outcome held = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, NULL, NULL);
  struct outcome one = take_units(&w, 1, 3);
  CHECK(one.status == WLK_PENDING);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_WAIT, NULL, NULL).status == WLK_OTHER_LIMIT);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(release_lock(one.request).status == WLK_OK);
  end(&w);
}

TEST(refused_limit, "a request that is not made sets no limit")
{
  struct world w;
  struct wlk_extra full = {.limit = LIMIT, .weight = 1, .bounded = true};
  begin(&w);
  struct outcome held = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, NULL, NULL);
  CHECK(ask_units(&w, 1, 1, WLK_IF_AVAILABLE, NULL).status == WLK_NOT_AVAILABLE);
  CHECK(ask_with(&w, 1, WLK_SHARED, WLK_WAIT, &full, NULL).status == WLK_QUEUE_FULL);
  struct outcome reader = ask_with(&w, 1, WLK_SHARED, WLK_WAIT, NULL, NULL);
  CHECK(reader.status == WLK_PENDING);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(release_lock(reader.request).status == WLK_OK);
  end(&w);
}

TEST(most_units, "the greatest limit and weight")
{
  struct world w;
  struct wlk_extra most = {.limit = WLK_UNITS_MOST, .weight = WLK_UNITS_MOST};
  begin(&w);
  struct outcome one = ask_with(&w, 0, WLK_SHARED, WLK_WAIT, &most, NULL);
  struct outcome two = ask_with(&w, 1, WLK_SHARED, WLK_WAIT, &most, NULL);
  CHECK(one.status == WLK_GRANTED && two.status == WLK_PENDING);
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(theft, "a theft takes the units of all, and leaves the limit")
{
  struct world w;
  begin(&w);
  struct outcome one = take_units(&w, 0, 1);
  struct outcome two = take_units(&w, 1, 2);
  struct outcome waiting = take_units(&w, 2, 3);
  struct outcome thief = ask_with(&w, 3, WLK_EXCLUSIVE, WLK_STEAL, NULL, NULL);
  CHECK(thief.status == WLK_GRANTED);
  CHECK(release_lock(one.request).status == WLK_STOLEN);
  CHECK(release_lock(two.request).status == WLK_STOLEN);
  CHECK(release_lock(thief.request).status == WLK_OK);
  struct outcome news = take(&w, 2);
  CHECK(is_event(&news, 0, 2, WLK_NEWS_GRANTED));
  CHECK(release_lock(waiting.request).status == WLK_OK);
  end(&w);
}

TEST(termination, "a thread that ends gives its units back")
{
  struct world w;
  begin(&w);
  (void)take_units(&w, 0, 3);
  struct outcome waiting = take_units(&w, 1, 3);
  stop_actor(&w, 0);
  CHECK(take(&w, 1).count == 1);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  end(&w);
}

TEST(tokens, "each grant has a greater token than all of the name before, however it is told")
{
  struct world w;
  struct wlk_events told;
  begin(&w);
  struct outcome one = ask_units(&w, 0, 2, WLK_WAIT, &told);
  uint64_t first = told.token;
  struct outcome two = ask_units(&w, 1, 1, WLK_WAIT, &told);
  uint64_t second = told.token;
  struct outcome three = take_units(&w, 2, 1);
  CHECK(release_lock(one.request).status == WLK_OK);
  struct outcome news = take(&w, 2);
  uint64_t third = token_of(&news, 0);
  CHECK(0 < first && first < second && second < third);
  CHECK(release_lock(two.request).status == WLK_OK);
  CHECK(release_lock(three.request).status == WLK_OK);
  (void)ask_with(&w, 3, WLK_EXCLUSIVE, WLK_STEAL, NULL, &told);
  CHECK(told.token > third);
  end(&w);
}

TEST(tokens_of_managers, "tokens go on where they were when a bucket is opened anew")
{
  struct world w;
  struct wlk_events told;
  uint16_t bucket = 'b';
  begin(&w);
  struct outcome one = ask_units(&w, 0, 1, WLK_WAIT, &told);
  uint64_t first = told.token;
  CHECK(release_lock(one.request).status == WLK_OK);
  wlk_manager_close(w.manager);
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &w.manager) == WLK_OK);
  struct outcome two = ask_units(&w, 1, 1, WLK_WAIT, &told);
  CHECK(told.token > first);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(large_tokens, "a token has more than 32 bits, in answers, in events and in snapshots")
{
  struct world w;
  struct wlk_snapshot *s;
  struct wlk_events told;
  begin(&w);
  for (int i = 0; i < WLK_SHARDS; i++) w.process.shards[i].grants = UINT64_C(0xfffffffe);
  struct outcome one = ask_units(&w, 0, 3, WLK_WAIT, &told);
  CHECK(told.token == UINT64_C(0xffffffff));
  struct outcome two = take_units(&w, 1, 3);
  CHECK(release_lock(one.request).status == WLK_OK);
  struct outcome news = take(&w, 1);
  CHECK(token_of(&news, 0) == UINT64_C(0x100000000));
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  CHECK(s->locks[0].token_low == 0 && s->locks[0].token_high == 1);
  wlk_snapshot_free(s);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(token_of_stolen, "an event of a grant and a theft in one has the token of the grant")
{
  struct world w;
  begin(&w);
  struct outcome one = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, NULL, NULL);
  (void)ask_with(&w, 1, WLK_EXCLUSIVE, WLK_WAIT, NULL, NULL);
  CHECK(release_lock(one.request).status == WLK_OK);
  struct outcome thief = ask_with(&w, 2, WLK_EXCLUSIVE, WLK_STEAL, NULL, NULL);
  struct outcome news = take(&w, 1);
  CHECK(is_event(&news, 0, 1, WLK_NEWS_GRANTED | WLK_NEWS_STOLEN) && token_of(&news, 0) == 2);
  CHECK(release_lock(thief.request).status == WLK_OK);
  end(&w);
}

TEST(queue_full, "a request that would have to wait behind too many is not made")
{
  struct world w;
  struct wlk_extra none = {.bounded = true, .max_pending = 0};
  struct wlk_extra one = {.bounded = true, .max_pending = 1};
  begin(&w);
  struct outcome held = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, &none, NULL);
  CHECK(held.status == WLK_GRANTED);
  CHECK(ask_with(&w, 1, WLK_EXCLUSIVE, WLK_WAIT, &none, NULL).status == WLK_QUEUE_FULL);
  struct outcome first = ask_with(&w, 1, WLK_EXCLUSIVE, WLK_WAIT, &one, NULL);
  CHECK(first.status == WLK_PENDING);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_WAIT, &one, NULL).status == WLK_QUEUE_FULL);
  CHECK(ask_with(&w, 2, WLK_SHARED, WLK_IF_AVAILABLE, &one, NULL).status == WLK_NOT_AVAILABLE);
  CHECK(abort_request(first.request).status == WLK_OK);
  struct outcome second = ask_with(&w, 2, WLK_EXCLUSIVE, WLK_WAIT, &one, NULL);
  CHECK(second.status == WLK_PENDING);
  struct outcome thief = ask_with(&w, 3, WLK_EXCLUSIVE, WLK_STEAL, &one, NULL);
  CHECK(thief.status == WLK_GRANTED);
  CHECK(release_lock(thief.request).status == WLK_OK);
  CHECK(release_lock(second.request).status == WLK_OK);
  end(&w);
}

TEST(snapshot_of_name, "the snapshot of a name has its locks, its queue and their clients only")
{
  struct world w;
  struct wlk_snapshot *s;
  uint16_t a = 'a', b = 'b';
  begin(&w);
  struct outcome one = take_units(&w, 1, 2);
  struct outcome two = take_units(&w, 1, 1);
  struct outcome three = take_units(&w, 3, 2);
  struct outcome other = ask(&w, 0, "b", WLK_EXCLUSIVE, WLK_WAIT, 9);
  CHECK(wlk_snapshot_a_name(w.manager, &a, 1, true, &s) == WLK_OK);
  CHECK(s->lock_count == 3 && s->client_count == 2 && s->name_count == 1);
  CHECK(s->locks[0].held && s->locks[0].weight == 2 && s->locks[0].limit == LIMIT);
  CHECK(s->locks[1].held && s->locks[1].weight == 1);
  CHECK(!s->locks[2].held && s->locks[2].weight == 2 && s->locks[2].limit == LIMIT);
  const char *id = wlk_agent_client_id(w.actors[3].agent);
  CHECK(strcmp(s->clients[s->locks[2].client].id, id) == 0);
  wlk_snapshot_free(s);
  CHECK(wlk_snapshot_a_name(w.manager, &b, 1, true, &s) == WLK_OK);
  CHECK(s->lock_count == 1 && s->locks[0].limit == 0 && s->locks[0].weight == 0);
  wlk_snapshot_free(s);
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(two.request).status == WLK_OK);
  CHECK(release_lock(three.request).status == WLK_OK);
  CHECK(release_lock(other.request).status == WLK_OK);
  end(&w);
}

TEST(deadlock_of_one, "a request inside of a lock that leaves it no room is a deadlock")
{
  struct world w;
  begin(&w);
  struct outcome outer = take_inside(&w, 0, 2, NULL, NULL);
  struct outcome inner = take_inside(&w, 0, 1, outer.request, NULL);
  CHECK(inner.status == WLK_GRANTED);
  CHECK(release_lock(inner.request).status == WLK_OK);
  CHECK(take_inside(&w, 0, 2, outer.request, NULL).status == WLK_DEADLOCK);
  CHECK(release_lock(outer.request).status == WLK_OK);
  end(&w);
}

TEST(deadlock_of_outer, "so is one inside of several that together leave it no room")
{
  struct world w;
  begin(&w);
  struct outcome one = take_inside(&w, 0, 1, NULL, NULL);
  struct outcome two = take_inside(&w, 0, 1, one.request, NULL);
  CHECK(take_inside(&w, 0, 2, one.request, two.request).status == WLK_DEADLOCK);
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(no_deadlock, "a request for which any of two locks could make room waits for none of them")
{
  struct world w;
  begin(&w);
  struct outcome one = take_inside(&w, 0, 1, NULL, NULL);
  struct outcome two = take_inside(&w, 1, 2, NULL, NULL);
  struct outcome waiting = take_inside(&w, 0, 1, one.request, NULL);
  CHECK(waiting.status == WLK_PENDING);
  CHECK(release_lock(two.request).status == WLK_OK);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  CHECK(release_lock(one.request).status == WLK_OK);
  end(&w);
}

TEST(no_deadlock_of_outer, "a request inside of a lock that leaves it just enough room waits")
{
  struct world w;
  begin(&w);
  struct outcome outer = take_inside(&w, 0, 1, NULL, NULL);
  struct outcome other = take_inside(&w, 1, 2, NULL, NULL);
  struct outcome waiting = take_inside(&w, 0, 2, outer.request, NULL);
  CHECK(waiting.status == WLK_PENDING);
  CHECK(release_lock(other.request).status == WLK_OK && waiting.request->state == WLK_STATE_HELD);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  CHECK(release_lock(outer.request).status == WLK_OK);
  end(&w);
}

TEST(
    exclusive_with_units,
    "an exclusive request takes no units, and sets no limit, whatever it says")
{
  struct world w;
  struct wlk_extra extra = {.limit = LIMIT, .weight = 2};
  begin(&w);
  struct outcome one = ask_with(&w, 0, WLK_EXCLUSIVE, WLK_WAIT, &extra, NULL);
  struct outcome two = ask_with(&w, 1, WLK_SHARED, WLK_WAIT, NULL, NULL);
  CHECK(one.status == WLK_GRANTED && one.request->weight == 0 && two.status == WLK_PENDING);
  CHECK(release_lock(one.request).status == WLK_OK && two.request->state == WLK_STATE_HELD);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(deadlock_behind_heavy, "a request waits for what a declared heavy one ahead of it waits for")
{
  struct world w;
  begin(&w);
  struct outcome held = take_inside(&w, 0, 1, NULL, NULL);
  struct outcome heavy = take_inside(&w, 1, 3, NULL, NULL);
  CHECK(heavy.status == WLK_PENDING);
  CHECK(take_inside(&w, 0, 1, held.request, NULL).status == WLK_DEADLOCK);
  CHECK(abort_request(heavy.request).status == WLK_OK);
  /* One that did not declare may go away. */
  struct outcome undeclared = take_units(&w, 1, 3);
  struct outcome waiting = take_inside(&w, 0, 1, held.request, NULL);
  CHECK(waiting.status == WLK_PENDING);
  CHECK(abort_request(undeclared.request).status == WLK_OK);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

static enum wlk_status wait_a_while(struct wlk_request *request)
{
  struct wlk_event items[4];
  struct wlk_events events = {.items = items, .capacity = 4};
  struct wlk_snapshot *cycle = NULL;
  enum wlk_status status = wlk_wait_for_the_lock(request, 0, &cycle, &events);
  if (status == WLK_DEADLOCK) wlk_snapshot_free(cycle);
  return status;
}

TEST(blocked_by_itself, "a thread that blocks waits for itself if its own units leave no room")
{
  static const struct wlk_thread other_thread = {1, NULL, 0};
  struct world w;
  begin(&w);
  stop_actor(&w, 1);
  CHECK(
      wlk_agent_create(
          &w.process, "o-", &other_thread, w.actors[0].agent->wake, &w.actors[1],
          &w.actors[1].agent) == WLK_OK);
  struct outcome own = take_units(&w, 0, 1);
  struct outcome others = take_units(&w, 1, 2);
  /* The other one's units can make room. */
  struct outcome fits = take_units(&w, 0, 2);
  CHECK(wait_a_while(fits.request) == WLK_PENDING);
  /* But not for what comes behind: 1 and 2 are this thread's by then. */
  struct outcome third = take_units(&w, 0, 1);
  CHECK(wait_a_while(third.request) == WLK_DEADLOCK);
  CHECK(abort_request(fits.request).status == WLK_OK);
  struct outcome all = take_units(&w, 0, 3);
  CHECK(wait_a_while(all.request) == WLK_DEADLOCK);
  CHECK(release_lock(own.request).status == WLK_OK);
  CHECK(release_lock(others.request).status == WLK_OK);
  end(&w);
}

int main(void)
{
  RUN(units);
  RUN(order);
  RUN(abort_of_heavy);
  RUN(other_limit);
  RUN(no_limit);
  RUN(limit_behind_exclusive);
  RUN(refused_limit);
  RUN(most_units);
  RUN(theft);
  RUN(termination);
  RUN(tokens);
  RUN(tokens_of_managers);
  RUN(large_tokens);
  RUN(token_of_stolen);
  RUN(queue_full);
  RUN(snapshot_of_name);
  RUN(deadlock_of_one);
  RUN(deadlock_of_outer);
  RUN(no_deadlock);
  RUN(no_deadlock_of_outer);
  RUN(exclusive_with_units);
  RUN(deadlock_behind_heavy);
  RUN(blocked_by_itself);
  return finish_tests();
}
