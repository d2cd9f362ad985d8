/* Tests one process's critical sections from inside: deferred operations keep their order, and a
 * section that cannot begin changes nothing. The linker wraps functions of the
 * library (Makefile). */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../core/harness.h"

#include "../../src/host/host.h"
#include "../../src/host/member/deferred.h"
#include "../../src/host/member/helper.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/arena.h"

#include "cast.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint16_t name[] = {'n'};
static const uint16_t long_name[WLH_NAME_MOST];
static struct wlh_agent *other;         /* of the same thread, so that calls have one order */
static struct wlh_request *requests[8]; /* by tag */
static struct wlh_segment *seen;        /* our own mapping, which stays when the bucket is lost */
static uint64_t token_before;           /* of the file when the play began */
static struct wlk_event items[16];
static struct wlk_events events = {.items = items, .capacity = 16};

/* ---- events ---- */

static bool is_next_of(struct wlh_agent *whose, uint32_t tag, uint32_t news)
{
  struct wlk_event event = next_event(whose);
  uint64_t token = (uint64_t)event.token_high << 32 | event.token_low;
  CHECK(!(event.news & WLK_NEWS_GRANTED) || token > token_before);
  return event.tag == tag && event.news == news;
}

static bool is_next(uint32_t tag, uint32_t news)
{
  return is_next_of(agent, tag, news);
}

/* ---- steps ---- */

static struct wlh_request *to_give_up; /* aborted as soon as it is in the tables; NULL: none */

enum wlh_cells_status __real_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);
enum wlh_cells_status __wrap_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);
enum wlh_cells_status __wrap_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer)
{
  struct wlh_request *request = to_give_up;
  enum wlh_cells_status status = __real_wlh_cells_request_a_lock(arena, ask, answer);
  to_give_up = NULL; /* only once */
  if (request) CHECK(wlh_abort_the_request(request, &events) == WLH_OK);
  return status;
}

static _Thread_local int until_lock;        /* how many mutexes are locked before at_lock */
static _Thread_local void (*at_lock)(void); /* NULL: none */

void __real_wlk_mutex_lock(struct wlk_mutex *mutex);
void __wrap_wlk_mutex_lock(struct wlk_mutex *mutex);
void __wrap_wlk_mutex_lock(struct wlk_mutex *mutex)
{
  void (*act)(void) = at_lock;
  if (act && --until_lock == 0) {
    at_lock = NULL;
    act();
  }
  __real_wlk_mutex_lock(mutex);
}

static _Atomic bool maps_no_more; /* as where a larger file needs a new mapping */

uint64_t __real_wlh_port_extend_map(struct wlh_port *port, int *error);
uint64_t __wrap_wlh_port_extend_map(struct wlh_port *port, int *error);
uint64_t __wrap_wlh_port_extend_map(struct wlh_port *port, int *error)
{
  uint64_t size = __real_wlh_port_extend_map(port, error);
  if (!maps_no_more || size <= bucket->arena.bytes) return size;
  *error = ENOMEM;
  return bucket->arena.bytes;
}

static _Atomic unsigned grown, given_back; /* how often */

/* Another member gives room back as soon as the file has grown. */
static _Atomic bool shrinks_meanwhile;

int __real_wlh_port_grow(struct wlh_port *port, uint64_t size);
int __wrap_wlh_port_grow(struct wlh_port *port, uint64_t size);
int __wrap_wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  int error = __real_wlh_port_grow(port, size);
  if (bucket && bucket->open) grown++;
  if (shrinks_meanwhile) seen->header.shrinks++;
  shrinks_meanwhile = false;
  return error;
}

void __real_wlh_port_give_back(struct wlh_port *port, uint64_t size);
void __wrap_wlh_port_give_back(struct wlh_port *port, uint64_t size);
void __wrap_wlh_port_give_back(struct wlh_port *port, uint64_t size)
{
  __real_wlh_port_give_back(port, size);
  given_back++;
}

/* ---- setup ---- */

static void map_file(void)
{
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  size_t size = (size_t)wlh_segment_bytes(WLH_CELLS_LEAST);
  seen = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || seen == MAP_FAILED) abort();
  (void)close(file);
}

