/* A small harness for the C tests: named tests, checks, an allocator that counts and can fail, and
 * short forms of the core's calls. Tests run in turn, on one thread unless they start others. */
#ifndef HARNESS_H
#define HARNESS_H

#include "../../src/core/agent.h"
#include "../../src/core/check.h"
#include "../../src/core/records.h"
#include "../../src/core/section.h"
#include "../../src/core/weblocks.h"

#include <stdio.h>

/* ---- tests ---- */

/* Defines a test; the title is a sentence about the core. */
#define TEST(function, title)                                                                      \
  static void function(void);                                                                      \
  static __attribute__((constructor)) void add_##function(void)                                    \
  {                                                                                                \
    static struct test test = {title, function, NULL};                                             \
    add_test(&test);                                                                               \
  }                                                                                                \
  static void function(void)

struct test {
  const char *title;
  void (*run)(void);
  struct test *next;
};

void add_test(struct test *test);
void run_test(const struct test *test);

/* Runs all tests of the program, in the order of its files, and finishes. */
int run_tests(void);

/* Notes a failure, and continues. */
#define CHECK(condition) check_that(condition, #condition, __FILE__, __LINE__)
bool check_that(bool condition, const char *text, const char *file, int line);

/* Calls `take_step` with a copy of each step, which it may modify; "; " separates the steps. */
void for_each_step(const char *steps, void (*take_step)(char *step, void *data), void *data);

/* ---- the allocator ---- */

/* Blocks that were allocated and not freed, by any thread. */
long live_blocks(void);

/* Makes the n-th allocation from now fail (n from 1); 0: none. Returns whether one failed since the
 * last call. */
bool fail_allocation(long n);

/* ---- the core ---- */

struct world {
  struct wlk_process process;
  struct wlk_manager *manager;
  struct wlk_agent *agents[4]; /* by actor */
};

/* Begins a process with a manager and agents; `end` checks that nothing is left. */
void begin(struct world *world);
void end(struct world *world);

void stop_actor(struct world *world, int actor);

struct outcome {
  enum wlk_status status;
  struct wlk_request *request;
  struct wlk_event events[16];
  size_t count;
};

struct outcome ask(
    struct world *world, int actor, const char *name, enum wlk_mode mode, enum wlk_option option,
    uint32_t tag);
/* The same, with the options in `extra`. */
struct outcome ask_with(
    struct world *world, int actor, const char *name, enum wlk_mode mode, enum wlk_option option,
    uint32_t tag, const struct wlk_extra *extra, struct wlk_snapshot **cycle);
struct outcome release_lock(struct wlk_request *lock);
struct outcome abort_request(struct wlk_request *request);

/* Counts over all shards of a manager. */
size_t request_count(const struct wlk_manager *manager);
size_t name_count(const struct wlk_manager *manager);

/* The number of chains of its hash tables, and the least possible number. */
size_t chain_count(const struct wlk_manager *manager);
enum { LEAST_CHAINS = WLK_SHARDS * WLK_TABLE_LEAST };

/* The result of wlk_check while no other thread uses the process: NULL, or what is broken. Without
 * WLK_CHECKS it is NULL. */
const char *broken(struct wlk_process *process);

#endif
