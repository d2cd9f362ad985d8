/* Marks of names whose locks were released as done. */
#include "harness.h"

#include <time.h>

#include <pthread.h>
#include <string.h>

static enum wlk_status look(struct wlk_request *lock)
{
  struct wlk_events events = {0};
  return wlk_prepare_mark(lock, &events);
}

static enum wlk_status release_and_mark(struct wlk_request *lock, uint64_t keep)
{
  struct wlk_events events = {0};
  return wlk_release_and_mark(lock, keep, &events);
}

static struct wlk_request *lock_name(struct world *w, int actor, const char *name)
{
  struct outcome lock = ask(w, actor, name, WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(lock.status == WLK_GRANTED);
  return lock.request;
}

/* Takes the lock of a name, and marks it if it is not marked. Returns whether it was. */
static bool once(struct world *w, int actor, const char *name, uint64_t keep)
{
  struct wlk_request *lock = lock_name(w, actor, name);
  enum wlk_status status = look(lock);
  CHECK(status == WLK_OK || status == WLK_MARKED);
  if (status == WLK_MARKED)
    CHECK(release_lock(lock).status == WLK_OK);
  else
    CHECK(release_and_mark(lock, keep) == WLK_OK);
  CHECK(broken(&w->process) == NULL);
  return status == WLK_MARKED;
}

/* Until what was marked for a millisecond is over. */
static void pass(void)
{
  for (uint64_t end = wlk_port_now(true) + 2; wlk_port_now(true) < end;) continue;
}

static size_t mark_count(const struct world *w)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += w->manager->parts[i].marks.count;
  return count;
}

/* Nanoseconds, by a clock that is finer than that of marks. */
static uint64_t fine_time(void)
{
  struct timespec now;
  (void)timespec_get(&now, TIME_UTC);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

TEST(whole, "a mark lasts at least as long as was asked for, whenever in a millisecond it is set")
{
  struct world w;
  begin(&w);
  for (int i = 0; i < 20; i++) {
    uint64_t set;
    do set = fine_time();
    while (once(&w, 0, "a", 1));
    /* Whenever it is not marked any more, it is marked anew. */
    while (once(&w, 0, "a", 1)) continue;
    CHECK(fine_time() - set >= 1000000);
    pass();
  }
  end(&w);
}

TEST(other_managers, "names of another manager are not marked")
{
  static const uint16_t bucket = 'c';
  struct world w;
  struct wlk_manager *other, *first;
  begin(&w);
  first = w.manager;
  CHECK(!once(&w, 0, "a", WLK_FOREVER));
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &other) == WLK_OK);
  w.manager = other;
  CHECK(!once(&w, 0, "a", WLK_FOREVER));
  CHECK(once(&w, 0, "a", WLK_FOREVER));
  wlk_manager_close(other);
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &w.manager) == WLK_OK);
  CHECK(!once(&w, 0, "a", WLK_FOREVER)); /* nobody had it open any more */
  wlk_manager_close(w.manager);
  w.manager = first;
  end(&w);
}

TEST(expiry, "a mark is over when its time is, and can be set again")
{
  struct world w;
  begin(&w);
  CHECK(!once(&w, 0, "a", 1));
  pass();
  CHECK(!once(&w, 1, "a", WLK_FOREVER));
  CHECK(once(&w, 0, "a", 1));
  CHECK(mark_count(&w) == 1);
  end(&w);
}

TEST(growth, "marks that are over, or never set, do not add up")
{
  struct world w;
  char name[16];
  begin(&w);
  size_t most = 0;
  for (int i = 0; i < 4000; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    CHECK(!once(&w, i % 4, name, 1));
    if (i % 200 == 199) pass();
    struct wlk_request *lock = lock_name(&w, 0, "not marked");
    CHECK(look(lock) == WLK_OK);
    CHECK(release_lock(lock).status == WLK_OK);
    if (mark_count(&w) > most) most = mark_count(&w);
  }
  CHECK(most <= 2 * 200 + 2 * WLK_SHARDS);
  for (int i = 0; i < 4000; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    struct wlk_request *lock = lock_name(&w, 0, name);
    CHECK(look(lock) == WLK_OK);
    CHECK(release_lock(lock).status == WLK_OK);
  }
  CHECK(mark_count(&w) <= 4 * WLK_SHARDS);
  end(&w);
}

TEST(kept, "marks that count are not dropped, nor is what a lock is about to set")
{
  struct world w;
  char name[16];
  begin(&w);
  struct wlk_request *lock = lock_name(&w, 0, "held");
  CHECK(look(lock) == WLK_OK);
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    CHECK(!once(&w, 1, name, WLK_FOREVER));
  }
  (void)fail_allocation(1);
  CHECK(release_and_mark(lock, WLK_FOREVER) == WLK_OK);
  CHECK(!fail_allocation(0));
  CHECK(once(&w, 2, "held", 1));
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    CHECK(once(&w, 1, name, WLK_FOREVER));
  }
  end(&w);
}

struct worker {
  struct world *world;
  int actor;
  int runs;
};

/* Asks for each name until it was marked by somebody. */
static void *run_names(void *data)
{
  struct worker *me = data;
  for (int i = 0; i < 500; i++) {
    struct wlk_request *lock;
    struct wlk_events events = {0};
    uint16_t name[] = {(uint16_t)i};
    struct wlk_agent *agent = me->world->actors[me->actor].agent;
    enum wlk_status status = wlk_request_a_lock(
        agent, me->world->manager, name, 1, WLK_EXCLUSIVE, i % 7 ? WLK_WAIT : WLK_STEAL, 1, NULL,
        &lock, NULL, &events);
    if (status == WLK_PENDING) status = wlk_wait_for_the_lock(lock, WLK_FOREVER, NULL, &events);
    if (status == WLK_GRANTED) status = wlk_prepare_mark(lock, &events);
    if (status == WLK_OK) {
      if (wlk_release_and_mark(lock, WLK_FOREVER, &events) == WLK_OK) me->runs++;
    } else if (status == WLK_MARKED) {
      (void)wlk_release_the_lock(lock, &events);
    }
  }
  return NULL;
}

TEST(threads, "of all threads one marks each name")
{
  static const struct wlk_thread ids[] = {{1, NULL, 0}, {2, NULL, 0}, {3, NULL, 0}, {4, NULL, 0}};
  struct world w;
  struct worker workers[4];
  pthread_t threads[4];
  int runs = 0;
  begin(&w);
  for (int i = 0; i < 4; i++) {
    wlk_wake_function *wake = w.actors[i].agent->wake;
    stop_actor(&w, i);
    CHECK(
        wlk_agent_create(&w.process, "t", &ids[i], wake, &w.actors[i], &w.actors[i].agent) ==
        WLK_OK);
  }
  for (int i = 0; i < 4; i++) {
    workers[i] = (struct worker){&w, i, 0};
    CHECK(pthread_create(&threads[i], NULL, run_names, &workers[i]) == 0);
  }
  for (int i = 0; i < 4; i++) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    runs += workers[i].runs;
  }
  CHECK(runs == 500 && mark_count(&w) == 500);
  end(&w);
}
