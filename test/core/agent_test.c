/* agent.c: client ids (2.4), events and wake-ups. Terminations meanwhile are in wake_test.c. */
#include "harness.h"

#include <string.h>

#define EX WLK_EXCLUSIVE
#define SH WLK_SHARED

/* Takes at most `capacity` events. */
static struct outcome take_some(struct world *w, int actor, bool woken, size_t capacity)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = capacity};
  wlk_agent_take_events(w->actors[actor].agent, woken, &events);
  outcome.count = events.count;
  return outcome;
}

/* Has actor 0 hold the name, then actor 1 wait for it. */
static struct outcome contend(struct world *w, const char *name, uint32_t tag)
{
  struct outcome lock = ask(w, 0, name, EX, WLK_WAIT, 100 + tag);
  CHECK(ask(w, 1, name, EX, WLK_WAIT, tag).status == WLK_PENDING);
  return lock;
}

TEST(long_prefix, "2.4: a client id begins with at most 40 bytes of its prefix, and has a number")
{
  static const char prefix[] = "0123456789012345678901234567890123456789-and-more";
  struct world w;
  struct wlk_agent *agent;
  begin(&w);
  CHECK(
      wlk_agent_create(&w.process, prefix, &no_thread, w.actors[0].agent->wake, NULL, &agent) ==
      WLK_OK);
  const char *id = wlk_agent_client_id(agent);
  CHECK(strncmp(id, prefix, 40) == 0 && strcmp(id + 40, "5") == 0);
  wlk_agent_terminate(agent);
  end(&w);
}

TEST(no_id_again, "2.4: the client id of a terminated agent is not given again")
{
  struct world w;
  char before[WLK_CLIENT_ID_SIZE];
  begin(&w);
  memcpy(before, wlk_agent_client_id(w.actors[3].agent), sizeof before);
  stop_actor(&w, 3);
  start_actor(&w, 3);
  CHECK(strcmp(wlk_agent_client_id(w.actors[3].agent), before) != 0);
  end(&w);
}

TEST(not_in_answer, "taking events unasked leaves the wake-up unanswered: no further one comes")
{
  struct world w;
  begin(&w);
  struct outcome a = contend(&w, "a", 1), b = contend(&w, "b", 2), c = contend(&w, "c", 3);
  (void)release_lock(a.request);
  CHECK(take_some(&w, 1, false, 16).count == 1 && w.actors[1].wakes == 1);
  (void)release_lock(b.request);
  CHECK(w.actors[1].wakes == 1);
  CHECK(take_some(&w, 1, true, 16).count == 1);
  (void)release_lock(c.request);
  CHECK(w.actors[1].wakes == 2);
  end(&w);
}

TEST(answered_empty, "a wake-up whose events are gone already is answered by taking none")
{
  struct world w;
  begin(&w);
  struct outcome a = contend(&w, "a", 1), b = contend(&w, "b", 2);
  (void)release_lock(a.request);
  (void)take_some(&w, 1, false, 16);
  CHECK(take_some(&w, 1, true, 16).count == 0);
  (void)release_lock(b.request);
  CHECK(w.actors[1].wakes == 2);
  end(&w);
}

TEST(left_over, "events beyond the capacity stay, in order, and a new one wakes again")
{
  struct world w;
  begin(&w);
  struct outcome a = contend(&w, "a", 1), b = contend(&w, "b", 2), c = contend(&w, "c", 3);
  (void)release_lock(a.request);
  (void)release_lock(b.request);
  struct outcome first = take_some(&w, 1, true, 1);
  CHECK(first.count == 1 && is_event(&first, 0, 1, WLK_NEWS_GRANTED));
  (void)release_lock(c.request);
  CHECK(w.actors[1].wakes == 2);
  struct outcome rest = take_some(&w, 1, true, 16);
  CHECK(rest.count == 2 && is_event(&rest, 0, 2, WLK_NEWS_GRANTED));
  CHECK(is_event(&rest, 1, 3, WLK_NEWS_GRANTED));
  end(&w);
}

TEST(no_room, "the caller's own grants for which it has no room wait for it, without a wake-up")
{
  struct world w;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 0, "a", EX, WLK_WAIT, 2);
  CHECK(wlk_release_the_lock(lock.request, &none) == WLK_OK && none.count == 0);
  struct outcome events = take_some(&w, 0, false, 16);
  CHECK(events.count == 1 && is_event(&events, 0, 2, WLK_NEWS_GRANTED) && w.actors[0].wakes == 0);
  end(&w);
}

TEST(dropped, "a lock that is released before its grant was told leaves no event, others' stay")
{
  struct world w;
  begin(&w);
  struct outcome a = ask(&w, 0, "a", EX, WLK_WAIT, 101);
  struct outcome early = ask(&w, 1, "a", EX, WLK_WAIT, 1);
  struct outcome b = contend(&w, "b", 2);
  (void)release_lock(a.request);
  (void)release_lock(b.request);
  struct wlk_events none = {.items = NULL, .capacity = 0};
  CHECK(wlk_release_the_lock(early.request, &none) == WLK_OK);
  struct outcome events = take(&w, 1);
  CHECK(events.count == 1 && is_event(&events, 0, 2, WLK_NEWS_GRANTED));
  end(&w);
}

TEST(dropped_with_room, "the call that drops the event of its lock hands over the others")
{
  struct world w;
  begin(&w);
  struct outcome a = ask(&w, 0, "a", EX, WLK_WAIT, 101);
  struct outcome early = ask(&w, 1, "a", EX, WLK_WAIT, 1);
  struct outcome b = contend(&w, "b", 2);
  (void)release_lock(a.request);
  (void)release_lock(b.request);
  struct outcome released = release_lock(early.request);
  CHECK(released.count == 1 && is_event(&released, 0, 2, WLK_NEWS_GRANTED));
  CHECK(take(&w, 1).count == 0);
  end(&w);
}

TEST(one_wake_each, "2.6: a termination that grants many requests of an agent wakes it once")
{
  static const char *const names[] = {"a", "b", "c"};
  struct world w;
  begin(&w);
  for (uint32_t i = 0; i < 3; i++) (void)contend(&w, names[i], i);
  stop_actor(&w, 0);
  CHECK(w.actors[1].wakes == 1);
  struct outcome events = take(&w, 1);
  CHECK(events.count == 3);
  for (uint32_t i = 0; i < 3; i++) CHECK(is_event(&events, i, i, WLK_NEWS_GRANTED));
  end(&w);
}

TEST(stolen_twice, "locks of one agent that are stolen one by one are one wake-up, in order")
{
  struct world w;
  begin(&w);
  (void)ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 0, "b", SH, WLK_WAIT, 2);
  (void)ask(&w, 1, "b", EX, WLK_STEAL, 3);
  (void)ask(&w, 2, "a", EX, WLK_STEAL, 4);
  struct outcome events = take(&w, 0);
  CHECK(events.count == 2 && w.actors[0].wakes == 1);
  CHECK(is_event(&events, 0, 2, WLK_NEWS_STOLEN) && is_event(&events, 1, 1, WLK_NEWS_STOLEN));
  end(&w);
}

int main(void)
{
  RUN(long_prefix);
  RUN(no_id_again);
  RUN(not_in_answer);
  RUN(answered_empty);
  RUN(left_over);
  RUN(no_room);
  RUN(dropped);
  RUN(dropped_with_room);
  RUN(one_wake_each);
  RUN(stolen_twice);
  return finish_tests();
}
