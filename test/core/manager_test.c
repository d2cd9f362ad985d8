/* Buckets, tables, texts, ages and snapshots: what fuzz_operations.c and stress_test.c do not draw. */
#include "harness.h"

#include "../../src/core/hash.h"

#include <stdlib.h>
#include <string.h>

static struct wlk_request *hold(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length)
{
  struct wlk_request *lock = NULL;
  struct wlk_events none = {.capacity = 0};
  CHECK(
      wlk_request_a_lock(
          agent, manager, name, length, WLK_EXCLUSIVE, WLK_WAIT, 1, NULL, &lock, NULL, &none) ==
      WLK_GRANTED);
  return lock;
}

TEST(buckets, "2.2: many buckets are open at once, each until it is closed as often as opened")
{
  enum { MANY = 300 };
  static struct wlk_manager *managers[MANY];
  struct world w;
  begin(&w);
  for (uint16_t i = 0; i < MANY; i++)
    CHECK(wlk_manager_open(&w.process, (uint16_t[]){'b', i}, 2, &managers[i]) == WLK_OK);
  CHECK(w.process.managers.count == MANY + 1);
  for (uint16_t i = 0; i < MANY; i++) {
    struct wlk_manager *again, *third;
    CHECK(wlk_manager_open(&w.process, (uint16_t[]){'b', i}, 2, &again) == WLK_OK);
    wlk_manager_close(managers[i]);
    CHECK(wlk_manager_open(&w.process, (uint16_t[]){'b', i}, 2, &third) == WLK_OK);
    CHECK(again == managers[i] && third == again);
    wlk_manager_close(again);
  }
  for (size_t i = 0; i < MANY; i++) wlk_manager_close(managers[i]);
  CHECK(w.process.managers.count == 1 && w.process.managers.capacity == WLK_TABLE_LEAST);
  end(&w);
}

TEST(shrunk, "2.6: a termination that empties several managers shrinks all of their tables")
{
  enum { MANAGERS = 3, NAMES = 1000 };
  struct wlk_manager *managers[MANAGERS];
  struct wlk_request *left[MANAGERS];
  struct world w;
  begin(&w);
  for (uint16_t i = 0; i < MANAGERS; i++) {
    CHECK(wlk_manager_open(&w.process, &i, 1, &managers[i]) == WLK_OK);
    for (uint16_t name = 1; name < NAMES; name++) (void)hold(w.agents[0], managers[i], &name, 1);
    left[i] = hold(w.agents[1], managers[i], (uint16_t[]){0}, 1);
    CHECK(chain_count(managers[i]) >= NAMES);
  }
  stop_actor(&w, 0);
  for (int i = 0; i < MANAGERS; i++) {
    CHECK(name_count(managers[i]) == 1 && chain_count(managers[i]) == LEAST_CHAINS);
    CHECK(release_lock(left[i]).status == WLK_OK);
    wlk_manager_close(managers[i]);
  }
  end(&w);
}

#if !defined(WLK_SMALL) /* where more is allocated in between */
TEST(table_without_memory, "a table that has no memory to grow grows in a later call")
{
  enum { SAME = WLK_TABLE_LEAST + 2 };
  struct world w;
  begin(&w);
  const struct wlk_table *table = &w.manager->parts[0].resources;
  for (uint16_t name = 0, count = 0; count < SAME; name++) {
    if (wlk_shard_of(wlk_hash(w.process.hash_key, &name, 1)) != 0) continue;
    if (++count == WLK_TABLE_LEAST + 1) (void)fail_allocation(1);
    (void)hold(w.agents[0], w.manager, &name, 1);
    if (count == WLK_TABLE_LEAST + 1)
      CHECK(fail_allocation(0) && table->capacity == WLK_TABLE_LEAST);
  }
  CHECK(table->capacity > WLK_TABLE_LEAST);
  end(&w);
}
#endif

