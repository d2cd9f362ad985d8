/* agent.c: client ids (2.4), events and wake-ups. Terminations meanwhile are in wake_test.c. */
#include "harness.h"

#include <stdlib.h>
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

/* So many code units, in memory that ends with them. */
static uint16_t *units_of(uint32_t length)
{
  uint16_t *units = malloc(length * sizeof *units + (length == 0));
  for (uint32_t i = 0; i < length; i++) units[i] = (uint16_t)(i + 1);
  return units;
}

TEST(texts, "texts are whole up to their limits, and cut beyond, however long they are")
{
  static const uint32_t lengths[] = {0, 1, 39, 40, 41, 63, 64, 65, 6400};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct world w;
    struct wlk_snapshot *s;
    struct wlk_request *request;
    struct wlk_events none = {.items = NULL, .capacity = 0};
    uint32_t length = lengths[i], cut = length < 64 ? length : 64;
    uint16_t *units = units_of(length);
    struct wlk_thread thread = {7, units, length};
    struct wlk_extra extra = {.label = units, .label_length = length};
    char *prefix = malloc(length + 1);
    memset(prefix, 'p', length);
    prefix[length] = '\0';
    begin(&w);
    stop_actor(&w, 0);
    CHECK(
        wlk_agent_create(
            &w.process, prefix, &thread, w.actors[1].agent->wake, &w.actors[0],
            &w.actors[0].agent) == WLK_OK);
    CHECK(
        wlk_request_a_lock(
            w.actors[0].agent, w.manager, units, length, EX, WLK_WAIT, 1, &extra, &request, NULL,
            &none) == WLK_GRANTED);
    free(prefix);
    CHECK(wlk_snapshot_a_name(w.manager, units, length, true, &s) == WLK_OK);
    const struct wlk_client *client = &s->clients[s->locks[0].client];
    CHECK(client->thread.length == cut && client->thread_id == 7);
    CHECK(memcmp(client->thread.units, units, cut * sizeof *units) == 0);
    CHECK(
        strlen(client->id) == (length < 40 ? length : 40) + 1 &&
        client->id[strlen(client->id) - 1] == '5');
    CHECK(length == 0 || s->names[s->locks[0].label].length == length);
    free(units);
    wlk_snapshot_free(s);
    end(&w);
  }
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
