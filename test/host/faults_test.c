/* The system fails: each system call of the library fails at its n-th use, once and twice in a row,
 * and for the length of a step. Afterwards the test checks that wake-ups, deaths and thefts are
 * noticed, that the file can grow, and that a lock can be handed over. The helper must sleep, and
 * no descriptor or thread may be left. In some plays the agent's thread hears the wake-ups, as the
 * event loop of Node.js does, until it is busy or another agent comes.
 *
 * faults_test [stride] [call]   tests every stride-th use after the first ten; all calls */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/member/records.h"
#include "../core/harness.h"
#include "calls.h"
#include "cast.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- failing ---- */

static const char *failing = ""; /* the call that fails; written while `armed` is false */
static atomic_bool armed;
static atomic_int used;  /* how often it was called since it was armed */
static int first, times; /* which uses fail: `times` of them, from `first` on */
static atomic_int polls; /* how often the helper waited */
static atomic_int total; /* how many calls there were */

bool call_fails(const char *name)
{
  if (strcmp(name, "ppoll") == 0) (void)atomic_fetch_add(&polls, 1);
  (void)atomic_fetch_add(&total, 1);
  if (!atomic_load(&armed) || strcmp(name, failing) != 0) return false;
  int use = atomic_fetch_add(&used, 1) + 1;
  return use >= first && use - first < times;
}

void call_made(const char *name, int descriptor, intptr_t result)
{
  (void)name, (void)descriptor, (void)result;
}

void call_closes(int descriptor)
{
  (void)descriptor;
}

static void arm(const char *name, int use, int count)
{
  failing = name;
  first = use;
  times = count;
  atomic_store(&used, 0);
  atomic_store(&armed, true);
}

static void heal(void)
{
  atomic_store(&armed, false);
}

static const char *const calls[] = {
    "socket",
    "bind",
    "listen",
    "connect",
    "accept4",
    "sendto",
    "recv",
    "eventfd",
    "inotify_init1",
    "inotify_add_watch",
    "fstatfs64",
    "fstat64",
    "lstat64",
    "fstatat64",
    "mkdirat",
    "fchmod",
    "fchmodat",
    "linkat",
    "unlinkat",
    "renameat",
    "flock",
    "mmap64",
    "madvise",
    "read",
    "write",
    "ppoll",
    "bucket",
    "openat64",
    "F_DUPFD_CLOEXEC",
    "fcntl64",
    "posix_fallocate64",
    "pthread_create",
    "connections"}; /* not a system call: other code closes the helper's connections */

/* ---- this process as a member ---- */

static struct played peer, dying;
enum { LARGE = 2 };

static struct wlh_request
    *requests[3]; /* by tag: of "n", "m", and a name for which the file grows */
static uint32_t news[3];
static bool lost; /* whether this play lost the bucket */
static char bucket_name[16];

static void note_event(const struct wlk_event *event)
{
  news[event->tag] |= event->news;
  lost = lost || (event->news & WLH_NEWS_LOST) != 0;
}

static void take_events(void)
{
  struct wlk_event items[8];
  struct wlk_events events = {.items = items, .capacity = 8};
  wlh_agent_take_events(agent, true, &events);
  for (size_t i = 0; i < events.count; i++) note_event(&items[i]);
}

static enum { NEVER, ALWAYS, UNTIL_BUSY, WHILE_ALONE } hearing;
static int heard;               /* from wlh_agent_listen, or -1 */
static struct wlh_agent *other; /* of a second thread, or NULL */

/* Returns false if the agent's thread is to hear wake-ups, but the file is not open yet. */
static bool begin_to_hear(void)
{
  if (hearing == NEVER || heard >= 0 || other) return true;
  heard = wlh_agent_listen(agent);
  return heard >= 0;
}

static void stop_hearing(void)
{
  wlh_port_close_descriptor(heard);
  heard = -1;
}

/* Returns whether there was something to hear. */
static bool hear_wake_ups(void)
{
  struct pollfd polled = {heard, POLLIN, 0};
  bool ready = poll(&polled, 1, 1) > 0 && heard >= 0;
  if (ready && !wlh_agent_hear(agent, polled.revents == POLLIN)) stop_hearing();
  return ready;
}

