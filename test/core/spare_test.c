/* resource.c: one long name must not occupy memory for ever. */
#include "harness.h"

#define EX WLK_EXCLUSIVE

static struct wlk_request *hold(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length)
{
  struct wlk_request *lock = NULL;
  struct wlk_events none = {NULL, 0, 0};
  CHECK(
      wlk_request_a_lock(agent, manager, name, length, EX, WLK_WAIT, 1, &lock, &none) ==
      WLK_GRANTED);
  return lock;
}

static bool is_free(
    struct wlk_agent *agent, struct wlk_manager *manager, const uint16_t *name, uint32_t length)
{
  struct wlk_request *lock;
  struct wlk_events none = {NULL, 0, 0};
  if (wlk_request_a_lock(agent, manager, name, length, EX, WLK_IF_AVAILABLE, 1, &lock, &none) !=
      WLK_GRANTED)
    return false;
  CHECK(wlk_release_the_lock(lock, &none) == WLK_OK);
  return true;
}

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

int main(void)
{
  RUN(long_known_name);
  RUN(short_in_long);
  return finish_tests();
}
