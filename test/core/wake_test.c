/* Wake functions that are under way while other threads use the core. What goes wrong here hangs or reads freed memory:
 * an alarm ends the one, a sanitizer or the poison of the harness finds the other. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* A one-time signal between threads. */
struct latch {
  pthread_mutex_t mutex;
  pthread_cond_t signal;
  bool open;
};

#define LATCH_INIT                                                                                 \
  {                                                                                                \
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                     \
  }

static void open_latch(struct latch *latch)
{
  pthread_mutex_lock(&latch->mutex);
  latch->open = true;
  pthread_cond_broadcast(&latch->signal);
  pthread_mutex_unlock(&latch->mutex);
}

static void await(struct latch *latch)
{
  pthread_mutex_lock(&latch->mutex);
  while (!latch->open) pthread_cond_wait(&latch->signal, &latch->mutex);
  pthread_mutex_unlock(&latch->mutex);
}

static struct latch waking = LATCH_INIT, may_return = LATCH_INIT;
static atomic_int other_wakes;
static atomic_bool returned;

static void slow_wake(void *data)
{
  (void)data;
  open_latch(&waking);
  await(&may_return);
  atomic_store(&returned, true);
}

static void other_wake(void *data)
{
  (void)data;
  atomic_fetch_add(&other_wakes, 1);
}

static void *release(void *lock)
{
  (void)release_lock(lock);
  return NULL;
}

/* Agents 0 (slow) and 1 (other) wait for a lock that a thread then releases; it is inside the slow wake function when this
 * returns, and has yet to wake the other. */
static pthread_t begin_waking(struct world *w, struct wlk_agent *agents[2])
{
  pthread_t thread;
  waking.open = may_return.open = false;
  atomic_store(&returned, false);
  atomic_store(&other_wakes, 0);
  CHECK(wlk_agent_create(&w->process, "slow-", &no_thread, slow_wake, NULL, &agents[0]) == WLK_OK);
  CHECK(
      wlk_agent_create(&w->process, "other-", &no_thread, other_wake, NULL, &agents[1]) == WLK_OK);
  struct outcome lock = ask(w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  uint16_t name = 'a';
  for (int i = 0; i < 2; i++) {
    struct wlk_request *request;
    struct wlk_events none = {.items = NULL, .capacity = 0};
    CHECK(
        wlk_request_a_lock(
            agents[i], w->manager, &name, 1, WLK_SHARED, WLK_WAIT, 1, NULL, &request, NULL,
            &none) == WLK_PENDING);
  }
  CHECK(pthread_create(&thread, NULL, release, lock.request) == 0);
  await(&waking);
  return thread;
}

TEST(others_go_on, "while a wake function runs, other threads use the core")
{
  struct world w;
  struct wlk_agent *agents[2];
  begin(&w);
  pthread_t thread = begin_waking(&w, agents);
  struct outcome lock = ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome same = ask(&w, 2, "a", WLK_SHARED, WLK_WAIT, 1);
  CHECK(lock.status == WLK_GRANTED && same.status == WLK_GRANTED);
  open_latch(&may_return);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(atomic_load(&other_wakes) == 1);
  for (int i = 0; i < 2; i++) wlk_agent_terminate(agents[i]);
  end(&w);
}

TEST(
    woken_twice,
    "an agent that is told of more while it is woken keeps no other one from being woken")
{
  struct world w;
  struct wlk_agent *agents[2];
  begin(&w);
  pthread_t thread = begin_waking(&w, agents);
  /* As its own thread does, in the other wake-up that comes before this one has returned. */
  struct wlk_event items[4];
  struct wlk_events events = {.items = items, .capacity = 4};
  wlk_agent_take_events(agents[0], true, &events);
  CHECK(events.count == 1);
  struct outcome lock = ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 1);
  uint16_t name = 'b';
  struct wlk_request *request;
  CHECK(
      wlk_request_a_lock(
          agents[0], w.manager, &name, 1, WLK_SHARED, WLK_WAIT, 2, NULL, &request, NULL, &events) ==
      WLK_PENDING);
  pthread_t again;
  waking.open = false;
  CHECK(pthread_create(&again, NULL, release, lock.request) == 0);
  await(&waking);
  open_latch(&may_return);
  CHECK(pthread_join(again, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  /* Else its termination would wait for that for ever. */
  if (!CHECK(atomic_load(&other_wakes) == 1)) exit(1);
  for (int i = 0; i < 2; i++) wlk_agent_terminate(agents[i]);
  end(&w);
}

static void *terminate(void *agent)
{
  wlk_agent_terminate(agent);
  CHECK(atomic_load(&returned));
  return NULL;
}

static size_t agents_of(struct world *w)
{
  wlk_mutex_lock(&w->process.mutex);
  size_t count = w->process.agent_count;
  wlk_mutex_unlock(&w->process.mutex);
  return count;
}

/* Terminates an agent while a wake function runs; nobody may touch it afterwards. */
static void terminate_while_waking(int dying)
{
  struct world w;
  struct wlk_agent *agents[2];
  pthread_t terminating;
  begin(&w);
  pthread_t thread = begin_waking(&w, agents);
  CHECK(pthread_create(&terminating, NULL, terminate, agents[dying]) == 0);
  /* The termination takes the agent off the process, then waits. */
  while (agents_of(&w) == 6) continue;
  open_latch(&may_return);
  CHECK(pthread_join(terminating, NULL) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  wlk_agent_terminate(agents[1 - dying]);
  end(&w);
}

TEST(terminate_before_wake, "a termination returns when the agent is not due to be woken any more")
{
  terminate_while_waking(1);
}

TEST(terminate_during_wake, "a termination returns when the agent's wake function has")
{
  terminate_while_waking(0);
}
