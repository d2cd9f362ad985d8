/* That costs are what weblocks.h says: with so many requests that what is not linear does not end
 * within the processor's time that it gets, whatever else the machine does meanwhile. Compiled
 * without the check of every invariant after every turn.
 *
 *   cost_test [count]   of requests, at most and by default 100,000 */
#include "harness.h"

#include <stdlib.h>
#include <sys/resource.h>

enum { MOST = 100000, SECONDS = 60 };

static int many = MOST;

/* A declared request for `name`, made inside of `inside` if that is given. */
static struct wlk_request *declare(
    struct world *w, int actor, uint16_t name, struct wlk_request *inside, enum wlk_status expected)
{
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_extra extra = {
      .reject_deadlock = true, .inside = &inside, .inside_count = inside != NULL};
  struct wlk_request *request = NULL;
  struct wlk_snapshot *cycle = NULL;
  CHECK(
      wlk_request_a_lock(
          w->actors[actor].agent, w->manager, &name, 1, WLK_EXCLUSIVE, WLK_WAIT, 1, &extra,
          &request, &cycle, &none) == expected);
  return request;
}

/* Many declared requests inside one lock, that wait for a lock of another agent. */
static void declare_many(struct world *w, struct wlk_request **requests, struct wlk_request **outer)
{
  *outer = declare(w, 0, 'o', NULL, WLK_GRANTED);
  (void)declare(w, 1, 'x', NULL, WLK_GRANTED);
  for (int i = 0; i < many; i++) requests[i] = declare(w, 0, 'x', *outer, WLK_PENDING);
}

static struct wlk_request *requests[MOST];

TEST(ends, "many declared requests that are pending end one by one, from both ends")
{
  struct world w;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_request *outer;
  begin(&w);
  declare_many(&w, requests, &outer);
  for (int i = 0; i < many / 2; i++) {
    CHECK(wlk_abort_the_request(requests[i], &none) == WLK_OK);
    CHECK(wlk_abort_the_request(requests[many - 1 - i], &none) == WLK_OK);
  }
  CHECK(request_count(w.manager) == 2);
  end(&w);
}

TEST(terminated, "an agent is terminated with many declared requests that are pending")
{
  struct world w;
  struct wlk_request *outer;
  begin(&w);
  declare_many(&w, requests, &outer);
  stop_actor(&w, 0);
  CHECK(request_count(w.manager) == 1);
  end(&w);
}

TEST(granted, "many declared requests are granted one after the other")
{
  struct world w;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_request *outer;
  begin(&w);
  declare_many(&w, requests, &outer);
  stop_actor(&w, 1);
  for (int i = 0; i < many; i++) CHECK(wlk_release_the_lock(requests[i], &none) == WLK_OK);
  end(&w);
}

TEST(lock_ends, "a lock ends with many declared requests inside of it, and other locks beside it")
{
  struct world w;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_request *outer;
  begin(&w);
  declare_many(&w, requests, &outer);
  CHECK(wlk_release_the_lock(outer, &none) == WLK_OK);
  for (int i = 0; i < many; i++) {
    struct wlk_request *lock = declare(&w, 0, 'o', NULL, WLK_GRANTED);
    CHECK(wlk_release_the_lock(lock, &none) == WLK_OK);
  }
  end(&w);
}

/* Many requests that wait with a priority, of one agent. */
static void wait_many(struct world *w, int32_t priority)
{
  struct wlk_events none = {.items = NULL, .capacity = 0};
  struct wlk_extra extra = {.priority = priority};
  struct wlk_request *request;
  uint16_t name = 'x';
  for (int i = 0; i < many; i++)
    CHECK(
        wlk_request_a_lock(
            w->actors[1].agent, w->manager, &name, 1, WLK_EXCLUSIVE, WLK_WAIT, 1, &extra, &request,
            NULL, &none) == WLK_PENDING);
}

TEST(priorities, "many requests find their place among many that have less or more priority")
{
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "x", WLK_EXCLUSIVE, WLK_WAIT, 0);
  for (int32_t priority = -1; priority <= 1; priority++) wait_many(&w, priority);
  for (int32_t priority = 1; priority >= -1; priority--) wait_many(&w, priority);
  stop_actor(&w, 1);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

int main(int argc, char **argv)
{
  const struct rlimit limit = {SECONDS, SECONDS};
  if (argc > 1) many = atoi(argv[1]);
  if (many < 2 || many > MOST || setrlimit(RLIMIT_CPU, &limit) != 0) return 2;
  return run_tests();
}
