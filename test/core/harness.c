#include "harness.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static int passed, failed;
static bool test_failed;
static struct test *first, **last = &first;

void add_test(struct test *test)
{
  *last = test;
  last = &test->next;
}

void run_test(const struct test *test)
{
  test_failed = false;
  test->run();
  printf("%s - %s\n", test_failed ? "not ok" : "ok", test->title);
  (void)fflush(stdout); /* before the next test writes to the error output */
  if (test_failed)
    failed++;
  else
    passed++;
}

int run_tests(void)
{
  for (const struct test *test = first; test; test = test->next) run_test(test);
  printf("%d passed, %d failed\n", passed, failed);
  return failed > 0 || passed == 0;
}

bool check_that(bool condition, const char *text, const char *file, int line)
{
  if (condition) return true;
  test_failed = true;
  printf("# %s:%d: not true: %s\n", file, line, text);
  return false;
}

void for_each_step(const char *steps, void (*take_step)(char *step, void *data), void *data)
{
  char text[2000];
  (void)snprintf(text, sizeof text, "%s", steps);
  for (char *next = text, *step; (step = next) != NULL && *step;) {
    next = strstr(step, "; ");
    if (next) *next = '\0', next += 2;
    take_step(step, data);
  }
}

/* ---- the allocator ---- */

static atomic_long blocks, until_failure;
static atomic_bool has_failed;

/* The size precedes each block, so that a freed block can be overwritten, and reads of
 * it noticed. */
union header {
  size_t size;
  max_align_t alignment;
};

void *wlk_alloc(size_t size)
{
  if (atomic_load(&until_failure) > 0 && atomic_fetch_sub(&until_failure, 1) == 1) {
    atomic_store(&has_failed, true);
    return NULL;
  }
  union header *block = malloc(sizeof *block + size);
  if (!block) return NULL;
  block->size = size;
  memset(block + 1, 0xa5, size);
  atomic_fetch_add(&blocks, 1);
  return block + 1;
}

void wlk_free(void *memory)
{
  if (!memory) return;
  union header *block = (union header *)memory - 1;
  memset(memory, 0x5a, block->size);
  atomic_fetch_sub(&blocks, 1);
  free(block);
}

long live_blocks(void)
{
  return atomic_load(&blocks);
}

bool fail_allocation(long n)
{
  atomic_store(&until_failure, n);
  return atomic_exchange(&has_failed, false);
}

/* ---- the core ---- */

static void ignore_wake(void *data)
{
  (void)data;
}

void stop_actor(struct world *world, int actor)
{
  wlk_agent_terminate(world->agents[actor]);
  world->agents[actor] = NULL;
}

void begin(struct world *world)
{
  static const uint16_t bucket[] = {'b'};
  memset(world, 0, sizeof *world);
  world->process = (struct wlk_process)WLK_PROCESS_INIT;
  CHECK(wlk_manager_open(&world->process, bucket, 1, &world->manager) == WLK_OK);
  for (int i = 0; i < 4; i++)
    CHECK(
        wlk_agent_create(
            &world->process, "test-", &(struct wlk_thread){0}, ignore_wake, NULL,
            &world->agents[i]) == WLK_OK);
}

void end(struct world *world)
{
  for (int i = 0; i < 4; i++)
    if (world->agents[i]) stop_actor(world, i);
  CHECK(request_count(world->manager) == 0);
  CHECK(name_count(world->manager) == 0);
  CHECK(broken(&world->process) == NULL);
  wlk_manager_close(world->manager);
  CHECK(live_blocks() == 0);
}

static struct wlk_events room(struct outcome *outcome)
{
  return (struct wlk_events){
      .items = outcome->events,
      .capacity = sizeof outcome->events / sizeof *outcome->events,
  };
}

struct outcome ask_with(
    struct world *world, int actor, const char *name, enum wlk_mode mode, enum wlk_option option,
    uint32_t tag, const struct wlk_extra *extra, struct wlk_snapshot **cycle)
{
  struct outcome outcome = {0};
  struct wlk_events events = room(&outcome);
  uint16_t units[64];
  uint32_t length = 0;
  for (; name[length]; length++) units[length] = (unsigned char)name[length];
  outcome.status = wlk_request_a_lock(
      world->agents[actor], world->manager, units, length, mode, option, tag, extra,
      &outcome.request, cycle, &events);
  outcome.count = events.count;
  return outcome;
}

struct outcome ask(
    struct world *world, int actor, const char *name, enum wlk_mode mode, enum wlk_option option,
    uint32_t tag)
{
  return ask_with(world, actor, name, mode, option, tag, NULL, NULL);
}

struct outcome release_lock(struct wlk_request *lock)
{
  struct outcome outcome = {0};
  struct wlk_events events = room(&outcome);
  outcome.status = wlk_release_the_lock(lock, &events);
  outcome.count = events.count;
  return outcome;
}

struct outcome abort_request(struct wlk_request *request)
{
  struct outcome outcome = {0};
  struct wlk_events events = room(&outcome);
  outcome.status = wlk_abort_the_request(request, &events);
  outcome.count = events.count;
  return outcome;
}

size_t request_count(const struct wlk_manager *manager)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += manager->parts[i].requests;
  return count;
}

size_t name_count(const struct wlk_manager *manager)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += manager->parts[i].resources.count;
  return count;
}

size_t chain_count(const struct wlk_manager *manager)
{
  size_t count = 0;
  for (int i = 0; i < WLK_SHARDS; i++) count += manager->parts[i].resources.capacity;
  return count;
}

const char *broken(struct wlk_process *process)
{
#if defined(WLK_CHECKS)
  return wlk_check(process);
#else
  (void)process;
  return NULL;
#endif
}