/* Waits until the helper, which is woken twice, waits again. */
static void await_helper(void)
{
  for (int i = 0; i < 2; i++) {
    int before = atomic_load(&polls);
    wlh_wake_helper(bucket);
    while (atomic_load(&polls) == before) (void)poll(NULL, 0, 1);
  }
}

/* Lets the helper begin a wait that leaves wake-ups to the agent's thread, and then stops that
 * thread from taking them. */
static void become_busy(void)
{
  struct wlk_thread thread = {2, NULL, 0};
  if (hearing == NEVER || hearing == ALWAYS) return;
  await_helper();
  if (hearing == WHILE_ALONE && !other)
    CHECK(wlh_agent_create(bucket, &thread, wake, NULL, &other) == WLH_OK);
  if (other) CHECK(wlh_agent_listen(agent) < 0); /* The other thread's wake-ups would wait. */
  if (hearing == UNTIL_BUSY && heard >= 0) CHECK(!wlh_agent_hear(agent, false));
  stop_hearing();
}

/* Requests a name, and repeats that if the call fails. */
static void want(uint32_t tag)
{
  static uint16_t large[WLH_NAME_MOST];
  uint16_t small = "nm"[tag % 2];
  const uint16_t *name = tag == LARGE ? large : &small;
  uint32_t length = tag == LARGE ? WLH_NAME_MOST : 1;
  struct wlk_event items[8];
  struct wlk_events events = {.items = items, .capacity = 8};
  enum wlh_status status;
  news[tag] = 0;
  do {
    status = wlh_request_a_lock(
        agent, name, length, WLK_EXCLUSIVE, WLK_WAIT, tag, NULL, &requests[tag], &events);
    for (size_t i = 0; i < events.count; i++) news[items[i].tag] |= items[i].news;
  } while (status != WLH_GRANTED && status != WLH_PENDING);
  if (status == WLH_GRANTED) news[tag] |= WLK_NEWS_GRANTED;
  if (status == WLH_PENDING) (void)begin_to_hear();
}

enum { OVER = WLH_NEWS_FAILED | WLH_NEWS_LOST | WLK_NEWS_STOLEN };

/* Waits for news of a request, and repeats the request if the bucket was lost or not opened. */
static void hear_of(uint32_t tag, uint32_t wanted)
{
  for (take_events(); !(news[tag] & wanted) || (news[tag] & OVER & ~wanted);) {
    if (news[tag] & OVER) {
      want(tag);
    } else if (heard >= 0) {
      (void)hear_wake_ups();
      take_events();
    } else {
      struct wlk_event event = next_event(agent);
      note_event(&event);
    }
  }
}

/* Whether the peer sees one pending request and `held` locks. */
static bool peer_sees_waiting(int held)
{
  char rest[100], waits[40];
  (void)snprintf(waits, sizeof waits, "held %d pending 1 ", held);
  ask_for(&peer, "query 99", "99 WLH_PENDING");
  hear_rest(&peer, "event 99 snapshot ", rest, sizeof rest);
  return strncmp(rest, waits, strlen(waits)) == 0;
}

/* Requests what others hold, and returns when the peer sees it wait. */
static void begin_waiting(uint32_t tag, int held)
{
  want(tag);
  do {
    take_events();
    if (news[tag] & OVER) want(tag);
  } while (!peer_sees_waiting(held) || !begin_to_hear());
  become_busy();
}

/* ---- what is left ---- */

static bool becomes(const char *path, int count)
{
  for (int i = 0; i < 20000; i++) {
    if (count_in(path) == count) return true;
    (void)poll(NULL, 0, 1);
  }
  return false;
}

/* Whether the idle helper waits no more often than about once a millisecond, and makes few calls in
 * between. */
static bool stands_still(int milliseconds)
{
  enum { MOST_CALLS = 20 };
  long from = now_ms();
  int waits = -atomic_load(&polls), number = -atomic_load(&total);
  (void)poll(NULL, 0, milliseconds);
  waits += atomic_load(&polls), number += atomic_load(&total);
  long most = 50 + (now_ms() - from);
  if (waits <= most && number <= MOST_CALLS * most) return true;
  printf(
      "# %s fails from use %d on, %d times: it waited %d times, with %d calls\n", failing, first,
      times, waits, number);
  return false;
}

/* ---- the play ---- */

