/* manager.c, resource.c, agent.c and process.c: sections 2.2 to 2.6 and 4. */
#include "harness.h"

#include <string.h>

#define EX WLK_EXCLUSIVE
#define SH WLK_SHARED

TEST(grant, "4.1: a request for a free name is granted by the call, without an event or a wake-up")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  CHECK(lock.status == WLK_GRANTED && lock.count == 0 && w.actors[0].wakes == 0);
  CHECK(release_lock(lock.request).status == WLK_OK);
  end(&w);
}

TEST(modes, "2.5: shared locks are held together, an exclusive one alone")
{
  struct world w;
  begin(&w);
  struct outcome one = ask(&w, 0, "a", SH, WLK_WAIT, 1);
  struct outcome two = ask(&w, 1, "a", SH, WLK_WAIT, 2);
  struct outcome writer = ask(&w, 2, "a", EX, WLK_WAIT, 3);
  CHECK(one.status == WLK_GRANTED && two.status == WLK_GRANTED && writer.status == WLK_PENDING);
  CHECK(release_lock(one.request).status == WLK_OK && w.actors[2].wakes == 0);
  CHECK(release_lock(two.request).status == WLK_OK && w.actors[2].wakes == 1);
  struct outcome events = take(&w, 2);
  CHECK(events.count == 1 && is_event(&events, 0, 3, WLK_NEWS_GRANTED));
  CHECK(ask(&w, 0, "a", SH, WLK_IF_AVAILABLE, 4).status == WLK_NOT_AVAILABLE);
  CHECK(release_lock(writer.request).status == WLK_OK);
  end(&w);
}

TEST(no_overtaking, "2.5, step 7: a shared request waits behind a queued exclusive one")
{
  struct world w;
  begin(&w);
  struct outcome reader = ask(&w, 0, "a", SH, WLK_WAIT, 1);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 2);
  CHECK(ask(&w, 2, "a", SH, WLK_WAIT, 3).status == WLK_PENDING);
  CHECK(ask(&w, 2, "a", SH, WLK_IF_AVAILABLE, 4).status == WLK_NOT_AVAILABLE);
  (void)release_lock(reader.request);
  CHECK(w.actors[1].wakes == 1 && w.actors[2].wakes == 0);
  end(&w);
}

TEST(own_grants, "4.2: grants of the caller's own requests are the result of the call, in order")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  for (uint32_t tag = 2; tag < 6; tag++) (void)ask(&w, 0, "a", SH, WLK_WAIT, tag);
  struct outcome released = release_lock(lock.request);
  CHECK(released.count == 4 && w.actors[0].wakes == 0);
  for (uint32_t i = 0; i < 4; i++) CHECK(is_event(&released, i, i + 2, WLK_NEWS_GRANTED));
  end(&w);
}

TEST(overflow, "events for which there is no room are taken later, in order")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 0);
  for (uint32_t tag = 1; tag <= 40; tag++) (void)ask(&w, 1, "a", SH, WLK_WAIT, tag);
  (void)release_lock(lock.request);
  uint32_t next = 1;
  for (struct outcome events; (events = take(&w, 1)).count > 0;)
    for (size_t i = 0; i < events.count; i++) CHECK(is_event(&events, i, next++, WLK_NEWS_GRANTED));
  CHECK(next == 41 && w.actors[1].wakes == 1);
  end(&w);
}

TEST(wakes, "an agent is woken once, until it takes its events in answer; then again")
{
  struct world w;
  begin(&w);
  struct outcome a = ask(&w, 0, "a", EX, WLK_WAIT, 1), b = ask(&w, 0, "b", EX, WLK_WAIT, 2);
  struct outcome c = ask(&w, 0, "c", EX, WLK_WAIT, 3);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 11);
  (void)ask(&w, 1, "b", EX, WLK_WAIT, 12);
  (void)ask(&w, 1, "c", EX, WLK_WAIT, 13);
  (void)release_lock(a.request);
  (void)release_lock(b.request);
  CHECK(w.actors[1].wakes == 1);
  struct outcome events = take(&w, 1);
  CHECK(events.count == 2 && is_event(&events, 0, 11, WLK_NEWS_GRANTED));
  CHECK(is_event(&events, 1, 12, WLK_NEWS_GRANTED));
  (void)release_lock(c.request);
  CHECK(w.actors[1].wakes == 2);
  end(&w);
}

