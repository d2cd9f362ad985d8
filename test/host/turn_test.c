/* Turns of one process, seen from inside of it: what was put off keeps its place, and a turn that
 * cannot begin changes nothing. The linker puts wrappers around the call that makes a request in
 * the tables, and the one that maps the file (processes.mk). */
#include "../core/harness.h"

#include "../../src/host/host.h"
#include "../../src/host/member/deferred.h"
#include "../../src/host/member/helper.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/arena.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const uint16_t name[] = {'n'};
static char directory[64];
static struct wlh_bucket *bucket;
static struct wlh_agent *agent, *other; /* of one thread, so that all calls are in one order */
static struct wlh_segment *seen;        /* a mapping of our own, which no loss takes away */
static struct wlk_event items[16];
static struct wlk_events events = {.items = items, .capacity = 16};

/* ---- events ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool woken;     /* mutex */
static unsigned wakes; /* of `agent`, mutex */

static void wake(void *data)
{
  (void)pthread_mutex_lock(&mutex);
  if (data) ++*(unsigned *)data;
  woken = true;
  (void)pthread_cond_signal(&came);
  (void)pthread_mutex_unlock(&mutex);
}

/* Waits for an agent's next event, of all that were not taken yet. One with tag 0 if none comes. */
static struct wlk_event next_event(struct wlh_agent *whose)
{
  struct wlk_events one = {.items = items, .capacity = 1};
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 20; /* far more than it takes */
  for (;;) {
    wlh_agent_take_events(whose, true, &one);
    if (one.count > 0) return items[0];
    (void)pthread_mutex_lock(&mutex);
    int error = 0;
    while (!woken && error == 0) error = pthread_cond_timedwait(&came, &mutex, &until);
    woken = false;
    (void)pthread_mutex_unlock(&mutex);
    if (error != 0) return (struct wlk_event){0};
  }
}

static bool is_next_of(struct wlh_agent *whose, uint32_t tag, uint32_t news)
{
  struct wlk_event event = next_event(whose);
  return event.tag == tag && event.news == news;
}

static bool is_next(uint32_t tag, uint32_t news)
{
  return is_next_of(agent, tag, news);
}

/* ---- steps ---- */

static struct wlh_request *to_give_up; /* as soon as it is in the tables; NULL: none */

enum wlh_cells_status __real_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);
enum wlh_cells_status __wrap_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer);
enum wlh_cells_status __wrap_wlh_cells_request_a_lock(
    struct wlh_arena *arena, const struct wlh_ask *ask, struct wlh_answer *answer)
{
  struct wlh_request *request = to_give_up;
  enum wlh_cells_status status = __real_wlh_cells_request_a_lock(arena, ask, answer);
  to_give_up = NULL; /* once */
  if (request) CHECK(wlh_abort_the_request(request, &events) == WLH_OK);
  return status;
}

static _Atomic bool maps_no_more; /* as where a map is made anew for a file that has grown */

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

/* Whether another member gives room back as soon as the file has grown. */
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

/* ---- the stage ---- */

static void map_file(void)
{
  char path[400] = "";
  DIR *found = opendir(directory);
  struct dirent *entry;
  while (found && (entry = readdir(found)))
    if (entry->d_name[0] != '.')
      (void)snprintf(path, sizeof path, "%s/%s/bucket", directory, entry->d_name);
  if (found) (void)closedir(found);
  int file = open(path, O_RDWR | O_CLOEXEC);
  size_t size = (size_t)wlh_segment_bytes(WLH_CELLS_LEAST);
  seen = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file < 0 || seen == MAP_FAILED) abort();
  (void)close(file);
}

static void enter_stage(void)
{
  struct wlk_thread thread = {1, NULL, 0};
  (void)snprintf(directory, sizeof directory, "/dev/shm/web-locks-turn-XXXXXX");
  if (!mkdtemp(directory)) abort();
  CHECK(wlh_bucket_open(directory, name, 1, "1", &bucket) == WLH_OK);
  CHECK(wlh_agent_create(bucket, &thread, wake, &wakes, &agent) == WLH_OK);
  CHECK(wlh_agent_create(bucket, &thread, wake, NULL, &other) == WLH_OK);
  CHECK(wlh_bucket_open_file(agent, 99) == WLH_PENDING);
  CHECK(is_next(99, WLH_NEWS_READY));
  map_file();
}

