/* Threads of one process at one bucket: what is put off because another one is inside. */
#include "../core/harness.h"

#include "../../src/host/host.h"
#include "../../src/host/segment/segment.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { THREADS = 4, ROUNDS = 20000, PATIENCE_MS = 10000 };

static char directory[] = "/dev/shm/web-locks-threads-XXXXXX";
static const uint16_t name[] = {'n'};
static void (*act)(struct wlh_agent *agent, struct wlk_events *events, int round);
static _Atomic int wrong;

static void ignore(void *data)
{
  (void)data;
}

/* Asks, and waits for the answer. NULL unless it was granted. */
static struct wlh_request *acquire(
    struct wlh_agent *agent, enum wlk_option option, struct wlk_events *events)
{
  struct wlh_request *request = NULL;
  enum wlh_status status =
      wlh_request_a_lock(agent, name, 1, WLK_EXCLUSIVE, option, 1, NULL, &request, events);
  if (status == WLH_PENDING) status = wlh_wait_for_the_lock(request, PATIENCE_MS, events);
  if (status == WLH_PENDING) wlh_end_the_request(request);
  if (status != WLH_GRANTED && status != WLH_STOLEN) wrong++;
  return status == WLH_GRANTED ? request : NULL;
}

static void give_back(struct wlh_request *lock, struct wlk_events *events)
{
  enum wlh_status status = wlh_release_the_lock(lock, events);
  if (status == WLH_PENDING) status = wlh_wait_for_the_lock(lock, PATIENCE_MS, events);
  if (status != WLH_OK && status != WLH_STOLEN) wrong++;
}

static void *run(void *data)
{
  struct wlh_bucket *bucket;
  struct wlh_agent *agent;
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  struct wlk_thread thread = {(uint32_t)(uintptr_t)data, NULL, 0};
  if (wlh_bucket_open(directory, name, 1, "1", &bucket) != WLH_OK ||
      wlh_agent_create(bucket, &thread, ignore, NULL, &agent) != WLH_OK) {
    wrong++;
    return NULL;
  }
  for (int i = 0; i < ROUNDS && wrong == 0; i++) act(agent, &events, i);
  wlh_agent_terminate(agent);
  wlh_bucket_close(bucket);
  return NULL;
}