TEST(
    early_take,
    "events that a call of the agent's own takes early leave the wake-up due, and no other comes")
{
  struct world w;
  begin(&w);
  struct outcome a = ask(&w, 0, "a", EX, WLK_WAIT, 1), b = ask(&w, 0, "b", EX, WLK_WAIT, 2);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 11);
  (void)ask(&w, 1, "b", EX, WLK_WAIT, 12);
  (void)release_lock(a.request);
  struct outcome own = ask(&w, 1, "c", EX, WLK_WAIT, 13);
  CHECK(own.status == WLK_GRANTED && own.count == 1 && is_event(&own, 0, 11, WLK_NEWS_GRANTED));
  (void)release_lock(b.request);
  CHECK(w.actors[1].wakes == 1);
  struct outcome events = take(&w, 1);
  CHECK(events.count == 1 && is_event(&events, 0, 12, WLK_NEWS_GRANTED));
  end(&w);
}

TEST(steal, "4.1, step 3.4: a steal ends the held locks and goes ahead of the queue")
{
  struct world w;
  begin(&w);
  struct outcome one = ask(&w, 0, "a", SH, WLK_WAIT, 1), two = ask(&w, 1, "a", SH, WLK_WAIT, 2);
  (void)ask(&w, 2, "a", EX, WLK_WAIT, 3);
  struct outcome thief = ask(&w, 1, "a", EX, WLK_STEAL, 4);
  CHECK(thief.status == WLK_GRANTED);
  /* The thief's own lock ended by the result of the call, the other's by an event. */
  CHECK(thief.count == 1 && is_event(&thief, 0, 2, WLK_NEWS_STOLEN) && w.actors[0].wakes == 1);
  struct outcome events = take(&w, 0);
  CHECK(events.count == 1 && is_event(&events, 0, 1, WLK_NEWS_STOLEN));
  CHECK(w.actors[2].wakes == 0);
  CHECK(release_lock(thief.request).status == WLK_OK && w.actors[2].wakes == 1);
  (void)one;
  (void)two;
  end(&w);
}

TEST(steal_shared, "2.5: a shared thief lets in the shared requests behind it, as any shared lock")
{
  struct world w;
  begin(&w);
  struct outcome robbed = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  struct outcome one = ask(&w, 1, "a", SH, WLK_WAIT, 2), two = ask(&w, 2, "a", SH, WLK_WAIT, 3);
  struct outcome thief = ask(&w, 0, "a", SH, WLK_STEAL, 4);
  CHECK(thief.status == WLK_GRANTED && thief.count == 1 && robbed.status == WLK_GRANTED);
  struct outcome first = take(&w, 1), second = take(&w, 2);
  CHECK(first.count == 1 && is_event(&first, 0, 2, WLK_NEWS_GRANTED));
  CHECK(second.count == 1 && is_event(&second, 0, 3, WLK_NEWS_GRANTED));
  CHECK(release_lock(thief.request).status == WLK_OK);
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(
    stolen_then_released,
    "a stolen lock whose event was not taken ends with its release, which releases nothing")
{
  struct world w;
  begin(&w);
  struct outcome robbed = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  struct outcome thief = ask(&w, 1, "a", EX, WLK_STEAL, 2);
  struct outcome released = release_lock(robbed.request);
  CHECK(released.status == WLK_STOLEN && released.count == 0);
  CHECK(take(&w, 0).count == 0);
  CHECK(ask(&w, 2, "a", EX, WLK_IF_AVAILABLE, 3).status == WLK_NOT_AVAILABLE);
  CHECK(release_lock(thief.request).status == WLK_OK);
  end(&w);
}

TEST(
    granted_then_stolen,
    "a lock that is stolen before its agent heard of the grant: one event says both")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 2);
  (void)release_lock(lock.request);
  (void)ask(&w, 2, "a", EX, WLK_STEAL, 3);
  struct outcome events = take(&w, 1);
  CHECK(events.count == 1 && is_event(&events, 0, 2, WLK_NEWS_GRANTED | WLK_NEWS_STOLEN));
  end(&w);
}

