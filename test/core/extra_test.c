/* What requests can say beyond the specification, and threads that block. */
#include "harness.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

static const struct wlk_thread threads[] = {{1, NULL, 0}, {2, NULL, 0}};

/* Asks with a label and, if `inside` is given, as one that rejects deadlocks, made inside it. */
static struct outcome ask_extra(
    struct world *w, int actor, char name, enum wlk_mode mode, struct wlk_request *inside,
    struct wlk_snapshot **cycle)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  uint16_t unit = (unsigned char)name;
  struct wlk_extra extra = {
      .label = &unit,
      .label_length = 1,
      .reject_deadlock = true,
      .inside = &inside,
      .inside_count = inside != NULL,
  };
  outcome.status = wlk_request_a_lock(
      w->actors[actor].agent, w->manager, &unit, 1, mode, WLK_WAIT, 7, &extra, &outcome.request,
      cycle, &events);
  outcome.count = events.count;
  return outcome;
}

/* Asks for "a" with what `extra` says. */
static struct outcome ask_with(
    struct world *w, int actor, enum wlk_mode mode, const struct wlk_extra *extra)
{
  struct outcome outcome = {0};
  struct wlk_events events = {.items = outcome.events, .capacity = 16};
  uint16_t name = 'a';
  outcome.status = wlk_request_a_lock(
      w->actors[actor].agent, w->manager, &name, 1, mode, WLK_WAIT, 2, extra, &outcome.request,
      NULL, &events);
  outcome.count = events.count;
  return outcome;
}

/* Replaces the agent of an actor by one in thread `thread`. */
static void move_to_thread(struct world *w, int actor, int thread)
{
  stop_actor(w, actor);
  CHECK(
      wlk_agent_create(
          &w->process, "t-", &threads[thread], w->actors[3].agent->wake, &w->actors[actor],
          &w->actors[actor].agent) == WLK_OK);
}

static uint64_t clock_ahead; /* milliseconds */

uint64_t __real_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact)
{
  return __real_wlk_port_now(exact) + clock_ahead;
}

TEST(labels, "a snapshot has labels, ages, threads; a label is counted in and out")
{
  struct world w;
  struct wlk_snapshot *s;
  begin(&w);
  struct outcome held = ask_extra(&w, 0, 'a', WLK_EXCLUSIVE, NULL, NULL);
  struct outcome waiting = ask(&w, 1, "a", WLK_SHARED, WLK_WAIT, 1);
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  CHECK(s->lock_count == 2 && s->name_count == 2);
  CHECK(s->locks[0].held == 1 && s->names[s->locks[0].label].units[0] == 'a');
  CHECK(s->locks[1].held == 0 && s->locks[1].label == WLK_NO_TEXT);
  CHECK(s->locks[0].age_low < 10000 && s->locks[1].age_low < 10000);
  wlk_snapshot_free(s);
  CHECK(release_lock(held.request).status == WLK_OK);
  for (int i = 0; i < WLK_SHARDS; i++) CHECK(w.manager->parts[i].texts == 0);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  end(&w);
}

/* Whether a snapshot tells, of each lock in turn, the letter that it has published; '-' for none. */
static bool tells(struct world *w, const char *letters)
{
  struct wlk_snapshot *s;
  CHECK(wlk_snapshot_the_lock_state(w->manager, &s) == WLK_OK);
  bool same = s->lock_count == strlen(letters);
  for (size_t i = 0; same && i < s->lock_count; i++) {
    uint32_t data = s->locks[i].data;
    if (letters[i] == '-')
      same = data == WLK_NO_TEXT;
    else
      same = data != WLK_NO_TEXT && s->names[data].length == 2 &&
             s->names[data].units[1] == (uint16_t)letters[i];
  }
  wlk_snapshot_free(s);
  return same && broken(&w->process) == NULL;
}

static enum wlk_status publish(const struct outcome *lock, char letter)
{
  uint16_t text[] = {'"', (uint16_t)letter};
  return wlk_publish(lock->request, text, letter ? 2 : 0);
}