TEST(long_names, "2.1: the memory of a long name is kept neither for other names nor by an agent")
{
  enum { LONG = 512 * 1024 };
  static uint16_t name[LONG];
  struct world w;
  begin(&w);
  struct wlk_agent *agent = w.agents[1];
  struct wlk_request *lock = hold(w.agents[0], w.manager, name, LONG), *other;
  struct wlk_events none = {.capacity = 0};
  CHECK(
      wlk_request_a_lock(
          agent, w.manager, name, LONG, WLK_EXCLUSIVE, WLK_IF_AVAILABLE, 1, NULL, &other, NULL,
          &none) == WLK_NOT_AVAILABLE);
  CHECK(!agent->spare || agent->spare->capacity < LONG);
  CHECK(hold(agent, w.manager, name, 1)->resource->capacity < LONG);
  name[LONG - 1] = 1;
  CHECK(release_lock(hold(agent, w.manager, name, LONG)).status == WLK_OK);
  CHECK(!agent->spare || agent->spare->capacity < LONG);
  CHECK(release_lock(lock).status == WLK_OK);
  end(&w);
}

/* So many code units, in memory that ends with them. */
static uint16_t *units_of(uint32_t length)
{
  uint16_t *units = malloc(length * sizeof *units + (length == 0));
  for (uint32_t i = 0; i < length; i++) units[i] = (uint16_t)(i + 1);
  return units;
}

static bool is_beginning(struct wlk_name name, const uint16_t *units, uint32_t length)
{
  return name.length == length && memcmp(name.units, units, length * sizeof *units) == 0;
}

TEST(texts, "a snapshot keeps texts of any length, cut where they are limited")
{
  static const uint32_t lengths[] = {0, 1, 39, 40, 41, 63, 64, 65, 6400};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    struct world w;
    struct wlk_snapshot *s;
    struct wlk_request *lock;
    struct wlk_events none = {.capacity = 0};
    uint32_t length = lengths[i], most = WLK_THREAD_NAME_MOST;
    uint16_t *units = units_of(length);
    struct wlk_thread thread = {7, units, length};
    struct wlk_extra extra = {.label = units, .label_length = length};
    char *prefix = malloc(length + 1);
    memset(prefix, 'p', length);
    prefix[length] = '\0';
    begin(&w);
    stop_actor(&w, 0);
    start_actor(&w, 0, prefix, &thread);
    CHECK(
        wlk_request_a_lock(
            w.agents[0], w.manager, units, length, WLK_SHARED, WLK_WAIT, 1, &extra, &lock, NULL,
            &none) == WLK_GRANTED);
    CHECK(wlk_publish(lock, units, length) == WLK_OK);
    CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
    free(prefix);
    stop_actor(&w, 0);
    const struct wlk_lock_info *info = s->locks;
    const struct wlk_client *client = &s->clients[info->client];
    CHECK(
        s->lock_count == 1 && s->client_count == 4 &&
        is_beginning(s->names[info->name], units, length));
    CHECK(is_beginning(client->thread, units, length < most ? length : most));
    CHECK(client->thread_id == 7 && strspn(client->id, "p") == (length < 40 ? length : 40));
    CHECK(
        (info->label == WLK_NO_TEXT) == (length == 0) &&
        (info->data == WLK_NO_TEXT) == (length == 0));
    if (length > 0) {
      CHECK(is_beginning(s->names[info->label], units, length));
      CHECK(is_beginning(s->names[info->data], units, length));
    }
    free(units);
    wlk_snapshot_free(s);
    end(&w);
  }
}

/* The age of an entry in a snapshot. */
static uint64_t age_of(struct world *w, size_t entry)
{
  struct wlk_snapshot *s;
  CHECK(wlk_snapshot_the_lock_state(w->manager, &s) == WLK_OK);
  uint64_t high = s->locks[entry].age_high, age = high << 32 | s->locks[entry].age_low;
  wlk_snapshot_free(s);
  return age;
}

TEST(ages, "an age counts from the request, of a lock from its grant, in more than 32 bits")
{
  const uint64_t days = UINT64_C(60) * 24 * 60 * 60 * 1000;
  struct world w;
  begin(&w);
  stopped_clock = 1000;
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  stopped_clock += days;
  struct outcome waiting = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(age_of(&w, 0) == days && age_of(&w, 1) == 0);
  stopped_clock += 5;
  CHECK(age_of(&w, 0) == days + 5 && age_of(&w, 1) == 5);
  CHECK(release_lock(held.request).status == WLK_OK && age_of(&w, 0) == 0);
  stopped_clock += 5;
  CHECK(age_of(&w, 0) == 5);
  stopped_clock = 0;
  CHECK(release_lock(waiting.request).status == WLK_OK);
  end(&w);
}