static void on_all_threads(void (*action)(struct wlh_agent *, struct wlk_events *, int))
{
  pthread_t threads[THREADS];
  act = action;
  wrong = 0;
  for (uintptr_t i = 0; i < THREADS; i++) {
    CHECK(pthread_create(&threads[i], NULL, run, (void *)(i + 1)) == 0);
  }
  for (int i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
  CHECK(wrong == 0);
}

static void steal_and_release(struct wlh_agent *agent, struct wlk_events *events, int round)
{
  (void)round;
  struct wlh_request *lock = acquire(agent, WLK_STEAL, events);
  if (lock) give_back(lock, events);
}

TEST(theft_meets_release, "a release that meets a theft says that the lock was stolen")
{
  on_all_threads(steal_and_release);
}

static void wait_and_end(struct wlh_agent *agent, struct wlk_events *events, int round)
{
  (void)round;
  struct wlh_request *lock = acquire(agent, WLK_WAIT, events);
  if (lock) wlh_end_the_request(lock);
}

TEST(ends_at_once, "requests that threads end at the same time all end")
{
  on_all_threads(wait_and_end);
}

static void give_up(struct wlh_agent *agent, struct wlk_events *events, int round)
{
  struct wlh_request *request = NULL;
  enum wlh_status status =
      wlh_request_a_lock(agent, name, 1, WLK_EXCLUSIVE, WLK_WAIT, 1, NULL, &request, events);
  if (status == WLH_PENDING && round % 2) status = wlh_abort_the_request(request, events);
  if (status == WLH_GRANTED && round % 3)
    give_back(request, events);
  else if (status == WLH_GRANTED || status == WLH_PENDING)
    wlh_end_the_request(request);
  else if (status != WLH_OK)
    wrong++;
}

TEST(aborts_at_once, "requests that threads give up at the same time all end")
{
  on_all_threads(give_up);
  on_all_threads(wait_and_end);
}

/* A name of the agent's own. */
static void wait_for_oneself(struct wlh_agent *agent, struct wlk_events *events, int round)
{
  uint16_t own[] = {'o', (uint16_t)strtoul(strchr(wlh_agent_client_id(agent), '-') + 1, NULL, 10)};
  struct wlh_request *held = NULL;
  struct wlh_request *again = NULL;
  enum wlh_status status =
      wlh_request_a_lock(agent, own, 2, WLK_EXCLUSIVE, WLK_WAIT, 1, NULL, &held, events);
  if (status == WLH_PENDING) status = wlh_wait_for_the_lock(held, PATIENCE_MS, events);
  if (status != WLH_GRANTED) wrong++;
  status = wlh_request_a_lock(agent, own, 2, WLK_EXCLUSIVE, WLK_WAIT, 2, NULL, &again, events);
  /* Every other time its question is taken back at once, or answered meanwhile. */
  if (status == WLH_PENDING)
    status = wlh_wait_for_the_lock(again, round % 2 ? 0 : PATIENCE_MS, events);
  if (status == WLH_PENDING && round % 2)
    wlh_end_the_request(again);
  else if (status != WLH_DEADLOCK)
    wrong++;
  give_back(held, events);
}

TEST(itself, "threads that would wait for themselves are refused at the same time")
{
  on_all_threads(wait_for_oneself);
}

static void *open_and_close(void *data)
{
  struct wlk_thread thread = {(uint32_t)(uintptr_t)data, NULL, 0};
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  for (int i = 0; i < ROUNDS / 100 && wrong == 0; i++) {
    struct wlh_bucket *one, *again;
    struct wlh_agent *agent;
    wrong += wlh_bucket_open(directory, name, 1, "1", &one) != WLH_OK;
    wrong += wlh_bucket_open(directory, name, 1, "1", &again) != WLH_OK || again != one;
    wrong += wlh_agent_create(one, &thread, ignore, NULL, &agent) != WLH_OK;
    wlh_bucket_close(again);
    struct wlh_request *lock = acquire(agent, WLK_WAIT, &events);
    if (lock && i % 3 != 0) give_back(lock, &events);
    wlh_agent_terminate(agent);
    wlh_bucket_close(one);
  }
  return NULL;
}

TEST(opened_by_all, "threads that open and close the same bucket at the same time have one")
{
  pthread_t threads[THREADS];
  wrong = 0;
  for (uintptr_t i = 0; i < THREADS; i++)
    CHECK(pthread_create(&threads[i], NULL, open_and_close, (void *)(i + 1)) == 0);
  for (int i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
  CHECK(wrong == 0);
}

/* ---- texts ---- */

static void *memory_of(size_t size)
{
  void *memory = malloc(size);
  if (!memory) exit(1);
  memset(memory, 'x', size);
  return memory;
}

static uint32_t least(uint32_t a, uint32_t b)
{
  return a < b ? a : b;
}

/* All texts have this length, in memory that ends with them. */
static void use_texts(uint32_t length)
{
  struct wlh_bucket *bucket;
  struct wlh_agent *agent;
  struct wlh_snapshot *s;
  struct wlh_request *lock = NULL;
  struct wlk_event items[16];
  struct wlk_events events = {.items = items, .capacity = 16};
  uint16_t *text = memory_of(length * sizeof *text);
  char *version = memory_of(length + 1);
  struct wlk_thread thread = {1, text, length};
  struct wlk_extra extra = {.label = text, .label_length = length};
  version[length] = '\0';
  CHECK(wlh_bucket_open(directory, text, length, version, &bucket) == WLH_OK);
  CHECK(wlh_agent_create(bucket, &thread, ignore, NULL, &agent) == WLH_OK);
  free(version);
  enum wlh_status status =
      wlh_request_a_lock(agent, text, length, WLK_EXCLUSIVE, WLK_WAIT, 1, &extra, &lock, &events);
  if (status == WLH_PENDING) status = wlh_wait_for_the_lock(lock, PATIENCE_MS, &events);
  CHECK(status == (length > WLH_NAME_MOST ? WLH_FULL : WLH_GRANTED));
  if (status == WLH_GRANTED && CHECK(wlh_find_holders(agent, text, length, &s) == WLH_OK)) {
    CHECK(s->base.lock_count == 1 && s->base.names[0].length == length);
    CHECK(s->base.clients[0].thread.length == least(length, WLH_THREAD_NAME_UNITS));
    CHECK(s->base.names[s->base.locks[0].label].length == least(length, WLH_LABEL_MOST));
    wlh_snapshot_free(s);
  }
  free(text);
  wlh_agent_terminate(agent);
  wlh_bucket_close(bucket);
}

TEST(texts, "texts are whole up to their limits, and cut or refused beyond, however long they are")
{
  static const uint32_t limits[] = {
      15, WLH_NAME_INLINE, WLH_TEXT_UNITS, WLH_THREAD_NAME_UNITS, WLH_LABEL_MOST, WLH_NAME_MOST};
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    use_texts(limits[i] - 1);
    use_texts(limits[i]);
    use_texts(limits[i] + 1);
  }
  use_texts(100 * WLH_NAME_MOST);
}

int main(void)
{
  if (!mkdtemp(directory)) return 2;
  int status = run_tests();
  char command[128];
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  return system(command) == 0 ? status : 1;
}