static void leave_stage(void)
{
  char command[128];
  if (agent) wlh_agent_terminate(agent);
  if (other) wlh_agent_terminate(other);
  wlh_bucket_close(bucket);
  (void)munmap(seen, (size_t)wlh_segment_bytes(WLH_CELLS_LEAST));
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  CHECK(system(command) == 0);
}

/* Gets inside, so that whatever is asked for is put off. */
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

static enum wlh_status ask_for(
    const uint16_t *what, uint32_t length, uint32_t tag, struct wlh_request **request)
{
  return wlh_request_a_lock(
      agent, what, length, WLK_EXCLUSIVE, WLK_WAIT, tag, NULL, request, &events);
}

/* Whether the name is granted, at once or by an event. */
static bool is_granted(uint32_t tag, struct wlh_request **request)
{
  enum wlh_status status = ask_for(name, 1, tag, request);
  return status == WLH_GRANTED || (status == WLH_PENDING && is_next(tag, WLK_NEWS_GRANTED));
}

/* ---- what was put off ---- */

TEST(keeps_place, "a request for which the file has to grow first stays before those behind it")
{
  static uint16_t long_name[WLH_NAME_MOST];
  struct wlh_request *first = NULL;
  struct wlh_request *second = NULL;
  enter_stage();
  uint32_t ncells = seen->header.ncells;
  go_inside();
  CHECK(ask_for(long_name, WLH_NAME_MOST, 1, &first) == WLH_PENDING);
  CHECK(ask_for(long_name, WLH_NAME_MOST, 2, &second) == WLH_PENDING);
  wlh_leave(bucket);
  CHECK(is_next(1, WLK_NEWS_GRANTED));
  CHECK(seen->header.ncells > ncells);
  wlh_end_the_request(first);
  CHECK(is_next(2, WLK_NEWS_GRANTED));
  wlh_end_the_request(second);
  leave_stage();
}

TEST(
    cannot_map_own,
    "if the file grows and cannot be mapped, who needs the room is told, others go on")
{
  static uint16_t long_name[WLH_NAME_MOST];
  struct wlh_request *first = NULL, *second = NULL;
  char text[WLH_FAILURE_SIZE];
  enter_stage();
  maps_no_more = true;
  CHECK(ask_for(long_name, WLH_NAME_MOST, 1, &first) == WLH_PENDING);
  struct wlk_event event = next_event(agent);
  maps_no_more = false;
  CHECK(event.tag == 1 && event.news == WLH_NEWS_FAILED && event.token_low == WLH_FULL);
  wlh_bucket_get_failure(bucket, text, sizeof text);
  CHECK(strstr(text, "Cannot allocate memory"));
  CHECK(is_granted(2, &second));
  wlh_end_the_request(second);
  leave_stage();
}

TEST(
    cannot_map_others,
    "who cannot map what others have made larger loses the file, and is told why")
{
  struct wlh_request *lock = NULL, *next = NULL;
  char text[WLH_FAILURE_SIZE];
  enter_stage();
  CHECK(is_granted(1, &lock));
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
  CHECK(is_next_of(other, 2, WLK_NEWS_GRANTED)); /* in a file that is made anew */
  wlh_end_the_request(next);
  leave_stage();
}

/* Whether all that was put off is done, asked as an agent that has no other event. */
static void is_open_to(struct wlh_agent *who)
{
  enum wlh_status status = wlh_bucket_open_file(who, 98);
  if (status == WLH_PENDING) CHECK(is_next_of(who, 98, WLH_NEWS_READY));
}

static void is_open(void)
{
  is_open_to(agent);
}

TEST(room_taken, "who made room while another member gave some back makes it again")
{
  static uint16_t long_name[WLH_NAME_MOST];
  struct wlh_request *request = NULL;
  enter_stage();
  go_inside();
  CHECK(ask_for(long_name, WLH_NAME_MOST, 1, &request) == WLH_PENDING);
  grown = 0;
  shrinks_meanwhile = true;
  wlh_leave(bucket);
  CHECK(is_next(1, WLK_NEWS_GRANTED));
  CHECK(!shrinks_meanwhile && grown == 2);
  wlh_end_the_request(request);
  leave_stage();
}

