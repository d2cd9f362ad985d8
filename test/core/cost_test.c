/* Tests that costs are what weblocks.h says. It makes so many requests that anything not linear
 * exceeds its limit of processor time, which does not depend on what else the machine does. It is
 * compiled without the check of all invariants after each critical section.
 *
 *   cost_test [count]   the number of requests; 100,000 by default and at most */
#include "harness.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { MOST = 100000, SECONDS = 60 };

static int many = MOST;

/* Declares a request for a name, within the lock `inside` if that is given. */
static struct wlk_request *declare(
    struct world *w, int actor, const char *name, struct wlk_request *inside,
    enum wlk_status expected)
{
  struct wlk_extra extra = {
      .reject_deadlock = true, .inside = &inside, .inside_count = inside != NULL};
  struct wlk_snapshot *cycle;
  struct outcome outcome = ask_with(w, actor, name, WLK_EXCLUSIVE, WLK_WAIT, 1, &extra, &cycle);
  CHECK(outcome.status == expected);
  return outcome.request;
}

/* Many pending declared requests within a lock of actor 0, which wait for a lock of actor 1. */
static struct wlk_request *requests[MOST], *outer;

static void begin_with_many(struct world *w)
{
  begin(w);
  outer = declare(w, 0, "o", NULL, WLK_GRANTED);
  (void)declare(w, 1, "x", NULL, WLK_GRANTED);
  for (int i = 0; i < many; i++) requests[i] = declare(w, 0, "x", outer, WLK_PENDING);
}

TEST(ends, "many declared requests that are pending end one by one, from both ends")
{
  struct world w;
  begin_with_many(&w);
  for (int i = 0; i < many / 2; i++) {
    CHECK(abort_request(requests[i]).status == WLK_OK);
    CHECK(abort_request(requests[many - 1 - i]).status == WLK_OK);
  }
  CHECK(request_count(w.manager) == 2);
  end(&w);
}

TEST(terminated, "an agent is terminated with many declared requests that are pending")
{
  struct world w;
  begin_with_many(&w);
  stop_actor(&w, 0);
  CHECK(request_count(w.manager) == 1);
  end(&w);
}

TEST(granted, "many declared requests are granted one after the other")
{
  struct world w;
  begin_with_many(&w);
  stop_actor(&w, 1);
  for (int i = 0; i < many; i++) CHECK(release_lock(requests[i]).status == WLK_OK);
  end(&w);
}

TEST(lock_ends, "a lock ends with many declared requests inside of it, and other locks beside it")
{
  struct world w;
  begin_with_many(&w);
  CHECK(release_lock(outer).status == WLK_OK);
  for (int i = 0; i < many; i++)
    CHECK(release_lock(declare(&w, 0, "o", NULL, WLK_GRANTED)).status == WLK_OK);
  end(&w);
}

TEST(priorities, "many requests find their place among many that have less or more priority")
{
  static const int32_t priorities[] = {-1, 0, 1, 1, 0, -1};
  struct world w;
  begin(&w);
  (void)declare(&w, 0, "x", NULL, WLK_GRANTED);
  for (size_t i = 0; i < sizeof priorities / sizeof *priorities * (size_t)many; i++) {
    struct wlk_extra extra = {.priority = priorities[i / (size_t)many]};
    (void)ask_with(&w, 1, "x", WLK_EXCLUSIVE, WLK_WAIT, 1, &extra, NULL);
  }
  stop_actor(&w, 1);
  end(&w);
}

TEST(few_allocations, "a burst of requests needs few allocations, and the next one needs none")
{
  enum { BURST = 1000 };
  struct world w;
  begin(&w);
  long blocks = live_blocks();
  for (int round = 0; round < 2; round++) {
    (void)fail_allocation(round);
    for (int i = 0; i < BURST; i++) requests[i] = ask(&w, 0, "x", WLK_SHARED, WLK_WAIT, 1).request;
    CHECK(!fail_allocation(0) && live_blocks() - blocks < BURST / 16);
    for (int i = 0; i < BURST; i++) CHECK(release_lock(requests[i]).status == WLK_OK);
  }
  end(&w);
}

TEST(short_marks, "marks that are over make room when others are set")
{
  struct world w;
  size_t left = 0;
  begin(&w);
  for (int i = 0; i < many; i++) {
    char name[16];
    struct wlk_events none = {.capacity = 0};
    (void)snprintf(name, sizeof name, "%d", i);
    struct wlk_request *lock = ask(&w, 0, name, WLK_EXCLUSIVE, WLK_WAIT, 1).request;
    CHECK(wlk_prepare_mark(lock, &none) == WLK_OK);
    CHECK(wlk_release_and_mark(lock, 1, &none) == WLK_OK);
  }
  for (int i = 0; i < WLK_SHARDS; i++) left += w.manager->parts[i].marks.count;
  CHECK(left < (size_t)many / 2);
  end(&w);
}

int main(int argc, char **argv)
{
  const struct rlimit limit = {SECONDS, SECONDS};
  if (argc > 1) many = atoi(argv[1]);
  if (many < 2 || many > MOST || setrlimit(RLIMIT_CPU, &limit) != 0) return 2;
  return run_tests();
}
