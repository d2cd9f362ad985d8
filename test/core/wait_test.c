/* Threads that block for a lock. stress_test.c draws those that are granted or robbed. */
#include "harness.h"

static const struct wlk_thread thread_one = {1, NULL, 0};

/* The agents of the actors 1 and 2 are of one thread. */
static void begin_with_thread(struct world *w)
{
  begin(w);
  for (int i = 1; i <= 2; i++) {
    stop_actor(w, i);
    start_actor(w, i, "t-", &thread_one);
  }
}

TEST(time_over, "when the time is over, the request waits on, and its agent keeps its events")
{
  struct world w;
  struct wlk_event room[4];
  struct wlk_events events = {.items = room, .capacity = 4};
  begin_with_thread(&w);
  struct outcome held = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 1);
  struct outcome waiting = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2);
  struct outcome reader = ask(&w, 2, "a", WLK_SHARED, WLK_WAIT, 3);
  struct outcome other = ask(&w, 0, "b", WLK_EXCLUSIVE, WLK_WAIT, 4);
  (void)ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 5);
  CHECK(release_lock(other.request).status == WLK_OK);
  uint64_t start = wlk_port_now(true);
  CHECK(wlk_wait_for_the_lock(waiting.request, 5, NULL, &events) == WLK_PENDING);
  CHECK(wlk_port_now(true) - start >= 5 && events.count == 0);
  struct outcome news = take(&w, 1);
  CHECK(news.count == 1 && is_event(&news, 0, 5, WLK_NEWS_GRANTED));
  CHECK(reader.status == WLK_PENDING && take(&w, 2).count == 0);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(wlk_wait_for_the_lock(waiting.request, 0, NULL, &events) == WLK_GRANTED);
  CHECK(take(&w, 1).count == 0);
  end(&w);
}

TEST(robbed, "a request that was granted and stolen before its thread blocks was stolen")
{
  struct world w;
  struct wlk_events events = {.capacity = 0};
  begin_with_thread(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome waiting = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_STEAL, 3).status == WLK_GRANTED);
  CHECK(wlk_wait_for_the_lock(waiting.request, WLK_FOREVER, NULL, &events) == WLK_STOLEN);
  CHECK(events.thief_number == w.agents[0]->number);
  end(&w);
}

/* Requests for one name in their order. Each says by two letters of which thread it is ('o': of the
 * one that blocks) and how it asks: 'x' exclusive, 'X' exclusive with priority, 'p' exclusive but
 * only to pass, 's' shared, or shared with so many units of three. The thread blocks for the last
 * one of its own. */
struct queue {
  const char *requests;
  int obstacle; /* what it waits for in vain; -1: it may block */
};

static struct outcome ask_as_said(struct world *w, char thread, char how, int number)
{
  enum wlk_mode mode = how == 'x' || how == 'X' || how == 'p' ? WLK_EXCLUSIVE : WLK_SHARED;
  struct wlk_extra extra = {.priority = how == 'X'};
  if (how >= '1' && how <= '3') extra.limit = 3, extra.weight = (uint32_t)how - '0';
  enum wlk_option option = how == 'p' ? WLK_PASS : WLK_WAIT;
  return ask_with(w, thread == 'o' ? 1 + number % 2 : 0, "a", mode, option, 1, &extra, NULL);
}

static void block_in(const struct queue *queue, bool has_memory)
{
  struct world w;
  struct outcome all[8];
  struct wlk_snapshot *cycle = NULL;
  struct wlk_events events = {.capacity = 0};
  int count = 0, last = 0;
  begin_with_thread(&w);
  for (const char *at = queue->requests; *at; at += at[2] == ' ' ? 3 : 2, count++) {
    all[count] = ask_as_said(&w, at[0], at[1], count);
    if (at[0] == 'o') last = count;
  }
  enum wlk_status expected = has_memory ? WLK_DEADLOCK : WLK_NO_MEMORY;
  (void)fail_allocation(has_memory ? 0 : 1);
  enum wlk_status status = wlk_wait_for_the_lock(all[last].request, 0, &cycle, &events);
  (void)fail_allocation(0);
  if (!CHECK(status == (queue->obstacle < 0 ? WLK_PENDING : expected)))
    printf("# the requests: %s\n", queue->requests);
  CHECK(request_count(w.manager) == (size_t)count - (status != WLK_PENDING));
  CHECK((cycle != NULL) == (status == WLK_DEADLOCK));
  if (cycle) {
    const struct wlk_lock_info *own = &cycle->locks[0], *other = &cycle->locks[1];
    const struct wlk_request *obstacle = all[queue->obstacle].request;
    CHECK(cycle->lock_count == 2 && cycle->name_count == 1 && own->held == 0);
    CHECK(other->held == (obstacle->state == WLK_STATE_HELD) && other->mode == obstacle->mode);
    CHECK(cycle->clients[other->client].thread_id == 1 && other->name == own->name);
    wlk_snapshot_free(cycle);
  }
  end(&w);
}

TEST(wait_for_itself, "a thread blocks for no lock that waits for the thread itself")
{
  static const struct queue queues[] = {
      {"ox os", 0},           /* its own lock excludes it */
      {"os ox", 0},           /* the same */
      {"os tx os", 0},        /* an exclusive request of another thread waits for its lock */
      {"os ts tx ts os", 0},  /* the same, with others between */
      {"tx ox os", 1},        /* its own request would not be ended */
      {"tx os ox", 1},        /* the same */
      {"tx os tx os", 1},     /* its request would be granted, and the other's not */
      {"tx ox tx ox ox", 1},  /* the answer names the one furthest ahead */
      {"tx os", -1},          /* only others' */
      {"tx os os", -1},       /* granted together */
      {"ts tx os os", -1},    /* the same */
      {"ts tx ts tx os", -1}, /* only others' */
      {"tx op ox", -1},       /* its own request would only pass */
      {"ox op os", 0},        /* but its lock excludes that one */
      {"o1 o3", 0},           /* its own units leave no room */
      {"o1 t2 o2", -1},       /* the other's units can make room */
      {"o1 t2 o2 o1", 0},     /* but not for what comes behind, as both are its own by then */
      {"o1 t2 o1 tX", 0},     /* a request that got ahead waits for its lock */
  };
  for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) {
    block_in(&queues[i], true);
    block_in(&queues[i], false);
  }
}

TEST(overtaken, "a thread that blocked before notices that a request got ahead which waits for it")
{
  struct world w;
  struct wlk_events events = {.capacity = 0};
  struct wlk_snapshot *cycle;
  begin_with_thread(&w);
  (void)ask_as_said(&w, 'o', '1', 0);
  (void)ask_as_said(&w, 't', '2', 0);
  struct outcome waiting = ask_as_said(&w, 'o', '1', 0);
  CHECK(wlk_wait_for_the_lock(waiting.request, 0, NULL, &events) == WLK_PENDING);
  (void)ask_as_said(&w, 't', 'X', 0);
  CHECK(wlk_wait_for_the_lock(waiting.request, 0, &cycle, &events) == WLK_DEADLOCK);
  wlk_snapshot_free(cycle);
  end(&w);
}