TEST(published, "a snapshot tells what a lock publishes, until the lock ends")
{
  struct world w;
  begin(&w);
  struct outcome plain = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 1);
  struct outcome labelled = ask_extra(&w, 1, 'a', WLK_SHARED, NULL, NULL);
  struct outcome waiting = ask(&w, 2, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(publish(&plain, 0) == WLK_OK && tells(&w, "---"));
  CHECK(publish(&plain, 'x') == WLK_OK && tells(&w, "x--"));
  CHECK(publish(&labelled, 'y') == WLK_OK && tells(&w, "xy-"));
  CHECK(publish(&plain, 'z') == WLK_OK && tells(&w, "zy-"));
  CHECK(publish(&labelled, 0) == WLK_OK && tells(&w, "z--"));
  CHECK(publish(&waiting, 'w') == WLK_NOT_HELD && tells(&w, "z--"));
  CHECK(release_lock(plain.request).status == WLK_OK && tells(&w, "--"));
  CHECK(release_lock(labelled.request).status == WLK_OK && tells(&w, "-"));
  CHECK(publish(&waiting, 'w') == WLK_OK && tells(&w, "w"));
  stop_actor(&w, 2);
  for (int i = 0; i < WLK_SHARDS; i++) CHECK(w.manager->parts[i].texts == 0);
  end(&w);
}

TEST(published_late, "a lock that was stolen publishes nothing, and its end is still reported")
{
  struct world w;
  begin(&w);
  struct outcome robbed = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(publish(&robbed, 'x') == WLK_OK && tells(&w, "x"));
  struct outcome thief = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_STEAL, 1);
  CHECK(publish(&robbed, 'y') == WLK_STOLEN && tells(&w, "-"));
  CHECK(publish(&thief, 'z') == WLK_OK && tells(&w, "z"));
  CHECK(release_lock(robbed.request).status == WLK_STOLEN && tells(&w, "z"));
  CHECK(release_lock(thief.request).status == WLK_OK);
  end(&w);
}

TEST(age_of_lock, "the age of a lock counts from its grant, not from its request")
{
  struct world w;
  struct wlk_snapshot *s;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome waiting = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  uint64_t asked = wlk_port_now(true), granted = asked;
  while (granted < asked + 50) granted = wlk_port_now(true);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  uint64_t looked = wlk_port_now(true);
  /* The clock of ages is some milliseconds late. */
  CHECK(s->locks[0].held == 1 && s->locks[0].age_low <= looked - granted + 20);
  wlk_snapshot_free(s);
  CHECK(release_lock(waiting.request).status == WLK_OK);
  end(&w);
}