TEST(abort_head, "4.3: an aborted head lets the shared requests behind it in")
{
  struct world w;
  begin(&w);
  (void)ask(&w, 0, "a", SH, WLK_WAIT, 1);
  struct outcome writer = ask(&w, 1, "a", EX, WLK_WAIT, 2);
  (void)ask(&w, 2, "a", SH, WLK_WAIT, 3);
  (void)ask(&w, 1, "a", SH, WLK_WAIT, 4);
  struct outcome aborted = abort_request(writer.request);
  CHECK(aborted.status == WLK_OK && aborted.count == 1);
  CHECK(is_event(&aborted, 0, 4, WLK_NEWS_GRANTED) && w.actors[2].wakes == 1);
  end(&w);
}

TEST(abort_granted, "an abort after the grant changes nothing and takes no events")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  struct outcome waiting = ask(&w, 1, "a", EX, WLK_WAIT, 2);
  (void)release_lock(lock.request);
  struct outcome aborted = abort_request(waiting.request);
  CHECK(aborted.status == WLK_GRANTED && aborted.count == 0);
  CHECK(ask(&w, 2, "a", EX, WLK_IF_AVAILABLE, 3).status == WLK_NOT_AVAILABLE);
  struct outcome released = release_lock(waiting.request);
  CHECK(released.status == WLK_OK && released.count == 0 && take(&w, 1).count == 0);
  end(&w);
}

TEST(passes, "what waits for its turn only is told of it, and holds nothing then")
{
  struct world w;
  begin(&w);
  CHECK(ask(&w, 0, "a", EX, WLK_PASS, 1).status == WLK_OK && name_count(w.manager) == 0);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  CHECK(ask(&w, 0, "a", EX, WLK_PASS, 2).status == WLK_PENDING);
  CHECK(ask(&w, 1, "a", EX, WLK_PASS, 3).status == WLK_PENDING);
  struct outcome next = ask(&w, 2, "a", EX, WLK_WAIT, 4);
  CHECK(ask(&w, 1, "a", EX, WLK_PASS, 5).status == WLK_PENDING);
  struct outcome released = release_lock(lock.request);
  CHECK(released.count == 1 && is_event(&released, 0, 2, WLK_NEWS_PASSED));
  struct outcome events = take(&w, 1);
  CHECK(events.count == 1 && is_event(&events, 0, 3, WLK_NEWS_PASSED));
  CHECK(w.actors[2].wakes == 1 && request_count(w.manager) == 2);
  CHECK(ask(&w, 0, "a", EX, WLK_PASS_IF_AVAILABLE, 6).status == WLK_NOT_AVAILABLE);
  CHECK(release_lock(next.request).status == WLK_OK && name_count(w.manager) == 0);
  end(&w);
}

TEST(abort_passes, "4.3: what waits for its turn only can be aborted, also when that has come")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  struct outcome pending = ask(&w, 1, "a", EX, WLK_PASS, 2);
  struct outcome passed = ask(&w, 1, "a", EX, WLK_PASS, 3);
  CHECK(abort_request(pending.request).status == WLK_OK);
  (void)release_lock(lock.request);
  CHECK(abort_request(passed.request).status == WLK_OK && take(&w, 1).count == 0);
  end(&w);
}

TEST(abort_stolen, "an abort after a steal changes nothing: the release is to end it")
{
  struct world w;
  begin(&w);
  struct outcome robbed = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 1, "a", EX, WLK_STEAL, 2);
  struct outcome aborted = abort_request(robbed.request);
  CHECK(aborted.status == WLK_STOLEN && aborted.count == 0);
  CHECK(release_lock(robbed.request).status == WLK_STOLEN);
  end(&w);
}