enum { RELEASE = 1, GROWTH, ATTEMPT, DEATH, HAND_OFF, THEFT, STEPS };

static void close_connections(void)
{
  wlk_mutex_lock(&bucket->mu);
  for (int i = 0; i < WLH_MEMBERS; i++) {
    if (bucket->watches[i].descriptor >= 0) (void)close(bucket->watches[i].descriptor);
    if (bucket->accepted[i] >= 0) (void)close(bucket->accepted[i]);
  }
  wlk_mutex_unlock(&bucket->mu);
}

static bool is_one_of(const char *name, const char *words)
{
  const char *found = strstr(words, name);
  return found && found[-1] == ' ' && found[strlen(name)] == ' ';
}

/* Whether the file grows by this call. */
static bool is_made_to_grow(const char *name)
{
  return is_one_of(name, " posix_fallocate64 mmap64 fstat64 ");
}

/* Whether the step may make the call, as far as that depends on the call. */
static bool is_made_in(const char *name, int step)
{
  if (step == GROWTH) return is_made_to_grow(name);
  return step != ATTEMPT || is_one_of(name, " socket connect ");
}

/* Makes the call fail during a step. Sockets are unbound first, so that calls that bind
 * are made. */
static void begin_step(const char *name, int step, int failing_step)
{
  if (step != failing_step) return;
  if (strcmp(name, "connections") == 0) return close_connections();
  wlk_mutex_lock(&bucket->mu); /* The helper does nothing in between. */
  if (is_one_of(name, " socket bind listen fstatat64 fchmodat renameat inotify_add_watch "))
    wlh_port_unbind(&bucket->port, bucket->arena.member);
  arm(name, 1, is_one_of(name, " recv read write ") ? 2 : INT32_MAX);
  wlk_mutex_unlock(&bucket->mu);
}

static void end_step(int step, int failing_step)
{
  if (step != failing_step) return;
  if (!CHECK(stands_still(50))) printf("# in step %d\n", step);
  heal();
}

static void peer_opens(struct played *actor)
{
  tell(actor, "open %s %s", directory, bucket_name);
  hear(actor, "open WLH_OK");
}

static void start_dying(const char *request)
{
  start(&dying);
  peer_opens(&dying);
  acquire(&dying, request);
}

static void kill_dying(void)
{
  kill_it(&dying);
  (void)close(dying.in);
  (void)close(dying.out);
}

/* Deletes the sockets. If `awaited`, waits until the helper has bound them again and has nothing
 * else to do, so that only a wake-up makes it enter the tables. */
static void lose_sockets(bool awaited)
{
  wlh_port_unbind(&bucket->port, bucket->arena.member);
  for (bool back = !awaited; !back; (void)poll(NULL, 0, 1)) {
    wlk_mutex_lock(&bucket->mu);
    bool are_bound = bucket->open && wlh_port_is_bound(&bucket->port, bucket->arena.member);
    back = are_bound && bucket->raise_at == 0;
    wlk_mutex_unlock(&bucket->mu);
  }
  if (awaited) await_helper();
}

/* Whether a call that fails is retried although nobody asks for anything. The checks of each second
 * retry less often. */
static bool is_tried_again(void)
{
  enum { MANY = 120 };
  int before = atomic_load(&used);
  for (long end = now_ms() + 20000; now_ms() < end && atomic_load(&used) < before + MANY;)
    (void)poll(NULL, 0, 1);
  return atomic_load(&used) >= before + MANY;
}

/* Hands over the lock, unless it was lost. */
static void hand_over(const char *name, int step)
{
  struct wlk_event items[8];
  struct wlk_events events = {.items = items, .capacity = 8};
  char answer[40];
  tell(&peer, "ask 2 n x w");
  hear_rest(&peer, "2 ", answer, sizeof answer);
  /* A request that is still deferred at the release needs no wake-up. */
  while (step == HAND_OFF && !peer_sees_waiting(2)) continue;
  if (step == HAND_OFF) ask_for(&peer, "settle", "settled"); /* it may enter on its own */
  begin_step(name, HAND_OFF, step);
  take_events();
  if (!(news[0] & OVER)) (void)wlh_release_the_lock(requests[0], &events);
  for (size_t i = 0; i < events.count; i++) news[items[i].tag] |= items[i].news;
  bool is_heard = strcmp(answer, "WLH_GRANTED") == 0;
  if (step == HAND_OFF && !is_heard && !(news[0] & OVER) && strcmp(name, "sendto") == 0) {
    CHECK(is_tried_again());
    start_dying("ask 1 k x w"); /* It sends our wake-up when it leaves. */
    hear(&peer, "event 2 granted");
    kill_dying();
    is_heard = true;
  }
  end_step(HAND_OFF, step);
  if (!is_heard) hear(&peer, "event 2 granted");
}

