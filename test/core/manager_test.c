/* manager.c, resource.c, agent.c and process.c: sections 2.2 to 2.6 and 4. */
#include "harness.h"

#include <string.h>

#define EX WLK_EXCLUSIVE
#define SH WLK_SHARED

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

static uint64_t token_of(const struct wlk_snapshot *s)
{
  return (uint64_t)s->locks[0].token_high << 32 | s->locks[0].token_low;
}

TEST(tokens, "a token has more than 32 bits, and goes on where a bucket is opened anew")
{
  struct world w;
  uint16_t bucket = 'b';
  begin(&w);
  for (int i = 0; i < WLK_SHARDS; i++) w.process.shards[i].grants = UINT64_C(0xffffffff);
  struct outcome one = ask(&w, 0, "a", EX, WLK_WAIT, 1), two = ask(&w, 1, "a", EX, WLK_WAIT, 2);
  CHECK(release_lock(one.request).status == WLK_OK);
  struct outcome news = take(&w, 1);
  CHECK(news.events[0].token_high == 1 && news.events[0].token_low == 1);
  CHECK(release_lock(two.request).status == WLK_OK);
  wlk_manager_close(w.manager);
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &w.manager) == WLK_OK);
  (void)ask(&w, 0, "a", EX, WLK_WAIT, 3);
  struct wlk_snapshot *s;
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  CHECK(token_of(s) == UINT64_C(0x100000002));
  wlk_snapshot_free(s);
  end(&w);
}

TEST(messages, "every status has a sentence")
{
  for (int status = WLK_OK; status <= WLK_OTHER_VERSION; status++)
    CHECK(wlk_status_message((enum wlk_status)status) != NULL);
}
