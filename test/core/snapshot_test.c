/* snapshot.c: section 4.5. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define EX WLK_EXCLUSIVE
#define SH WLK_SHARED

static struct wlk_snapshot *snapshot_of(struct wlk_manager *manager)
{
  struct wlk_snapshot *snapshot = NULL;
  CHECK(wlk_snapshot_the_lock_state(manager, &snapshot) == WLK_OK);
  return snapshot;
}

TEST(empty, "4.5: the snapshot of a manager without locks has the client ids of all agents only")
{
  struct world w;
  begin(&w);
  struct wlk_snapshot *s = snapshot_of(w.manager);
  CHECK(s->lock_count == 0 && s->name_count == 0 && s->client_count == 4);
  for (size_t i = 0; i < 4; i++)
    CHECK(strcmp(s->clients[i].id, wlk_agent_client_id(w.actors[i].agent)) == 0);
  wlk_snapshot_free(s);
  end(&w);
}

TEST(own_memory, "a snapshot stays as it was when locks, agents and names go")
{
  struct world w;
  char id[WLK_CLIENT_ID_SIZE];
  begin(&w);
  struct outcome lock = ask(&w, 0, "name", SH, WLK_WAIT, 0);
  memcpy(id, wlk_agent_client_id(w.actors[0].agent), sizeof id);
  struct wlk_snapshot *s = snapshot_of(w.manager);
  (void)release_lock(lock.request);
  stop_actor(&w, 0);
  static const uint16_t name[] = {'n', 'a', 'm', 'e'};
  CHECK(s->lock_count == 1 && s->names[0].length == 4);
  CHECK(memcmp(s->names[0].units, name, sizeof name) == 0);
  CHECK(strcmp(s->clients[s->locks[0].client].id, id) == 0);
  wlk_snapshot_free(s);
  end(&w);
}

/* ---- while the state changes ---- */

enum { ROUNDS = 200, NAMES = 40 };

static struct world world;
static atomic_bool changing;

/* Takes names, one by one, until all are held, then gives all back, and so on: the state grows
 * between what a snapshot measures and what it copies. */
static void *change(void *unused)
{
  (void)unused;
  struct wlk_request *locks[NAMES];
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < NAMES; i++) {
      char name[] = {'n', (char)('0' + i), 0};
      locks[i] = ask(&world, 0, name, EX, WLK_WAIT, 0).request;
    }
    for (int i = 0; i < NAMES; i++) (void)release_lock(locks[i]);
  }
  atomic_store(&changing, false);
  return NULL;
}

/* The names that are held are always the first or the last of all, without a gap. */
static bool is_one_moment(const struct wlk_snapshot *s)
{
  bool held[NAMES] = {false};
  if (s->lock_count != s->name_count || s->lock_count > NAMES) return false;
  for (size_t i = 0; i < s->lock_count; i++) held[s->names[s->locks[i].name].units[1] - '0'] = true;
  int edges = 0;
  for (int i = 1; i < NAMES; i++) edges += held[i] != held[i - 1];
  return edges <= 1;
}

TEST(one_moment, "4.5: a snapshot is of one moment, whatever others do meanwhile")
{
  pthread_t thread;
  begin(&world);
  atomic_store(&changing, true);
  CHECK(pthread_create(&thread, NULL, change, NULL) == 0);
  do {
    struct wlk_snapshot *s = snapshot_of(world.manager);
    CHECK(is_one_moment(s));
    wlk_snapshot_free(s);
  } while (atomic_load(&changing));
  CHECK(pthread_join(thread, NULL) == 0);
  end(&world);
}
