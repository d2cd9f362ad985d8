/* A small harness for the C tests: named tests, checks, a failing and counting allocator, and helpers
 * that make the core's calls short. Tests run one after the other, on one thread unless they start
 * their own. */
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

/* Prints the closing line. Returns the exit code of the program. */
int finish_tests(void);

/* Runs all tests of the program, in the order of its files, and finishes. */
int run_tests(void);

/* Notes a failure, and goes on. */
#define CHECK(condition) check_that(condition, #condition, __FILE__, __LINE__)
bool check_that(bool condition, const char *text, const char *file, int line);

/* Hands over each of the steps, which "; " separates: a copy, that may be cut. */
void for_each_step(const char *steps, void (*take_step)(char *step, void *data), void *data);

/* ---- the allocator ---- */

/* Blocks that were allocated and not freed. Any thread. */
long live_blocks(void);

/* Makes the n-th allocation from now fail, n from 1; 0: none. Returns whether one failed since the last call. */
bool fail_allocation(long n);

/* ---- the core ---- */

struct world {
  struct wlk_process process;
  struct wlk_manager *manager;
  struct wlk_agent *agents[4]; /* by actor */
};

/* A process of its own, with a manager and agents; to be ended, which checks that nothing is left. */
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
/* The same, with what `extra` says. */
struct outcome ask_with(
    struct world *world, int actor, const char *name, enum wlk_mode mode, enum wlk_option option,
    uint32_t tag, const struct wlk_extra *extra, struct wlk_snapshot **cycle);
struct outcome release_lock(struct wlk_request *lock);
struct outcome abort_request(struct wlk_request *request);

/* Of all shards of a manager. */
size_t request_count(const struct wlk_manager *manager);
size_t name_count(const struct wlk_manager *manager);

/* The chains of its tables, and how many they are at least. */
size_t chain_count(const struct wlk_manager *manager);
enum { LEAST_CHAINS = WLK_SHARDS * WLK_TABLE_LEAST };

/* What wlk_check says, where no other thread uses the process; NULL if all is well, or without
 * WLK_CHECKS. */
const char *broken(struct wlk_process *process);

#endif