static void enter_stage(void)
{
  struct wlk_thread thread = {1, NULL, 0};
  begin_play();
  begin_member("b");
  CHECK(wlh_agent_create(bucket, &thread, wake, NULL, &other) == WLH_OK);
  CHECK(wlh_bucket_open_file(agent, 99) == WLH_PENDING);
  CHECK(is_next(99, WLH_NEWS_READY));
  map_file();
  token_before = seen->header.token;
}

static void leave_stage(void)
{
  if (other) wlh_agent_terminate(other);
  other = NULL;
  end_member();
  (void)munmap(seen, (size_t)wlh_segment_bytes(WLH_CELLS_LEAST));
  end_play();
}

/* Owns the mutex, so that all calls are deferred. */
static void go_inside(void)
{
  while (!wlh_try_enter(bucket, NULL)) {
  }
}

static enum wlh_status ask_as(
    struct wlh_agent *who, enum wlk_option option, uint32_t tag, struct wlh_request **request)
{
  return wlh_request_a_lock(who, name, 1, WLK_EXCLUSIVE, option, tag, NULL, request, &events);
}

static enum wlh_status ask_of(
    const uint16_t *what, uint32_t length, uint32_t tag, struct wlh_request **request)
{
  return wlh_request_a_lock(
      agent, what, length, WLK_EXCLUSIVE, WLK_WAIT, tag, NULL, request, &events);
}

/* Whether the name is granted, at once or by an event. */
static bool gets(uint32_t tag, struct wlh_request **request)
{
  enum wlh_status status = ask_of(name, 1, tag, request);
  return status == WLH_GRANTED || (status == WLH_PENDING && is_next(tag, WLK_NEWS_GRANTED));
}

/* ---- room ---- */

TEST(
    cannot_map_others,
    "a process that cannot map a file that others enlarged loses it, and says why")
{
  struct wlh_request *lock = NULL, *next = NULL;
  char text[WLH_FAILURE_SIZE];
  enter_stage();
  CHECK(gets(1, &lock));
  go_inside();
  struct wlh_arena theirs = bucket->arena;
  theirs.bytes = wlh_segment_bytes(2 * theirs.ncells);
  CHECK(wlh_port_grow(&bucket->port, theirs.bytes) == 0);
  CHECK(wlh_cells_grow(&theirs, 2 * theirs.ncells) == WLH_CELLS_OK);
  maps_no_more = true;
  wlh_leave(bucket);
  CHECK(ask_as(other, WLK_WAIT, 2, &next) == WLH_PENDING);
  CHECK(is_next(1, WLH_NEWS_LOST));
  maps_no_more = false;
  wlh_bucket_get_failure(bucket, text, sizeof text);
  CHECK(strstr(text, "has grown, and the system cannot map all of it into this process"));
  CHECK(is_next_of(other, 2, WLK_NEWS_GRANTED)); /* in a remade file */
  wlh_end_the_request(next);
  leave_stage();
}

/* Waits until all deferred work is done. `who` has no other event. */
static void finish_deferred(struct wlh_agent *who)
{
  enum wlh_status status = wlh_bucket_open_file(who, 98);
  if (status == WLH_PENDING) CHECK(is_next_of(who, 98, WLH_NEWS_READY));
}

/* Whether a wake-up has not been received yet. */
static bool is_unheard(int descriptor)
{
  struct pollfd polled = {descriptor, POLLIN, 0};
  return poll(&polled, 1, 0) > 0;
}

/* Lets the helper do nothing until end_poked, which checks that it is woken. */
static void begin_without_pokes(void)
{
  wlk_mutex_lock(&bucket->mu);
  wlh_port_take_pokes(bucket->alarm);
}

static void end_poked(void)
{
  CHECK(is_unheard(bucket->alarm.rings));
  wlk_mutex_unlock(&bucket->mu);
}