TEST(release_pending, "a release of a pending request changes nothing")
{
  struct world w;
  begin(&w);
  (void)ask(&w, 0, "a", EX, WLK_WAIT, 1);
  struct outcome waiting = ask(&w, 1, "a", EX, WLK_WAIT, 2);
  CHECK(release_lock(waiting.request).status == WLK_NOT_HELD);
  CHECK(abort_request(waiting.request).status == WLK_OK);
  end(&w);
}

TEST(
    terminate,
    "2.6: a terminated agent's requests are aborted and its locks released, the others woken")
{
  struct world w;
  begin(&w);
  (void)ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 0, "b", SH, WLK_WAIT, 2);
  (void)ask(&w, 1, "c", SH, WLK_WAIT, 3);
  (void)ask(&w, 0, "c", EX, WLK_WAIT, 4);
  (void)ask(&w, 0, "c", SH, WLK_WAIT, 5);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 6);
  (void)ask(&w, 2, "c", SH, WLK_WAIT, 7);
  (void)ask(&w, 3, "b", EX, WLK_WAIT, 8);
  stop_actor(&w, 0);
  for (int i = 1; i < 4; i++) {
    struct outcome events = take(&w, i);
    CHECK(w.actors[i].wakes == 1 && is_event(&events, 0, (uint32_t)i + 5, WLK_NEWS_GRANTED));
  }
  CHECK(request_count(w.manager) == 4);
  end(&w);
}

TEST(
    terminate_with_news,
    "an agent that is terminated with events of all kinds untaken leaves nothing")
{
  struct world w;
  begin(&w);
  struct outcome lock = ask(&w, 0, "a", EX, WLK_WAIT, 1);
  (void)ask(&w, 1, "a", EX, WLK_WAIT, 2);
  (void)ask(&w, 1, "b", EX, WLK_WAIT, 3);
  (void)ask(&w, 1, "c", EX, WLK_WAIT, 4);
  (void)release_lock(lock.request);
  (void)ask(&w, 0, "b", EX, WLK_STEAL, 5);
  stop_actor(&w, 1);
  CHECK(ask(&w, 2, "a", EX, WLK_IF_AVAILABLE, 6).status == WLK_GRANTED);
  end(&w);
}

TEST(names, "2.1: names are compared by code unit")
{
  static const uint16_t units[][3] = {{0},      {0, 0},        {0xd800},     {0xd801},
                                      {0xdc00}, {'a', 0, 'b'}, {'a', 0, 'c'}};
  static const uint32_t lengths[] = {1, 2, 1, 1, 1, 3, 3};
  struct world w;
  begin(&w);
  struct wlk_request *request;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_agent *agent = w.actors[0].agent;
  CHECK(
      wlk_request_a_lock(agent, w.manager, NULL, 0, EX, WLK_WAIT, 9, NULL, &request, NULL, &none) ==
      WLK_GRANTED);
  for (size_t i = 0; i < 7; i++)
    CHECK(
        wlk_request_a_lock(
            agent, w.manager, units[i], lengths[i], EX, WLK_WAIT, 1, NULL, &request, NULL, &none) ==
        WLK_GRANTED);
  for (size_t i = 0; i < 7; i++)
    CHECK(
        wlk_request_a_lock(
            agent, w.manager, units[i], lengths[i], EX, WLK_IF_AVAILABLE, 1, NULL, &request, NULL,
            &none) == WLK_NOT_AVAILABLE);
  end(&w);
}

TEST(long_names, "a name of a megabyte is a name, and its memory is given back")
{
  enum { UNITS = 512 * 1024 };
  static uint16_t name[UNITS];
  struct world w;
  begin(&w);
  struct wlk_request *request;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_agent *agent = w.actors[0].agent;
  CHECK(
      wlk_request_a_lock(
          agent, w.manager, name, UNITS, EX, WLK_WAIT, 1, NULL, &request, NULL, &none) ==
      WLK_GRANTED);
  name[UNITS - 1] = 1;
  struct wlk_request *other;
  CHECK(
      wlk_request_a_lock(
          agent, w.manager, name, UNITS, EX, WLK_WAIT, 2, NULL, &other, NULL, &none) ==
      WLK_GRANTED);
  CHECK(wlk_release_the_lock(request, &none) == WLK_OK);
  CHECK(wlk_release_the_lock(other, &none) == WLK_OK);
  CHECK(agent->spare == NULL);
  end(&w);
}