/* Returns whether the call was made as often as `use`. */
static bool play_with(const char *name, int use, int count, int step)
{
  static int plays;
  int descriptors = count_in("/proc/self/fd"), threads = count_in("/proc/self/task");
  (void)snprintf(bucket_name, sizeof bucket_name, "b%d", ++plays);
  lost = false;
  heard = -1;
  other = NULL;
  hearing = plays / 2 % 4;
  if (step == 0) arm(name, use, count);
  if (plays % 2 == 0)
    begin_member(bucket_name), want(0), hear_of(0, WLK_NEWS_GRANTED),
        wlh_end_the_request(requests[0]);
  peer_opens(&peer);
  acquire(&peer, "ask 1 n x w");
  if (plays % 2 == 1) begin_member(bucket_name);
  begin_waiting(0, 1);
  begin_step(name, RELEASE, step);
  if (plays % 3 == 0) lose_sockets(plays % 2 == 1 && step == 0);
  release(&peer, 1);
  end_step(RELEASE, step);
  hear_of(0, WLK_NEWS_GRANTED);
  if (is_made_to_grow(name)) {
    begin_step(name, GROWTH, step);
    want(LARGE);
    end_step(GROWTH, step);
    hear_of(LARGE, WLK_NEWS_GRANTED);
    CHECK(!lost || step != GROWTH);
    wlh_end_the_request(requests[LARGE]);
  }

  start_dying("ask 1 m x w");
  if (step == ATTEMPT) { /* A request is withdrawn while the system fails. */
    begin_step(name, ATTEMPT, step);
    begin_waiting(1, 2);
    wlh_end_the_request(requests[1]);
    end_step(ATTEMPT, step);
  }
  begin_waiting(1, 2);
  begin_step(name, DEATH, step);
  kill_dying();
  end_step(DEATH, step);
  hear_of(1, WLK_NEWS_GRANTED);
  hand_over(name, step);

  begin_step(name, THEFT, step);
  acquire(&peer, "ask 3 m x s");
  end_step(THEFT, step);
  hear_of(1, OVER);
  bool made = atomic_load(&used) >= use;
  if (lost) printf("# %s fails from use %d on, %d times, step %d: lost\n", name, use, count, step);
  heal();
  CHECK(stands_still(10));
  int most = 100;
  while (hear_wake_ups() && most > 0) most--;
  if (!CHECK(most > 0)) /* an event loop would never rest */
    printf("# %s fails from use %d on, %d times, step %d: hears\n", name, use, count, step);
  stop_hearing();
  if (other) wlh_agent_terminate(other);
  end_member();
  ask_for(&peer, "close", "close");
  if (!CHECK(becomes("/proc/self/fd", descriptors) && becomes("/proc/self/task", threads)))
    printf("# %s fails from use %d on, %d times, step %d\n", name, use, count, step);
  return made;
}

static int stride = 7;
static const char *only; /* NULL: all */

static bool is_left_out(const char *name)
{
  return only && strcmp(only, name) != 0;
}

TEST(at_any_use, "the system fails once, or twice in a row, at any call")
{
  for (int count = 1; count <= 2; count++)
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
      int use = 1;
      if (is_left_out(calls[i])) continue;
      while (play_with(calls[i], use, count, 0)) use += use < 10 ? 1 : stride;
    }
}

TEST(meanwhile, "the system fails as long as a lock goes on, and then no more")
{
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
    for (int step = RELEASE; step < STEPS && !is_left_out(calls[i]); step++)
      if (is_made_in(calls[i], step)) (void)play_with(calls[i], 1, 0, step);
}

int main(int argc, char **argv)
{
  if (argc > 1) stride = atoi(argv[1]);
  if (argc > 2) only = argv[2];
  begin_play();
  start(&peer);
  int status = run_tests();
  end_play();
  return status;
}