TEST(
    room_looked_at, "room is given back as soon as nobody looks at it from outside, and not before")
{
  struct wlh_request *request = NULL;
  enter_stage();
  is_open();
  struct wlh_segment *segment = wlh_begin_look(bucket);
  CHECK(segment == wlh_begin_look(bucket)); /* two threads of a process */
  go_inside();
  given_back = 0;
  segment->header.slack = 1;
  wlh_leave(bucket);
  wlh_end_look(bucket, segment);
  CHECK(is_granted(1, &request));
  wlh_end_the_request(request);
  is_open();
  CHECK(given_back == 0);
  wlk_mutex_lock(&bucket->mu); /* so the helper does nothing */
  wlh_port_take_pokes(bucket->alarm);
  wlh_end_look(bucket, segment);
  struct pollfd alarm = {.fd = bucket->alarm.rings, .events = POLLIN};
  CHECK(poll(&alarm, 1, 0) == 1);
  wlk_mutex_unlock(&bucket->mu);
  is_open();
  CHECK(given_back == 1);
  leave_stage();
}

/* Makes a request of many cells, or ends it. With mu. */
static void use_cells(bool begins)
{
  static uint16_t long_name[WLH_NAME_MOST];
  static struct wlh_answer answer;
  struct wlh_ask ask = {.agent = agent->cell, .name = long_name, .name_units = WLH_NAME_MOST};
  CHECK(wlh_enter(bucket) == WLH_IN);
  if (begins)
    CHECK(wlh_cells_request_a_lock(&bucket->arena, &ask, &answer) == WLH_CELLS_GRANTED);
  else
    CHECK(wlh_cells_end_the_request(&bucket->arena, answer.request, ask.cookie) == WLH_CELLS_OK);
  wlh_leave_tables(bucket);
}

/* Whether cells are given up at the last of so many looks in a row. With mu. */
static bool are_given_up(int looks, bool idle)
{
  bool early = false;
  for (int i = 0; i < looks; i++) {
    early = early || seen->header.ncells == WLH_CELLS_AT_FIRST;
    wlh_helper_give_up_cells(bucket, idle);
  }
  return !early && seen->header.ncells == WLH_CELLS_AT_FIRST;
}

TEST(gives_up, "cells are given up at once if idle, and under load after ten looks in a row")
{
  for (int idle = 0; idle < 2; idle++) {
    struct wlh_request *request = NULL;
    enter_stage();
    CHECK(is_granted(1, &request)); /* makes the agent's cell */
    wlh_end_the_request(request);
    go_inside();
    bucket->arena.bytes = wlh_segment_bytes(4096);
    CHECK(wlh_port_grow(&bucket->port, bucket->arena.bytes) == 0);
    CHECK(wlh_cells_grow(&bucket->arena, 4096) == WLH_CELLS_OK);
    wlh_leave_tables(bucket);
    bucket->shrinkable_checks = 0;
    if (!idle) CHECK(!are_given_up(9, false));
    use_cells(true);
    CHECK(!are_given_up(1, idle));
    use_cells(false);
    CHECK(are_given_up(idle ? 1 : 10, idle));
    wlh_unlock_bucket(bucket, false);
    leave_stage();
  }
}

TEST(own_memory, "what a process knows of cells takes no memory once they are given up")
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

/* Whether all that was put off is done, nothing is left in the tables but agents, and no event. */
static void is_clean(void)
{
  struct wlk_events none = {.items = items, .capacity = 16};
  is_open();
  wlh_agent_take_events(other, true, &none);
  CHECK(none.count == 0);
  for (uint32_t i = 1; i < seen->header.high; i++)
    CHECK(seen->cells[i].kind == WLH_KIND_FREE || seen->cells[i].kind == WLH_KIND_AGENT);
}

static unsigned count_wakes(void)
{
  (void)pthread_mutex_lock(&mutex);
  unsigned count = wakes;
  (void)pthread_mutex_unlock(&mutex);
  return count;
}