TEST(room_looked_at, "room is given back once no thread reads it from outside")
{
  struct wlh_request *request = NULL;
  enter_stage();
  finish_deferred(agent);
  struct wlh_segment *segment = wlh_begin_look(bucket);
  CHECK(segment == wlh_begin_look(bucket)); /* two threads of a process */
  go_inside();
  given_back = 0;
  segment->header.slack = 1;
  wlh_leave(bucket);
  wlh_end_look(bucket, segment);
  CHECK(gets(1, &request));
  wlh_end_the_request(request);
  finish_deferred(agent);
  CHECK(given_back == 0);
  begin_without_pokes();
  wlh_end_look(bucket, segment);
  end_poked();
  finish_deferred(agent);
  CHECK(given_back == 1);
  leave_stage();
}

TEST(gives_up, "cells are given up at once if idle, and after ten checks in a row under load")
{
  for (int idle = 0; idle < 2; idle++) {
    enter_stage();
    go_inside();
    bucket->arena.bytes = wlh_segment_bytes(4096);
    CHECK(wlh_port_grow(&bucket->port, bucket->arena.bytes) == 0);
    CHECK(wlh_cells_grow(&bucket->arena, 4096) == WLH_CELLS_OK);
    wlh_leave_tables(bucket);
    bucket->shrinkable_checks = 0;
    for (int checks = idle ? 1 : 10; checks > 0; checks--) {
      CHECK(seen->header.ncells == 4096);
      wlh_helper_give_up_cells(bucket, idle);
    }
    CHECK(seen->header.ncells == WLH_CELLS_AT_FIRST);
    wlh_unlock_bucket(bucket, false);
    leave_stage();
  }
}

TEST(own_memory, "a process frees its own memory about cells that were given up")
{
  unsigned char resident = 0;
  enter_stage();
  go_inside();
  struct wlh_request **last = &bucket->by_cell[WLH_CELLS_MOST - 1];
  *(struct wlh_request *volatile *)last = NULL;
  char *page = (char *)((uintptr_t)last & -(uintptr_t)sysconf(_SC_PAGESIZE));
  CHECK(mincore(page, 1, &resident) == 0 && (resident & 1) == 1);
  bucket->by_cell_used = WLH_CELLS_MOST;
  wlh_leave(bucket);
  CHECK(mincore(page, 1, &resident) == 0 && (resident & 1) == 0);
  leave_stage();
}

/* Checks that no deferred work and no event is left, and that the tables contain only agents. */
static void check_clean(void)
{
  struct wlk_events none = {.items = items, .capacity = 16};
  finish_deferred(agent);
  wlh_agent_take_events(other, true, &none);
  CHECK(none.count == 0);
  const struct wlh_segment *segment = bucket->arena.segment; /* it may have grown */
  for (uint32_t i = 1; i < segment->header.high; i++)
    CHECK(segment->cells[i].kind == WLH_KIND_FREE || segment->cells[i].kind == WLH_KIND_AGENT);
}

/* Steals the name and releases it as another process would; the holder gets mail. Called inside. */
static void steal_and_release(void)
{
  struct wlh_answer answer = {0};
  struct wlh_ask ask = {.agent = agent->cell, .option = WLH_STEAL, .name = name, .name_units = 1};
  ask.cookie = ++bucket->cookie;
  CHECK(wlh_cells_request_a_lock(&bucket->arena, &ask, &answer) == WLH_CELLS_GRANTED);
  CHECK(wlh_cells_end_the_request(&bucket->arena, answer.request, ask.cookie) == WLH_CELLS_OK);
}

/* ---- deferred operations ---- */

/* Another process took us for dead and gave our number away. */
static void expel(void)
{
  seen->members[bucket->arena.member].id ^= 1;
}

static uint32_t news_of(const char *word)
{
  return strcmp(word, "granted") == 0  ? WLK_NEWS_GRANTED
         : strcmp(word, "stolen") == 0 ? WLK_NEWS_STOLEN
         : strcmp(word, "both") == 0   ? WLK_NEWS_GRANTED | WLH_NEWS_LOST
                                       : WLH_NEWS_RELEASED;
}

static enum wlh_status status_of(const char *word)
{
  return strcmp(word, "granted") == 0    ? WLH_GRANTED
         : strcmp(word, "stolen") == 0   ? WLH_STOLEN
         : strcmp(word, "not-held") == 0 ? WLH_NOT_HELD
         : strcmp(word, "later") == 0    ? WLH_PENDING
                                         : WLH_OK;
}

