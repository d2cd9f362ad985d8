/* manager.c, resource.c, agent.c and process.c: what fuzz_operations.c does not draw. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define EX WLK_EXCLUSIVE

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
  const char *now = wlk_agent_client_id(w.actors[3].agent);
  CHECK(strncmp(now, "test-", 5) == 0 && strcmp(now, before) != 0);
  CHECK(strcmp(now, wlk_agent_client_id(w.actors[0].agent)) != 0);
  end(&w);
}