/* Steals the name and gives it back, as if another process did: whom that robs has mail. Inside. */
static void rob(void)
{
  struct wlh_answer answer = {0};
  struct wlh_ask ask = {.agent = agent->cell, .option = WLH_STEAL, .name = name, .name_units = 1};
  ask.cookie = ++bucket->cookie;
  CHECK(wlh_cells_request_a_lock(&bucket->arena, &ask, &answer) == WLH_CELLS_GRANTED);
  CHECK(wlh_cells_end_the_request(&bucket->arena, answer.request, ask.cookie) == WLH_CELLS_OK);
}

/* ---- stories of what was put off ---- */

static struct wlh_request *requests[8]; /* by tag */

static uint32_t news_of(const char *word)
{
  return strcmp(word, "granted") == 0  ? WLK_NEWS_GRANTED
         : strcmp(word, "stolen") == 0 ? WLK_NEWS_STOLEN
                                       : WLH_NEWS_RELEASED;
}

/* Agent b is the `other` one. What "asks" may wait already; "steals" and "tries" are put off. */
static void take_step(char *step, void *unused)
{
  struct wlh_agent **who = step[0] == 'a' ? &agent : &other;
  unsigned tag = 0;
  char word[16] = "", letter = 0;
  (void)unused;
  if (sscanf(step, "%*c gets %u", &tag) == 1)
    CHECK(is_granted(tag, &requests[tag]));
  else if (sscanf(step, "%*c asks %u", &tag) == 1)
    (void)ask_as(*who, WLK_WAIT, tag, &requests[tag]);
  else if (sscanf(step, "%*c steals %u", &tag) == 1)
    CHECK(ask_as(*who, WLK_STEAL, tag, &requests[tag]) == WLH_PENDING);
  else if (sscanf(step, "%*c tries %u", &tag) == 1)
    CHECK(ask_as(*who, WLK_IF_AVAILABLE, tag, &requests[tag]) == WLH_PENDING);
  else if (sscanf(step, "%*c looks %u", &tag) == 1)
    CHECK(wlh_start_snapshot(*who, NULL, UINT32_MAX, true, tag) == WLH_PENDING);
  else if (sscanf(step, "%*c hears %u %15s", &tag, word) == 2)
    CHECK(is_next_of(*who, tag, news_of(word)));
  else if (sscanf(step, "release %u", &tag) == 1)
    CHECK(wlh_release_the_lock(requests[tag], &events) == WLH_PENDING);
  else if (sscanf(step, "abort %u", &tag) == 1)
    CHECK(wlh_abort_the_request(requests[tag], &events) == WLH_OK);
  else if (sscanf(step, "end %u", &tag) == 1)
    wlh_end_the_request(requests[tag]);
  else if (sscanf(step, "give up %u", &tag) == 1)
    to_give_up = requests[tag];
  else if (sscanf(step, "terminate %c", &letter) == 1)
    who = letter == 'a' ? &agent : &other, wlh_agent_terminate(*who), *who = NULL;
  else if (strcmp(step, "do one") == 0)
    CHECK(wlh_do_deferred(bucket, 1) == WLH_DONE_SOME && to_give_up == NULL);
  else if (strcmp(step, "rob") == 0)
    rob();
  else if (strcmp(step, "settle") == 0)
    is_open();
  else if (strcmp(step, "go inside") == 0)
    go_inside();
  else if (CHECK(strcmp(step, "leave") == 0))
    wlh_leave(bucket);
}