static void shrink_once(void)
{
  grown = 0;
  shrinks_meanwhile = true;
}

/* A thread that blocks for its request then learns that it lost another lock. */
static void block(unsigned tag, unsigned lost)
{
  CHECK(wlh_wait_for_the_lock(requests[tag], UINT64_C(10000000000), &events) == WLH_GRANTED);
  CHECK(events.count == 1 && items[0].tag == lost && items[0].news == WLK_NEWS_STOLEN);
}

/* Agent b is `other`. A request that "asks" may already wait; "steals" and "tries" are deferred. A
 * long name needs room in the file. */
static void take_step(char *step, void *unused)
{
  struct wlh_agent **who = step[0] == 'a' ? &agent : &other;
  unsigned tag = 0, lost = 0;
  char word[16] = "", letter = 0;
  (void)unused;
  if (sscanf(step, "%*c gets %u", &tag) == 1)
    CHECK(gets(tag, &requests[tag]));
  else if (sscanf(step, "%*c asks %u", &tag) == 1)
    (void)ask_as(*who, WLK_WAIT, tag, &requests[tag]);
  else if (sscanf(step, "%*c needs room for %u", &tag) == 1)
    CHECK(ask_of(long_name, WLH_NAME_MOST, tag, &requests[tag]) == WLH_PENDING);
  else if (sscanf(step, "%*c blocks for %u and loses %u", &tag, &lost) == 2)
    block(tag, lost);
  else if (sscanf(step, "%*c steals %u", &tag) == 1)
    CHECK(ask_as(*who, WLK_STEAL, tag, &requests[tag]) == WLH_PENDING);
  else if (sscanf(step, "%*c tries %u", &tag) == 1)
    CHECK(ask_as(*who, WLK_IF_AVAILABLE, tag, &requests[tag]) == WLH_PENDING);
  else if (sscanf(step, "%*c looks %u", &tag) == 1)
    CHECK(wlh_start_snapshot(*who, NULL, UINT32_MAX, true, tag) == WLH_PENDING);
  else if (sscanf(step, "%*c hears %u %15s", &tag, word) == 2)
    CHECK(is_next_of(*who, tag, news_of(word)));
  else if (sscanf(step, "release %u: %15s", &tag, word) == 2)
    CHECK(wlh_release_the_lock(requests[tag], &events) == status_of(word));
  else if (sscanf(step, "abort %u: %15s", &tag, word) == 2)
    CHECK(wlh_abort_the_request(requests[tag], &events) == status_of(word));
  else if (sscanf(step, "end %u", &tag) == 1)
    wlh_end_the_request(requests[tag]);
  else if (sscanf(step, "give up %u", &tag) == 1)
    to_give_up = requests[tag];
  else if (sscanf(step, "terminate %c", &letter) == 1)
    who = letter == 'a' ? &agent : &other, wlh_agent_terminate(*who), *who = NULL;
  else if (strcmp(step, "do one") == 0)
    CHECK(wlh_do_deferred(bucket, 1) == WLH_DONE_SOME && to_give_up == NULL);
  else if (strcmp(step, "rob") == 0)
    steal_and_release();
  else if (strcmp(step, "lose all") == 0)
    expel();
  else if (strcmp(step, "settle") == 0)
    finish_deferred(agent);
  else if (strcmp(step, "settle b") == 0)
    finish_deferred(other);
  else if (strcmp(step, "shrink once") == 0)
    shrink_once();
  else if (strcmp(step, "grown twice") == 0)
    CHECK(!shrinks_meanwhile && grown == 2);
  else if (strcmp(step, "go inside") == 0)
    go_inside();
  else if (CHECK(strcmp(step, "leave") == 0))
    wlh_leave(bucket);
}