TEST(managers, "2.2: who opens the same bucket gets the same manager; the last close frees it")
{
  static const uint16_t name[] = {'x', 'y'};
  struct world w;
  begin(&w);
  struct wlk_manager *one, *same, *other;
  CHECK(wlk_manager_open(&w.process, name, 2, &one) == WLK_OK);
  CHECK(wlk_manager_open(&w.process, name, 2, &same) == WLK_OK);
  CHECK(wlk_manager_open(&w.process, name, 1, &other) == WLK_OK);
  CHECK(one == same && one != other && one != w.manager);
  wlk_manager_close(one);
  struct wlk_manager *again;
  CHECK(wlk_manager_open(&w.process, name, 2, &again) == WLK_OK && again == same);
  wlk_manager_close(again);
  wlk_manager_close(same);
  wlk_manager_close(other);
  CHECK(w.process.managers.count == 1);
  end(&w);
}

TEST(client_ids, "2.4: each agent has a client id of its own, which begins as asked")
{
  struct world w;
  begin(&w);
  const char *one = wlk_agent_client_id(w.actors[0].agent);
  const char *two = wlk_agent_client_id(w.actors[1].agent);
  CHECK(strncmp(one, "test-", 5) == 0 && strcmp(one, two) != 0);
  end(&w);
}

TEST(
    snapshot,
    "4.5: a snapshot has every lock and request; those of a name in the order of the queue")
{
  struct world w;
  begin(&w);
  (void)ask(&w, 0, "a", SH, WLK_WAIT, 1);
  (void)ask(&w, 1, "a", SH, WLK_WAIT, 2);
  (void)ask(&w, 2, "a", EX, WLK_WAIT, 3);
  (void)ask(&w, 0, "a", SH, WLK_WAIT, 4);
  (void)ask(&w, 3, "bb", EX, WLK_WAIT, 5);
  struct wlk_snapshot *s;
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  CHECK(s->lock_count == 5 && s->name_count == 2 && s->client_count == 4);
  static const uint32_t held[] = {1, 1, 0, 0}, modes[] = {SH, SH, EX, SH};
  static const int agents[] = {0, 1, 2, 0};
  for (size_t i = 0, seen = 0; i < s->lock_count; i++) {
    const struct wlk_lock_info *info = &s->locks[i];
    const char *id = s->clients[info->client].id;
    if (s->names[info->name].length == 2) {
      CHECK(info->held && strcmp(id, w.actors[3].agent->client_id) == 0);
      continue;
    }
    CHECK(info->held == held[seen] && info->mode == modes[seen]);
    CHECK(strcmp(id, w.actors[agents[seen]].agent->client_id) == 0);
    seen++;
  }
  wlk_snapshot_free(s);
  wlk_snapshot_free(NULL);
  end(&w);
}

TEST(messages, "every status has a sentence")
{
  for (int status = WLK_OK; status <= WLK_OTHER_VERSION; status++)
    CHECK(wlk_status_message((enum wlk_status)status) != NULL);
}

int main(void)
{
  RUN(grant);
  RUN(modes);
  RUN(no_overtaking);
  RUN(own_grants);
  RUN(overflow);
  RUN(wakes);
  RUN(early_take);
  RUN(steal);
  RUN(steal_shared);
  RUN(stolen_then_released);
  RUN(granted_then_stolen);
  RUN(abort_head);
  RUN(abort_granted);
  RUN(passes);
  RUN(abort_passes);
  RUN(abort_stolen);
  RUN(release_pending);
  RUN(terminate);
  RUN(terminate_with_news);
  RUN(names);
  RUN(long_names);
  RUN(managers);
  RUN(client_ids);
  RUN(snapshot);
  RUN(messages);
  return finish_tests();
}