TEST(put_off, "what was put off is done in its order, or taken back, and leaves nothing")
{
  static const char *const stories[] = {
      /* Of a release and a theft the first one counts. */
      "a gets 1; go inside; release 1; b steals 2; leave; a hears 1 released; b hears 2 granted; "
      "end 2",
      "a gets 1; go inside; b steals 2; release 1; leave; a hears 1 stolen; b hears 2 granted; end "
      "2",
      /* A request whose abort is put off is not heard of, though it is granted first. */
      "a gets 1; b asks 2; settle; go inside; release 1; abort 2; a asks 3; leave; "
      "a hears 1 released; a hears 3 granted; end 3",
      /* Nor is one that is given up before it is made, or while it is. */
      "a gets 1; go inside; release 1; end 1; b asks 2; a tries 3; abort 2; leave; "
      "a hears 3 granted; end 3",
      "go inside; b asks 1; give up 1; do one; a tries 2; leave; a hears 2 granted; end 2",
      /* An agent, and a bucket, that end while all is put off let others in. */
      "a gets 1; a asks 2; go inside; release 1; a asks 3; terminate a; b asks 4; leave; "
      "b hears 4 granted; end 4",
      "a gets 1; b asks 2; go inside; release 1; abort 2; a steals 3; b looks 4; terminate a; "
      "terminate b; leave",
      /* A theft is heard of before the grant that it led to, of what was robbed by others, too. */
      "a gets 1; go inside; a steals 2; leave; a hears 1 stolen; a hears 2 granted; end 2",
      "a gets 1; go inside; rob; a asks 2; do one; leave; a hears 1 stolen; a hears 2 granted; end "
      "2",
      "a gets 1; go inside; rob; leave; a hears 1 stolen; a gets 2; end 2",
  };
  for (size_t i = 0; i < sizeof stories / sizeof *stories; i++) {
    enter_stage();
    for_each_step(stories[i], take_step, NULL);
    if (agent && other) is_clean();
    leave_stage();
  }
}

TEST(ended_first, "an agent that ends when it is about to be woken is not woken any more")
{
  struct wlh_request *lock = NULL, *thief = NULL;
  enter_stage();
  CHECK(is_granted(1, &lock));
  go_inside();
  CHECK(ask_as(other, WLK_STEAL, 2, &thief) == WLH_PENDING);
  CHECK(wlh_do_deferred(bucket, 2) == WLH_DONE_ALL);
  wlh_leave_tables(bucket); /* hears of the theft */
  /* In a list of our own: the helper may be at the other one. */
  struct wlk_link to_wake;
  wlk_list_init(&to_wake);
  wlk_mutex_lock(&bucket->qmu);
  CHECK(agent->woken);
  wlk_list_remove(&agent->by_wake);
  wlk_list_append(&to_wake, &agent->by_wake);
  wlk_mutex_unlock(&bucket->qmu);
  wlh_agent_terminate(agent);
  CHECK(wlk_list_is_empty(&to_wake));
  unsigned before = count_wakes();
  wlh_unlock_bucket(bucket, true);
  CHECK(is_next_of(other, 2, WLK_NEWS_GRANTED));
  CHECK(count_wakes() == before);
  agent = other;
  other = NULL;
  wlh_end_the_request(thief);
  leave_stage();
}

TEST(abort_too_late, "an abort after the grant, and a release after a theft, say what came first")
{
  struct wlh_request *lock = NULL, *waiting = NULL, *thief = NULL;
  enter_stage();
  CHECK(is_granted(1, &lock));
  go_inside();
  CHECK(ask_as(other, WLK_WAIT, 2, &waiting) == WLH_PENDING);
  wlh_leave(bucket);
  is_open();
  for (int inside = 0; inside < 2; inside++) {
    if (inside) go_inside(); /* where nothing can be done now, nothing is put off either */
    CHECK(wlh_abort_the_request(lock, &events) == WLH_GRANTED && events.count == 0);
    CHECK(wlh_release_the_lock(waiting, &events) == WLH_NOT_HELD);
    if (inside) wlh_leave(bucket);
  }
  is_open();
  wlh_end_the_request(lock);
  is_open();
  /* The event that says it is still to come. */
  CHECK(wlh_abort_the_request(waiting, &events) == WLH_GRANTED && events.count == 0);
  CHECK(is_next_of(other, 2, WLK_NEWS_GRANTED));
  if (ask_as(agent, WLK_STEAL, 3, &thief) == WLH_PENDING) CHECK(is_next(3, WLK_NEWS_GRANTED));
  CHECK(wlh_release_the_lock(waiting, &events) == WLH_STOLEN && events.thief_number == 1);
  wlh_end_the_request(thief);
  is_clean();
  leave_stage();
}