TEST(put_off, "deferred operations are done in their order, or taken back, and leave nothing")
{
  static const char *const stories[] = {
      /* An earlier request is granted first even if the file must grow for it, and must grow again
       * because another member gave room back. */
      "go inside; a needs room for 1; a needs room for 2; leave; a hears 1 granted; end 1; "
      "a hears 2 granted; end 2",
      "go inside; a needs room for 1; shrink once; leave; a hears 1 granted; end 1; grown twice",
      /* Of a release and a theft, the first counts. */
      "a gets 1; go inside; release 1: later; b steals 2; leave; a hears 1 released; b hears 2 "
      "granted; end 2",
      "a gets 1; go inside; b steals 2; release 1: later; leave; a hears 1 stolen; b hears 2 "
      "granted; end 2",
      /* A request whose abort is deferred gets no event, although it is granted first. */
      "a gets 1; b asks 2; settle; go inside; release 1: later; abort 2: done; a asks 3; leave; "
      "a hears 1 released; a hears 3 granted; end 3",
      /* Neither does one that is aborted before it is made, or while it is being made. */
      "a gets 1; go inside; release 1: later; end 1; b asks 2; a tries 3; abort 2: done; leave; "
      "a hears 3 granted; end 3",
      "go inside; b asks 1; give up 1; do one; a tries 2; leave; a hears 2 granted; end 2",
      /* An agent or a bucket that ends while calls are deferred lets others in. */
      "a gets 1; a asks 2; go inside; release 1: later; a asks 3; terminate a; b asks 4; leave; "
      "b hears 4 granted; end 4",
      "a gets 1; b asks 2; go inside; release 1: later; abort 2: done; a steals 3; b looks 4; "
      "terminate a; terminate b; leave",
      /* A theft is reported before the grant that it led to, also if another process was
       * the thief. */
      "a gets 1; go inside; a steals 2; leave; a hears 1 stolen; a hears 2 granted; end 2",
      "a gets 1; go inside; rob; a asks 2; do one; leave; a hears 1 stolen; a hears 2 granted; end "
      "2",
      "a gets 1; go inside; rob; leave; a hears 1 stolen; a gets 2; end 2",
      /* An abort after the grant changes nothing, nor a release before it; both report a theft. */
      "a gets 1; go inside; b asks 2; leave; settle; abort 1: granted; release 2: not-held; "
      "go inside; abort 1: granted; release 2: not-held; leave; settle; end 1; settle; "
      "abort 2: granted; b hears 2 granted; go inside; a steals 3; leave; a hears 3 granted; "
      "release 2: stolen; end 3",
      /* A grant keeps its token if its event reports the loss of the file as well. */
      "a gets 1; go inside; b asks 2; leave; settle; release 1: done; lose all; settle; b hears 2 "
      "both",
      /* A thread that blocks receives thefts together with its grant. */
      "a gets 1; go inside; a asks 2; leave; settle; go inside; b steals 3; leave; b hears 3 "
      "granted; end 3; settle b; a blocks for 2 and loses 1; end 2",
  };
  for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
    enter_stage();
    for_each_step(stories[i], take_step, NULL);
    if (agent && other) check_clean();
    leave_stage();
  }
}

/* Processes the theft's event while this thread keeps `mu`. */
static void lose_meanwhile(void)
{
  steal_and_release();
  wlh_leave_tables(bucket);
}

TEST(between, "a theft that is heard of between two sections of a call leaves nothing unanswered")
{
  enum { RELEASE, ABORT, END, CALLS };
  for (int call = 0; call < CALLS; call++)
    for (bool more = true, first = true; more; first = false) {
      static int n;
      n = first ? 1 : n + 1;
      enum wlh_status status = WLH_STOLEN;
      enter_stage();
      CHECK(gets(1, &requests[1]));
      go_inside();
      until_lock = n;
      at_lock = lose_meanwhile;
      if (call == RELEASE) status = wlh_release_the_lock(requests[1], &events);
      if (call == ABORT) status = wlh_abort_the_request(requests[1], &events);
      if (call == END) wlh_end_the_request(requests[1]);
      more = at_lock == NULL;
      at_lock = NULL;
      if (!more) wlh_leave_tables(bucket);
      wlh_unlock_bucket(bucket, true);
      if (status == WLH_PENDING)
        CHECK(is_next(1, more ? WLK_NEWS_STOLEN : WLH_NEWS_RELEASED));
      else if (status == WLH_GRANTED && more)
        CHECK(is_next(1, WLK_NEWS_STOLEN));
      else if (status == WLH_GRANTED)
        wlh_end_the_request(requests[1]);
      else
        CHECK(status == WLH_STOLEN);
      check_clean();
      leave_stage();
    }
}

