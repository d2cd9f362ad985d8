/* Wake functions that run while other threads use the core. A mistake hangs, which an alarm ends, or
 * reads freed memory, which a sanitizer or the poison of the harness finds. */
#include "harness.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

enum { SLOW, OTHER };

static sem_t waking, may_return;
static atomic_int other_wakes;
static atomic_bool returned;

static void slow_wake(void *data)
{
  (void)data;
  (void)sem_post(&waking);
  while (sem_wait(&may_return) != 0) continue;
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

static void wait_in(struct world *w, struct wlk_agent *agent, uint16_t name)
{
  struct wlk_request *request;
  struct wlk_events none = {.capacity = 0};
  CHECK(
      wlk_request_a_lock(
          agent, w->manager, &name, 1, WLK_SHARED, WLK_WAIT, 1, NULL, &request, NULL, &none) ==
      WLK_PENDING);
}

/* Starts a thread that releases what two agents wait for. When this returns, that thread is inside
 * the slow wake function, and has yet to wake the other agent. */
static pthread_t begin_waking(struct world *w, struct wlk_agent *agents[2])
{
  pthread_t thread;
  begin(w);
  (void)sem_init(&waking, 0, 0);
  (void)sem_init(&may_return, 0, 0);
  atomic_store(&returned, false);
  atomic_store(&other_wakes, 0);
  CHECK(wlk_agent_create(&w->process, "s-", &no_thread, slow_wake, NULL, &agents[SLOW]) == WLK_OK);
  CHECK(
      wlk_agent_create(&w->process, "o-", &no_thread, other_wake, NULL, &agents[OTHER]) == WLK_OK);
  struct outcome lock = ask(w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  for (int i = SLOW; i <= OTHER; i++) wait_in(w, agents[i], 'a');
  CHECK(pthread_create(&thread, NULL, release, lock.request) == 0);
  while (sem_wait(&waking) != 0) continue;
  return thread;
}

TEST(others_go_on, "while a wake function runs, other threads use the core")
{
  struct world w;
  struct wlk_agent *agents[2];
  pthread_t thread = begin_waking(&w, agents);
  CHECK(ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 1).status == WLK_GRANTED);
  CHECK(ask(&w, 2, "a", WLK_SHARED, WLK_WAIT, 1).status == WLK_GRANTED);
  (void)sem_post(&may_return);
  CHECK(pthread_join(thread, NULL) == 0 && atomic_load(&other_wakes) == 1);
  for (int i = SLOW; i <= OTHER; i++) wlk_agent_terminate(agents[i]);
  end(&w);
}

TEST(woken_twice, "an agent that is woken again while it is woken keeps no other from being woken")
{
  struct world w;
  struct wlk_agent *agents[2];
  struct wlk_event items[4];
  struct wlk_events events = {.items = items, .capacity = 4};
  pthread_t thread = begin_waking(&w, agents), again;
  /* The agent's own thread may take events before the wake function has returned. */
  wlk_agent_take_events(agents[SLOW], true, &events);
  CHECK(events.count == 1);
  struct outcome lock = ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 1);
  wait_in(&w, agents[SLOW], 'b');
  CHECK(pthread_create(&again, NULL, release, lock.request) == 0);
  while (sem_wait(&waking) != 0) continue;
  for (int i = 0; i < 2; i++) (void)sem_post(&may_return);
  CHECK(pthread_join(again, NULL) == 0 && pthread_join(thread, NULL) == 0);
  CHECK(atomic_load(&other_wakes) == 1);
  for (int i = SLOW; i <= OTHER; i++) wlk_agent_terminate(agents[i]);
  end(&w);
}

static void *terminate(void *agent)
{
  wlk_agent_terminate(agent);
  CHECK(atomic_load(&returned));
  return NULL;
}

static size_t count_agents(struct world *w)
{
  wlk_mutex_lock(&w->process.mutex);
  size_t count = w->process.agent_count;
  wlk_mutex_unlock(&w->process.mutex);
  return count;
}

TEST(terminated, "a termination returns when nobody wakes the agent, or is about to")
{
  for (int dying = SLOW; dying <= OTHER; dying++) {
    struct world w;
    struct wlk_agent *agents[2];
    pthread_t terminating, thread = begin_waking(&w, agents);
    CHECK(pthread_create(&terminating, NULL, terminate, agents[dying]) == 0);
    /* The termination takes the agent off the process, then waits. */
    while (count_agents(&w) == 6) continue;
    (void)sem_post(&may_return);
    CHECK(pthread_join(terminating, NULL) == 0 && pthread_join(thread, NULL) == 0);
    wlk_agent_terminate(agents[SLOW + OTHER - dying]);
    end(&w);
  }
}