TEST(theft_in_wait, "a thread that blocks hears of thefts together with its grant")
{
  struct wlh_request *lock = NULL, *next = NULL, *thief = NULL;
  enter_stage();
  CHECK(is_granted(1, &lock));
  if (ask_as(agent, WLK_WAIT, 2, &next) == WLH_PENDING) is_open(); /* by now it waits */
  if (ask_as(other, WLK_STEAL, 3, &thief) == WLH_PENDING)
    CHECK(is_next_of(other, 3, WLK_NEWS_GRANTED));
  wlh_end_the_request(thief);
  is_open_to(other);
  CHECK(wlh_wait_for_the_lock(next, UINT64_C(10000000000), &events) == WLH_GRANTED);
  CHECK(events.count == 1 && items[0].tag == 1 && items[0].news == WLK_NEWS_STOLEN);
  wlh_end_the_request(next);
  is_clean();
  leave_stage();
}

static uint64_t steps; /* how often the exact clock was asked; 0: it tells the time as it is */

uint64_t __real_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact)
{
  static uint64_t before;
  uint64_t now = __real_wlk_port_now(exact);
  if (!exact || steps == 0) return now;
  if (steps++ == 2) return before - 1;
  return before = now;
}

TEST(clock_back, "a thread that blocks waits for its whole time, also if the clock steps back")
{
  struct wlk_thread thread = {2, NULL, 0};
  struct wlh_request *lock = NULL, *next = NULL;
  struct wlh_agent *holder;
  enter_stage();
  CHECK(wlh_agent_create(bucket, &thread, wake, NULL, &holder) == WLH_OK);
  if (ask_as(holder, WLK_WAIT, 1, &lock) == WLH_PENDING)
    CHECK(is_next_of(holder, 1, WLK_NEWS_GRANTED));
  if (ask_as(agent, WLK_WAIT, 2, &next) == WLH_PENDING) is_open(); /* by now it waits */
  uint64_t begin = __real_wlk_port_now(true);
  steps = 1;
  CHECK(wlh_wait_for_the_lock(next, 50, &events) == WLH_PENDING);
  steps = 0;
  CHECK(__real_wlk_port_now(true) - begin >= 50);
  wlh_end_the_request(next);
  wlh_end_the_request(lock);
  wlh_agent_terminate(holder);
  is_clean();
  leave_stage();
}

/* ---- turns that cannot begin ---- */

/* Others have taken us for dead, and given our number to somebody else. */
static void expel(void)
{
  seen->members[bucket->arena.member].id ^= 1;
}

TEST(word_of_the_dead, "who cannot repair what a dead process left leaves it to the next one")
{
  const uint64_t dead = UINT64_C(77) << 16 | (200 + 1);
  struct wlh_request *request = NULL;
  enter_stage();
  wlk_mutex_lock(&bucket->mu);
  expel();
  atomic_store(&seen->header.word, dead);
  CHECK(wlh_enter(bucket) == WLH_TORN);
  CHECK(atomic_load(&seen->header.word) == dead);
  wlh_unlock_bucket(bucket, false);
  /* The next one is ourselves, in the next life. */
  uint64_t rebuilds = seen->header.rebuilds;
  CHECK(is_granted(1, &request));
  CHECK(seen->header.rebuilds > rebuilds);
  CHECK(atomic_load(&seen->header.word) != dead);
  wlh_end_the_request(request);
  leave_stage();
}

TEST(half_done, "who enters after a dead process repairs what that one may have left half done")
{
  const uint64_t dead = UINT64_C(77) << 16 | (200 + 1);
  enter_stage();
  wlk_mutex_lock(&bucket->mu);
  uint64_t rebuilds = seen->header.rebuilds;
  atomic_store(&seen->header.word, dead);
  CHECK(wlh_enter(bucket) == WLH_IN);
  CHECK(seen->header.rebuilds > rebuilds);
  wlh_leave_tables(bucket);
  CHECK(atomic_load(&seen->header.word) == 0);
  wlh_unlock_bucket(bucket, false);
  leave_stage();
}

TEST(mail_of_others, "one taken for dead takes no mail of the one that has its number now")
{
  struct wlh_request *request = NULL;
  enter_stage();
  CHECK(is_granted(1, &request));
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