static _Atomic bool is_woken;

static void wake_late(void *unused)
{
  is_woken = true;
  wake(unused);
}

TEST(ended_first, "an agent that ends when it is about to be woken is not woken any more")
{
  struct wlk_thread thread = {1, NULL, 0};
  struct wlh_request *thief = NULL;
  struct wlh_agent *ending;
  enter_stage();
  CHECK(wlh_agent_create(bucket, &thread, wake_late, NULL, &ending) == WLH_OK);
  if (ask_as(ending, WLK_WAIT, 1, &requests[1]) == WLH_PENDING)
    CHECK(is_next_of(ending, 1, WLK_NEWS_GRANTED));
  go_inside();
  CHECK(ask_as(other, WLK_STEAL, 2, &thief) == WLH_PENDING);
  CHECK(wlh_do_deferred(bucket, 2) == WLH_DONE_ALL);
  wlh_leave_tables(bucket); /* takes the event of the theft */
  /* A separate list, because the helper may use the other one. */
  struct wlk_link to_wake;
  wlk_list_init(&to_wake);
  wlk_mutex_lock(&bucket->qmu);
  CHECK(ending->woken);
  wlk_list_remove(&ending->by_wake);
  wlk_list_append(&to_wake, &ending->by_wake);
  wlk_mutex_unlock(&bucket->qmu);
  wlh_agent_terminate(ending);
  CHECK(wlk_list_is_empty(&to_wake));
  is_woken = false;
  wlh_unlock_bucket(bucket, true);
  CHECK(is_next_of(other, 2, WLK_NEWS_GRANTED));
  CHECK(!is_woken);
  wlh_end_the_request(thief);
  leave_stage();
}

/* ---- sections that cannot begin ---- */

TEST(
    word_of_the_dead,
    "a process repairs what a dead one left half done, or leaves it to the next one if it cannot")
{
  const uint64_t dead = UINT64_C(77) << 16 | (200 + 1);
  struct wlh_request *request = NULL;
  enter_stage();
  wlk_mutex_lock(&bucket->mu);
  uint64_t before = seen->header.rebuilds;
  atomic_store(&seen->header.word, dead);
  CHECK(wlh_enter(bucket) == WLH_IN);
  CHECK(seen->header.rebuilds > before);
  wlh_leave_tables(bucket);
  CHECK(atomic_load(&seen->header.word) == 0);
  expel();
  atomic_store(&seen->header.word, dead);
  CHECK(wlh_enter(bucket) == WLH_TORN);
  CHECK(atomic_load(&seen->header.word) == dead);
  wlh_unlock_bucket(bucket, false);
  /* The next owner is this process, as a new member. */
  uint64_t rebuilds = seen->header.rebuilds;
  CHECK(gets(1, &request));
  CHECK(seen->header.rebuilds > rebuilds);
  CHECK(atomic_load(&seen->header.word) != dead);
  wlh_end_the_request(request);
  leave_stage();
}

TEST(
    mail_of_others,
    "a process that was taken for dead takes no mail of the one that has its number now")
{
  struct wlh_request *request = NULL;
  enter_stage();
  CHECK(gets(1, &request));
  wlk_mutex_lock(&bucket->mu);
  uint32_t number = bucket->arena.member, cell = request->cell;
  expel();
  seen->cells[cell].kind = WLH_KIND_NEWS_HELD;
  seen->members[number].mailbox = (struct wlh_list){cell, cell};
  uint32_t bell = 5 << 2 | 2; /* sent */
  atomic_store(&seen->members[number].wake_up, bell);
  wlk_mutex_unlock(&bucket->mu);
  while (!wlh_is_lost(bucket)) CHECK(!wlh_try_enter(bucket, NULL));
  CHECK(is_next(1, WLH_NEWS_LOST));
  CHECK(seen->cells[cell].kind == WLH_KIND_NEWS_HELD);
  CHECK(atomic_load(&seen->members[number].wake_up) == bell);
  CHECK(atomic_load(&seen->header.word) == 0);
  leave_stage();
}

int main(void)
{
  return run_tests();
}
