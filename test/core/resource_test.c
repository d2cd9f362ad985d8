/* resource.c and the tables of a manager: what names cost, and that managers have names of their
 * own (2.2). */
#include "harness.h"

#include "../../src/core/hash.h"

#include <pthread.h>

#define EX WLK_EXCLUSIVE

static struct wlk_request *hold(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length)
{
  struct wlk_request *lock = NULL;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  CHECK(
      wlk_request_a_lock(agent, manager, name, length, EX, WLK_WAIT, 1, NULL, &lock, NULL, &none) ==
      WLK_GRANTED);
  return lock;
}

static bool is_free(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length)
{
  struct wlk_request *lock;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  if (wlk_request_a_lock(
          agent, manager, name, length, EX, WLK_IF_AVAILABLE, 1, NULL, &lock, NULL, &none) !=
      WLK_GRANTED)
    return false;
  CHECK(wlk_release_the_lock(lock, &none) == WLK_OK);
  return true;
}

TEST(same_chain, "2.1: names that share a chain of the table are told apart")
{
  enum { SAME = 6 };
  uint16_t names[SAME] = {0};
  struct wlk_request *locks[SAME];
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct world w;
  begin(&w);
  for (uint32_t unit = 0, found = 0; found < SAME; unit++) {
    uint16_t name = (uint16_t)unit;
    uint64_t hash = wlk_hash(w.process.hash_key, &name, 1);
    if (hash % WLK_TABLE_LEAST == 0 && wlk_shard_of(hash) == 0) names[found++] = name;
  }
  for (int i = 0; i < SAME; i++) locks[i] = hold(w.actors[0].agent, w.manager, &names[i], 1);
  for (int i = 0; i < SAME; i += 2) CHECK(wlk_release_the_lock(locks[i], &none) == WLK_OK);
  for (int i = 0; i < SAME; i++)
    CHECK(is_free(w.actors[1].agent, w.manager, &names[i], 1) == (i % 2 == 0));
  end(&w);
}

TEST(grown, "2.6: a termination that empties several managers at once leaves no memory of them")
{
  uint16_t bucket = 'o';
  struct wlk_manager *other;
  struct world w;
  begin(&w);
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &other) == WLK_OK);
  for (uint16_t name = 0; name < 1000; name++) {
    (void)hold(w.actors[0].agent, w.manager, &name, 1);
    (void)hold(w.actors[0].agent, other, &name, 1);
  }
  CHECK(chain_count(w.manager) >= 1000 && chain_count(other) >= 1000);
  stop_actor(&w, 0);
  CHECK(name_count(w.manager) == 0 && name_count(other) == 0);
  wlk_manager_close(other);
  end(&w);
}

TEST(many_managers, "2.2: many buckets are open at once, each its own; closed, they leave nothing")
{
  enum { MANY = 300 };
  static struct wlk_manager *managers[MANY];
  struct world w;
  begin(&w);
  for (uint16_t i = 0; i < MANY; i++)
    CHECK(wlk_manager_open(&w.process, (uint16_t[]){i, 0}, 2, &managers[i]) == WLK_OK);
  CHECK(w.process.managers.count == MANY + 1);
  for (uint16_t i = 0; i < MANY; i++) {
    struct wlk_manager *again;
    CHECK(wlk_manager_open(&w.process, (uint16_t[]){i, 0}, 2, &again) == WLK_OK);
    CHECK(again == managers[i]);
    wlk_manager_close(again);
  }
  for (size_t i = 0; i < MANY; i++) wlk_manager_close(managers[i]);
  CHECK(w.process.managers.count == 1 && w.process.managers.capacity == WLK_TABLE_LEAST);
  end(&w);
}

TEST(ever_longer, "2.1: a name may be longer than all before it")
{
  enum { LONGEST = 100 };
  static const uint16_t name[LONGEST];
  struct world w;
  begin(&w);
  for (uint32_t length = 1; length <= LONGEST; length++) {
    /* Held and let go first, so that there is a spare that is just too small for the next. */
    CHECK(is_free(w.actors[0].agent, w.manager, name, length));
    (void)hold(w.actors[0].agent, w.manager, name, length);
  }
  for (uint32_t length = 1; length <= LONGEST; length++)
    CHECK(!is_free(w.actors[1].agent, w.manager, name, length));
  end(&w);
}

enum { RESIZERS = 3, NAMES_EACH = 100, ROUNDS = 50 };

struct resizer {
  struct world *world;
  pthread_barrier_t *start;
  int actor;
};

/* Holds names of its own, then none, over and over. */
static void *grow_and_shrink(void *data)
{
  const struct resizer *it = data;
  struct wlk_agent *agent = it->world->actors[it->actor].agent;
  struct wlk_request *locks[NAMES_EACH];
  struct wlk_events none = {.items = NULL, .capacity = 0};
  for (int round = 0; round < ROUNDS; round++) {
    (void)pthread_barrier_wait(it->start);
    for (uint16_t i = 0; i < NAMES_EACH; i++) {
      uint16_t name[] = {(uint16_t)it->actor, i};
      locks[i] = hold(agent, it->world->manager, name, 2);
    }
    for (size_t i = 0; i < NAMES_EACH; i++) CHECK(wlk_release_the_lock(locks[i], &none) == WLK_OK);
  }
  return NULL;
}