TEST(ages_of_weeks, "an age is more than 32 bits can count")
{
  const uint64_t days = UINT64_C(60) * 24 * 60 * 60 * 1000;
  struct world w;
  struct wlk_snapshot *s;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  clock_ahead = days;
  CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
  clock_ahead = 0;
  uint64_t age = (uint64_t)s->locks[0].age_high << 32 | s->locks[0].age_low;
  CHECK(age >= days && age < days + 100000);
  wlk_snapshot_free(s);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

TEST(holders, "the holders of a name, and of one that nobody holds")
{
  struct world w;
  struct wlk_snapshot *s;
  uint16_t a = 'a', b = 'b';
  begin(&w);
  struct outcome one = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 1);
  struct outcome two = ask_extra(&w, 1, 'a', WLK_SHARED, NULL, NULL);
  struct outcome pending = ask(&w, 2, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  CHECK(wlk_snapshot_a_name(w.manager, &a, 1, false, &s) == WLK_OK);
  CHECK(s->lock_count == 2 && s->locks[0].held && s->locks[1].held && s->locks[1].label == 1);
  wlk_snapshot_free(s);
  CHECK(wlk_snapshot_a_name(w.manager, &b, 1, false, &s) == WLK_OK && s->lock_count == 0);
  wlk_snapshot_free(s);
  CHECK(fail_allocation(1) == false);
  CHECK(wlk_snapshot_a_name(w.manager, &a, 1, false, &s) == WLK_NO_MEMORY);
  CHECK(fail_allocation(0));
  CHECK(abort_request(pending.request).status == WLK_OK);
  CHECK(release_lock(one.request).status == WLK_OK);
  CHECK(release_lock(two.request).status == WLK_OK);
  end(&w);
}

TEST(cycle, "two agents, two locks: the request that closes the cycle is refused, with the cycle")
{
  struct world w;
  struct wlk_snapshot *s = NULL;
  begin(&w);
  struct outcome a = ask_extra(&w, 0, 'a', WLK_EXCLUSIVE, NULL, NULL);
  struct outcome b = ask_extra(&w, 1, 'b', WLK_EXCLUSIVE, NULL, NULL);
  struct outcome first = ask_extra(&w, 0, 'b', WLK_SHARED, a.request, &s);
  CHECK(first.status == WLK_PENDING && s == NULL);
  struct outcome second = ask_extra(&w, 1, 'a', WLK_SHARED, b.request, &s);
  CHECK(second.status == WLK_DEADLOCK && s && s->lock_count == 4);
  const char *order = "aabb";
  for (int i = 0; i < 4; i++) {
    CHECK(s->names[s->locks[i].name].units[0] == order[i]);
    CHECK(s->locks[i].held == (i % 2 == 1));
    CHECK(s->names[s->locks[i].label].length == 1);
  }
  wlk_snapshot_free(s);
  for (long n = 1; n <= 3; n++) {
    CHECK(fail_allocation(n) == false);
    s = NULL;
    second = ask_extra(&w, 1, 'a', WLK_SHARED, b.request, &s);
    bool failed = fail_allocation(0);
    CHECK(second.status == (failed ? WLK_NO_MEMORY : WLK_DEADLOCK) && (s == NULL) == failed);
    wlk_snapshot_free(s);
  }
  CHECK(release_lock(b.request).count == 0);
  struct outcome granted = take(&w, 0);
  CHECK(granted.count == 1);
  CHECK(release_lock(first.request).status == WLK_OK && release_lock(a.request).status == WLK_OK);
  end(&w);
}

enum { LOOKS = 300 };

static atomic_int looks;

static void *look_at_everything(void *manager)
{
  struct wlk_snapshot *s;
  for (int i = 0; i < LOOKS; i++) {
    if (wlk_snapshot_the_lock_state(manager, &s) != WLK_OK) break;
    wlk_snapshot_free(s);
    (void)atomic_fetch_add(&looks, 1);
  }
  atomic_store(&looks, LOOKS);
  return NULL;
}

TEST(
    declared_while_looked_at,
    "a request is declared, and withdrawn, while another thread looks at everything")
{
  struct world w;
  pthread_t thread;
  begin(&w);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  atomic_store(&looks, 0);
  CHECK(pthread_create(&thread, NULL, look_at_everything, w.manager) == 0);
  while (atomic_load(&looks) < LOOKS) {
    struct outcome pending = ask_extra(&w, 1, 'a', WLK_EXCLUSIVE, NULL, NULL);
    CHECK(pending.status == WLK_PENDING && abort_request(pending.request).status == WLK_OK);
  }
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

/* ---- blocking ---- */

struct blocked {
  struct wlk_request *request;
  uint64_t timeout;
  enum wlk_status status;
  struct wlk_snapshot *cycle;
  struct wlk_events events;
};

static struct blocked blocked_for(struct wlk_request *request)
{
  return (struct blocked){.request = request, .timeout = WLK_FOREVER};
}

static void *block_for(void *data)
{
  struct blocked *it = data;
  it->status = wlk_wait_for_the_lock(it->request, it->timeout, &it->cycle, &it->events);
  return NULL;
}

/* Waits until a thread blocks for the request. */
static void await_blocked(struct world *w, const struct wlk_request *request)
{
  for (bool blocked = false; !blocked;) {
    wlk_mutex_lock(&w->process.shards[request->shard].mutex);
    blocked = request->awaited;
    wlk_mutex_unlock(&w->process.shards[request->shard].mutex);
  }
}

/* Actor 1, in another thread, blocks for what actor 0 holds. */
static pthread_t begin_blocking(struct world *w, struct blocked *it, struct outcome *held)
{
  pthread_t thread;
  begin(w);
  move_to_thread(w, 1, 1);
  *held = ask(w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  *it = blocked_for(ask(w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2).request);
  CHECK(pthread_create(&thread, NULL, block_for, it) == 0);
  await_blocked(w, it->request);
  return thread;
}

TEST(wait_granted, "a thread that blocks goes on when the lock is granted")
{
  struct world w;
  struct blocked it;
  struct outcome held;
  pthread_t thread = begin_blocking(&w, &it, &held);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(it.status == WLK_GRANTED && it.request->news == 0);
  CHECK(release_lock(it.request).status == WLK_OK);
  end(&w);
}

TEST(wait_terminated, "a thread that blocks goes on when the holder's agent is terminated")
{
  struct world w;
  struct blocked it;
  struct outcome held;
  pthread_t thread = begin_blocking(&w, &it, &held);
  stop_actor(&w, 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(it.status == WLK_GRANTED && release_lock(it.request).status == WLK_OK);
  end(&w);
}

TEST(wait_over, "when the time is over the request waits on, and is granted in its turn")
{
  struct world w;
  begin(&w);
  move_to_thread(&w, 1, 1);
  struct outcome held = ask(&w, 0, "a", WLK_SHARED, WLK_WAIT, 1);
  struct blocked it = blocked_for(ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2).request);
  struct outcome reader = ask(&w, 2, "a", WLK_SHARED, WLK_WAIT, 3);
  uint64_t start = wlk_port_now(true);
  it.timeout = 5;
  (void)block_for(&it);
  CHECK(it.status == WLK_PENDING && wlk_port_now(true) - start >= 5);
  CHECK(reader.status == WLK_PENDING && take(&w, 2).count == 0);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(it.request->state == WLK_STATE_HELD);
  it.timeout = 0;
  (void)block_for(&it);
  CHECK(it.status == WLK_GRANTED && take(&w, 1).count == 0);
  CHECK(release_lock(it.request).status == WLK_OK);
  CHECK(release_lock(reader.request).status == WLK_OK);
  end(&w);
}

TEST(wait_without_events, "when the time is over, the events of the agent stay, and wake it")
{
  struct world w;
  begin(&w);
  move_to_thread(&w, 1, 1);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome other = ask(&w, 0, "b", WLK_EXCLUSIVE, WLK_WAIT, 1);
  (void)ask(&w, 1, "b", WLK_EXCLUSIVE, WLK_WAIT, 5);
  struct blocked it = blocked_for(ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2).request);
  struct wlk_event room[4];
  CHECK(release_lock(other.request).status == WLK_OK && w.actors[1].wakes == 1);
  it.timeout = 0;
  it.events = (struct wlk_events){.items = room, .capacity = 4};
  (void)block_for(&it);
  CHECK(it.status == WLK_PENDING && it.events.count == 0);
  struct outcome news = take(&w, 1);
  CHECK(news.count == 1 && is_event(&news, 0, 5, WLK_NEWS_GRANTED));
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

/* One request after the other for the same name, with whose thread it is ('o' is the one that will block), how ('x' exclusive,
 * 's' shared, or shared with so many units of three), and what is expected of the last when its thread, the 'o', blocks: the index of its obstacle, or -1. */
struct queue {
  const char *requests;
  int obstacle;
};

static void look_for_obstacle(const struct queue *queue)
{
  struct world w;
  struct outcome all[8];
  int count = 0;
  begin(&w);
  move_to_thread(&w, 1, 1);
  move_to_thread(&w, 2, 1);
  for (size_t i = 0; i < strlen(queue->requests); i += 3, count++) {
    const char *at = queue->requests + i;
    enum wlk_mode mode = at[1] == 'x' ? WLK_EXCLUSIVE : WLK_SHARED;
    struct wlk_extra units = {.limit = 3, .weight = (uint32_t)at[1] - '0'};
    /* Two agents of one thread are as one. */
    int actor = at[0] == 'o' ? 1 + count % 2 : 0;
    all[count] = ask_with(&w, actor, mode, units.weight <= 3 ? &units : NULL);
  }
  struct blocked it = blocked_for(all[count - 1].request);
  it.timeout = 0;
  (void)block_for(&it);
  if (!CHECK(it.status == (queue->obstacle < 0 ? WLK_PENDING : WLK_DEADLOCK)))
    printf("# the requests: %s\n", queue->requests);
  if (it.status == WLK_DEADLOCK) {
    struct wlk_lock_info *infos = it.cycle->locks;
    struct wlk_request *obstacle = all[queue->obstacle].request;
    CHECK(it.cycle->lock_count == 2 && it.cycle->name_count == 1);
    CHECK(infos[0].held == 0);
    CHECK(infos[1].held == (obstacle->state == WLK_STATE_HELD));
    CHECK(infos[1].mode == obstacle->mode && infos[1].name == infos[0].name);
    CHECK(it.cycle->clients[infos[1].client].thread_id == 2);
    wlk_snapshot_free(it.cycle);
    CHECK(request_count(w.manager) == (size_t)count - 1);
  }
  end(&w);
}

TEST(wait_for_itself, "a thread does not block for what waits for itself, and for that only")
{
  static const struct queue queues[] = {
      {"ox os", 0},           /* its own lock excludes it */
      {"ox ox", 0},           /* the same */
      {"os ox", 0},           /* the same */
      {"os tx os", 0},        /* somebody's exclusive request waits for its lock */
      {"os ts tx ts os", 0},  /* the same, with others between */
      {"tx ox os", 1},        /* its own request would not be ended */
      {"tx os ox", 1},        /* the same */
      {"tx os tx os", 1},     /* its request would be granted, and the other's not */
      {"tx ox tx ox ox", 1},  /* the one furthest ahead is told */
      {"tx os", -1},          /* just the others' */
      {"tx os os", -1},       /* granted together */
      {"tx os ts os", -1},    /* the same */
      {"ts tx os os", -1},    /* the same */
      {"ts tx ts tx os", -1}, /* just the others' */
      {"o1 o3", 0},           /* its own units leave no room */
      {"o1 t2 o2", -1},       /* the other's units can make room */
      {"o1 t2 o2 o1", 0},     /* but not for what comes behind, as both are its own by then */
  };
  for (size_t i = 0; i < sizeof queues / sizeof *queues; i++) look_for_obstacle(&queues[i]);
}

TEST(overtaken, "a thread that blocks is told when it waits for itself behind who got ahead")
{
  struct world w;
  struct wlk_extra unit = {.limit = 2, .weight = 1}, urgent = {.priority = 1};
  begin(&w);
  move_to_thread(&w, 1, 1);
  (void)ask_with(&w, 1, WLK_SHARED, &unit);
  (void)ask_with(&w, 0, WLK_SHARED, &unit);
  struct blocked it = blocked_for(ask_with(&w, 1, WLK_SHARED, &unit).request);
  it.timeout = 0;
  (void)block_for(&it);
  CHECK(it.status == WLK_PENDING);
  CHECK(ask_with(&w, 0, WLK_EXCLUSIVE, &urgent).status == WLK_PENDING);
  (void)block_for(&it);
  if (CHECK(it.status == WLK_DEADLOCK && it.cycle->lock_count == 2 && it.cycle->locks[1].held))
    wlk_snapshot_free(it.cycle);
  end(&w);
}

TEST(wait_without_memory, "a thread that would wait for itself says so, or that it has no memory")
{
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome again = ask(&w, 2, "a", WLK_EXCLUSIVE, WLK_WAIT, 2);
  struct blocked it = blocked_for(again.request);
  (void)fail_allocation(1);
  (void)block_for(&it);
  CHECK(fail_allocation(0) && it.status == WLK_NO_MEMORY && it.events.count == 0);
  CHECK(request_count(w.manager) == 1);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

TEST(wait_late, "a request that was granted, or stolen again, before it blocks")
{
  struct world w;
  struct wlk_events events = {.items = NULL, .capacity = 0};
  begin(&w);
  move_to_thread(&w, 1, 1);
  struct outcome held = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome one = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2);
  CHECK(release_lock(held.request).status == WLK_OK);
  CHECK(wlk_wait_for_the_lock(one.request, WLK_FOREVER, NULL, &events) == WLK_GRANTED);
  struct outcome two = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 3);
  CHECK(release_lock(one.request).status == WLK_OK);
  struct outcome thief = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_STEAL, 4);
  CHECK(wlk_wait_for_the_lock(two.request, WLK_FOREVER, NULL, &events) == WLK_STOLEN);
  CHECK(events.thief_thread == 0 && events.thief_number == w.actors[0].agent->number);
  CHECK(release_lock(thief.request).status == WLK_OK);
  end(&w);
}
