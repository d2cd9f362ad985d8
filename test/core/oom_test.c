/* Every allocation of a call fails once: the call says so, and nothing has changed. Requests that meet
 * others without memory are drawn by fuzz_operations.c. */
#include "harness.h"

/* What a scenario does is undone before it returns; whether it succeeded is its result. */
typedef bool scenario(struct world *world);

static bool succeeded(enum wlk_status status)
{
  return status == WLK_OK || status == WLK_GRANTED || status == WLK_PENDING;
}

/* Fails allocation 1, 2, 3 … of the scenario until it runs without a failure. */
static void survive(scenario *run, int least)
{
  struct world w;
  begin(&w);
  struct outcome held = ask(&w, 0, "held", WLK_EXCLUSIVE, WLK_WAIT, 1);
  long before = live_blocks();
  int failures = 0;
  for (long n = 1;; n++) {
    size_t requests = request_count(w.manager), agents = w.process.agent_count;
    (void)fail_allocation(n);
    bool done = run(&w);
    bool failed = fail_allocation(0);
    CHECK(broken(&w.process) == NULL);
    CHECK(request_count(w.manager) == requests && w.process.agent_count == agents);
    if (!failed) {
      CHECK(done);
      break;
    }
    if (!done) failures++;
    /* An agent may keep a spare resource for its next request. */
    CHECK(live_blocks() <= before + 4);
  }
  CHECK(failures >= least);
  CHECK(release_lock(held.request).status == WLK_OK);
  end(&w);
}

static bool create_agent(struct world *w)
{
  struct wlk_agent *agent;
  if (!succeeded(
          wlk_agent_create(&w->process, "", &no_thread, w->actors[0].agent->wake, NULL, &agent)))
    return false;
  wlk_agent_terminate(agent);
  return true;
}

static bool open_manager(struct world *w)
{
  static const uint16_t name[] = {'n'};
  struct wlk_manager *manager;
  if (!succeeded(wlk_manager_open(&w->process, name, 1, &manager))) return false;
  wlk_manager_close(manager);
  return true;
}

static bool request_long_name(struct world *w)
{
  static const uint16_t name[5000];
  struct wlk_request *request;
  struct wlk_events none = {.items = NULL, .capacity = 0};
  if (!succeeded(wlk_request_a_lock(
          w->actors[1].agent, w->manager, name, 5000, WLK_SHARED, WLK_WAIT, 2, NULL, &request, NULL,
          &none)))
    return false;
  return wlk_release_the_lock(request, &none) == WLK_OK;
}

static bool snapshot(struct world *w)
{
  struct wlk_snapshot *state;
  if (wlk_snapshot_the_lock_state(w->manager, &state) != WLK_OK) return false;
  CHECK(state->lock_count == 1);
  wlk_snapshot_free(state);
  return true;
}

/* The table of names grows on the way; where it cannot, it stays small. */
static bool many_names(struct world *w)
{
  struct wlk_request *requests[40];
  int made = 0;
  for (; made < 40; made++) {
    char name[] = {(char)('0' + made), 0};
    struct outcome lock = ask(w, 1, name, WLK_EXCLUSIVE, WLK_WAIT, 2);
    if (!succeeded(lock.status)) break;
    requests[made] = lock.request;
  }
  for (int i = 0; i < made; i++) CHECK(release_lock(requests[i]).status == WLK_OK);
  return made == 40;
}

static struct wlk_request *publisher;

static bool publish(struct world *w)
{
  static const uint16_t text[4096];
  (void)w;
  return wlk_publish(publisher, text, 4096) == WLK_OK;
}

TEST(published, "publishing without memory says so, and changes nothing")
{
  struct world w;
  struct wlk_snapshot *s;
  begin(&w);
  publisher = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1).request;
  for (long nth = 1; nth <= 2; nth++) {
    long before = live_blocks();
    (void)fail_allocation(nth);
    CHECK(!publish(&w) && fail_allocation(0));
    CHECK(live_blocks() == before && broken(&w.process) == NULL);
    CHECK(wlk_snapshot_the_lock_state(w.manager, &s) == WLK_OK);
    CHECK(s->locks[0].data == WLK_NO_TEXT);
    wlk_snapshot_free(s);
  }
  CHECK(publish(&w));
  CHECK(release_lock(publisher).status == WLK_OK);
  end(&w);
}

TEST(agents, "creating an agent without memory says so")
{
  survive(create_agent, 1);
}
TEST(managers, "opening a manager without memory says so")
{
  survive(open_manager, 1);
}
TEST(long_names, "requesting a long name without memory says so")
{
  survive(request_long_name, 2);
}
TEST(snapshots, "a snapshot without memory says so")
{
  survive(snapshot, 1);
}
TEST(growth, "a table that cannot grow works on")
{
  survive(many_names, 2);
}

TEST(marks, "asking for a mark without memory says so, and a release that marks needs none")
{
  struct world w;
  struct wlk_events events = {0};
  begin(&w);
  for (int i = 0; i < 1000; i++) {
    char name[] = {(char)('A' + i % 50), (char)('A' + i / 50), 0};
    struct outcome lock = ask(&w, 0, name, WLK_EXCLUSIVE, WLK_WAIT, 1);
    long before = live_blocks();
    (void)fail_allocation(1);
    CHECK(wlk_prepare_mark(lock.request, &events) == WLK_NO_MEMORY);
    CHECK(fail_allocation(0) && live_blocks() == before && broken(&w.process) == NULL);
    (void)fail_allocation(2); /* the table's, where it grows: it stays small */
    CHECK(wlk_prepare_mark(lock.request, &events) == WLK_OK);
    (void)fail_allocation(1);
    CHECK(wlk_release_and_mark(lock.request, WLK_FOREVER, &events) == WLK_OK);
    CHECK(!fail_allocation(0) && broken(&w.process) == NULL);
  }
  end(&w);
}

/* Nothing that gives back may fail: with every allocation failing, it must work all the same. */
TEST(giving_back, "releasing, aborting and terminating need no memory")
{
  struct world w;
  begin(&w);
  struct outcome a = ask(&w, 0, "a", WLK_EXCLUSIVE, WLK_WAIT, 1);
  struct outcome b = ask(&w, 1, "a", WLK_EXCLUSIVE, WLK_WAIT, 2);
  (void)ask(&w, 2, "a", WLK_EXCLUSIVE, WLK_WAIT, 3);
  (void)ask(&w, 3, "a", WLK_EXCLUSIVE, WLK_WAIT, 4);
  (void)fail_allocation(1);
  CHECK(abort_request(b.request).status == WLK_OK);
  CHECK(release_lock(a.request).status == WLK_OK);
  stop_actor(&w, 2);
  CHECK(!fail_allocation(0));
  CHECK(w.actors[3].wakes == 1);
  end(&w);
}