TEST(resized_by_all, "threads that make a table grow and shrink at the same time lose no name")
{
  pthread_t threads[RESIZERS];
  struct resizer resizers[RESIZERS];
  pthread_barrier_t start;
  struct world w;
  begin(&w);
  CHECK(pthread_barrier_init(&start, NULL, RESIZERS) == 0);
  for (int i = 0; i < RESIZERS; i++) {
    resizers[i] = (struct resizer){&w, &start, i};
    CHECK(pthread_create(&threads[i], NULL, grow_and_shrink, &resizers[i]) == 0);
  }
  for (int i = 0; i < RESIZERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(pthread_barrier_destroy(&start) == 0);
  end(&w);
}

/* Opens a bucket that others open and close, too, and has a lock there. */
static void *open_and_close(void *data)
{
  const struct resizer *it = data;
  struct wlk_agent *agent = it->world->actors[it->actor].agent;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  for (int round = 0; round < 40 * ROUNDS; round++) {
    uint16_t bucket = 'o', name = (uint16_t)it->actor;
    struct wlk_manager *manager, *again;
    CHECK(wlk_manager_open(&it->world->process, &bucket, 1, &manager) == WLK_OK);
    struct wlk_request *lock = hold(agent, manager, &name, 1);
    CHECK(wlk_manager_open(&it->world->process, &bucket, 1, &again) == WLK_OK && again == manager);
    CHECK(wlk_release_the_lock(lock, &none) == WLK_OK);
    wlk_manager_close(manager);
    wlk_manager_close(again);
  }
  return NULL;
}

TEST(opened_by_all, "2.2: threads that open and close the same bucket at the same time have one")
{
  pthread_t threads[RESIZERS];
  struct resizer resizers[RESIZERS];
  struct world w;
  begin(&w);
  for (int i = 0; i < RESIZERS; i++) {
    resizers[i] = (struct resizer){&w, NULL, i};
    CHECK(pthread_create(&threads[i], NULL, open_and_close, &resizers[i]) == 0);
  }
  for (int i = 0; i < RESIZERS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
  CHECK(w.process.managers.count == 1);
  end(&w);
}

/* Holds `count` names on each of three managers by the first agent, the first of each by the second.
 */
static void hold_on_three(
    struct world *w, struct wlk_manager *managers[3], struct wlk_request *first[3], uint16_t count)
{
  for (uint16_t i = 0; i < 3; i++) {
    CHECK(wlk_manager_open(&w->process, &i, 1, &managers[i]) == WLK_OK);
    for (uint16_t name = 1; name < count; name++)
      (void)hold(w->actors[0].agent, managers[i], &name, 1);
    first[i] = hold(w->actors[1].agent, managers[i], (uint16_t[]){0}, 1);
  }
}

TEST(several_tables, "a termination that makes several tables want to shrink shrinks all of them")
{
  struct world w;
  struct wlk_manager *managers[3];
  struct wlk_request *first[3];
  struct wlk_events none = {.items = NULL, .capacity = 0};
  begin(&w);
  hold_on_three(&w, managers, first, 1000);
  stop_actor(&w, 0);
  for (int i = 0; i < 3; i++) {
    CHECK(name_count(managers[i]) == 1);
    CHECK(chain_count(managers[i]) == LEAST_CHAINS);
    CHECK(wlk_release_the_lock(first[i], &none) == WLK_OK);
    wlk_manager_close(managers[i]);
  }
  end(&w);
}

TEST(table_without_memory, "a table that cannot grow for want of memory does so in a later turn")
{
  enum { SAME = WLK_TABLE_LEAST + 2 };
  uint16_t names[SAME] = {0};
  struct world w;
  begin(&w);
  const struct wlk_table *table = &w.manager->parts[0].resources;
  for (uint32_t unit = 0, found = 0; found < SAME; unit++) {
    uint16_t name = (uint16_t)unit;
    if (wlk_shard_of(wlk_hash(w.process.hash_key, &name, 1)) == 0) names[found++] = name;
  }
  for (int i = 0; i < WLK_TABLE_LEAST; i++) (void)hold(w.actors[0].agent, w.manager, &names[i], 1);
  (void)fail_allocation(1); /* those of the name and the request are there */
  (void)hold(w.actors[0].agent, w.manager, &names[WLK_TABLE_LEAST], 1);
  CHECK(fail_allocation(0) && table->capacity == WLK_TABLE_LEAST);
  (void)hold(w.actors[0].agent, w.manager, &names[WLK_TABLE_LEAST + 1], 1);
  CHECK(table->capacity > WLK_TABLE_LEAST);
  end(&w);
}

/* ---- one long name must not occupy memory for ever ---- */

enum { LONG = 512 * 1024 };
static uint16_t long_name[LONG];

TEST(
    long_known_name,
    "an agent that asked for a long name that is held already does not keep its memory")
{
  struct world w;
  begin(&w);
  (void)hold(w.actors[0].agent, w.manager, long_name, LONG);
  CHECK(!is_free(w.actors[1].agent, w.manager, long_name, LONG));
  const struct wlk_resource *spare = w.actors[1].agent->spare;
  CHECK(!spare || spare->capacity < LONG);
  end(&w);
}

TEST(short_in_long, "a short name does not occupy the memory of a long one that was asked for")
{
  uint16_t name = 'a';
  struct world w;
  begin(&w);
  (void)hold(w.actors[0].agent, w.manager, long_name, LONG);
  CHECK(!is_free(w.actors[1].agent, w.manager, long_name, LONG));
  struct wlk_request *lock = hold(w.actors[1].agent, w.manager, &name, 1);
  CHECK(lock->resource->capacity < LONG);
  end(&w);
}
