/* Marks of names whose locks were released as done: how long they last, and how many there are.
 * fuzz_operations.c and stress_test.c draw what they answer. */
#include "harness.h"

#include <string.h>

/* Takes the lock of a name, and marks it if it is not marked. Returns whether it was. */
static bool once(struct world *w, int actor, const char *name, uint64_t keep)
{
  struct wlk_events events = {0};
  struct wlk_request *lock = ask(w, actor, name, WLK_EXCLUSIVE, WLK_WAIT, 1).request;
  enum wlk_status status = wlk_prepare_mark(lock, &events);
  CHECK(status == WLK_OK || status == WLK_MARKED);
  if (status == WLK_MARKED)
    CHECK(release_lock(lock).status == WLK_OK);
  else
    CHECK(wlk_release_and_mark(lock, keep, &events) == WLK_OK);
  return status == WLK_MARKED;
}

/* How many of a thousand names were marked before, which are now. */
static int mark_thousand(struct world *w, const char *prefix, uint64_t keep)
{
  char name[16];
  int marked = 0;
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(name, sizeof name, "%s%d", prefix, i);
    marked += once(w, i % 3, name, keep);
  }
  return marked;
}

static size_t mark_count(const struct world *w)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += w->manager->parts[i].marks.count;
  return count;
}

TEST(lasting, "a mark lasts as long as was asked for, whenever in a millisecond it was set")
{
  struct world w;
  begin(&w);
  stopped_clock = 1000;
  CHECK(!once(&w, 0, "a", 5) && !once(&w, 0, "for ever", WLK_FOREVER));
  stopped_clock += 5;
  CHECK(once(&w, 1, "a", 5));
  stopped_clock += 1;
  CHECK(!once(&w, 2, "a", 5) && once(&w, 0, "a", 5));
  CHECK(once(&w, 0, "for ever", 5) && mark_count(&w) == 2);
  stopped_clock = 0;
  end(&w);
}

TEST(manager_closed, "a name is not marked any more when its bucket was closed by all")
{
  static const uint16_t bucket = 'b';
  struct world w;
  begin(&w);
  CHECK(!once(&w, 0, "a", WLK_FOREVER) && once(&w, 0, "a", WLK_FOREVER));
  wlk_manager_close(w.manager);
  CHECK(wlk_manager_open(&w.process, &bucket, 1, &w.manager) == WLK_OK);
  CHECK(!once(&w, 0, "a", WLK_FOREVER));
  end(&w);
}

#if !defined(WLK_SMALL) /* where more is allocated in between */
TEST(table_without_memory, "marks are found although their table has no memory to grow")
{
  struct world w;
  struct wlk_events events = {0};
  char name[16];
  begin(&w);
  for (int i = 0; i < 1000; i++) {
    (void)snprintf(name, sizeof name, "%d", i);
    struct wlk_request *lock = ask(&w, 0, name, WLK_EXCLUSIVE, WLK_WAIT, 1).request;
    (void)fail_allocation(2); /* the first is the mark */
    CHECK(wlk_prepare_mark(lock, &events) == WLK_OK);
    (void)fail_allocation(0);
    CHECK(wlk_release_and_mark(lock, WLK_FOREVER, &events) == WLK_OK);
  }
  CHECK(mark_thousand(&w, "", 1) == 1000);
  end(&w);
}
#endif

TEST(growth, "marks are dropped when they are over, except one that a lock is about to set")
{
  struct world w;
  struct wlk_events events = {0};
  begin(&w);
  stopped_clock = 1000;
  struct wlk_request *lock = ask(&w, 0, "held", WLK_EXCLUSIVE, WLK_WAIT, 1).request;
  CHECK(wlk_prepare_mark(lock, &events) == WLK_OK);
  CHECK(mark_thousand(&w, "long", 1000) == 0);
  for (int i = 0; i < 20; i++) {
    CHECK(mark_thousand(&w, (char[]){(char)('a' + i), 0}, 1) == 0);
    stopped_clock += 2;
  }
  CHECK(mark_count(&w) <= 4000);
  CHECK(mark_thousand(&w, "long", 1000) == 1000);
  (void)fail_allocation(1);
  CHECK(wlk_release_and_mark(lock, 1000, &events) == WLK_OK && !fail_allocation(0));
  CHECK(once(&w, 1, "held", 1));
  stopped_clock += 2000;
  for (int i = 0; i < 4000; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%d", i);
    lock = ask(&w, 0, name, WLK_EXCLUSIVE, WLK_WAIT, 1).request;
    CHECK(wlk_prepare_mark(lock, &events) == WLK_OK && release_lock(lock).status == WLK_OK);
  }
  CHECK(mark_count(&w) <= 4 * WLK_SHARDS);
  stopped_clock = 0;
  end(&w);
}
