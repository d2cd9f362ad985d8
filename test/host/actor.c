/* A process of the host scope that executes lines from its standard input (see play()). It answers
 * each line with one line; in between it prints events, as lines that begin with "event". */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/host.h"
#include "../../src/host/member/records.h"
#include "../../src/host/member/section.h"
#include "../../src/host/segment/arena.h"
#include "../../src/host/segment/rebuild.h"
#include "../../src/host/segment/verify.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if !defined(VERSION)
#define VERSION "1.2.3"
#endif

enum { TAGS = 4096, EVENTS = 64, LINE = 512 };

static struct wlh_bucket *bucket;
static struct wlh_agent *agent, *idle; /* `idle`, of another thread, requests nothing */
static struct wlh_request *requests[TAGS];
static struct wlk_event event_items[EVENTS];
static struct wlk_events events = {.items = event_items, .capacity = EVENTS};
static int woken;

static const char *const names[] = {
#define NAME(name) [name] = #name
    NAME(WLH_OK),         NAME(WLH_GRANTED),   NAME(WLH_PENDING),  NAME(WLH_NOT_AVAILABLE),
    NAME(WLH_STOLEN),     NAME(WLH_NOT_HELD),  NAME(WLH_DEADLOCK), NAME(WLH_OTHER_LIMIT),
    NAME(WLH_QUEUE_FULL), NAME(WLH_NO_MEMORY), NAME(WLH_VERSION),  NAME(WLH_UNSUPPORTED),
    NAME(WLH_FULL),       NAME(WLH_LOST),      NAME(WLH_CLOSED),
#undef NAME
};

static void say(const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)vprintf(format, arguments);
  va_end(arguments);
  (void)putchar('\n');
  (void)fflush(stdout);
}

/* ---- steps_test.c single-steps a call, in this thread or in its helper ---- */

static enum { UNTRACED, TRACED, HELPER_TRACED } tracing; /* of the next call */

static void begin_trace(void)
{
  if (tracing == UNTRACED) return;
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (tracing == TRACED) (void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  (void)raise(SIGSTOP);
}

/* Only the tracer sees this signal: otherwise it is ignored. */
static void end_trace(bool answered)
{
  struct pollfd poll_woken = {woken, POLLIN, 0};
  if (tracing == UNTRACED) return;
  while (tracing == HELPER_TRACED && !answered && poll(&poll_woken, 1, -1) <= 0) continue;
  tracing = UNTRACED;
  (void)raise(SIGURG);
}

static enum wlh_status traced(enum wlh_status status)
{
  end_trace(status != WLH_PENDING);
  return status;
}

#define CALL(call) (begin_trace(), traced(call))

static void wake(void *data)
{
  uint64_t one = 1;
  ssize_t written = write(woken, &one, sizeof one);
  (void)written;
  (void)data;
}

static void tell(const struct wlk_event *event)
{
  static const char *const words[] = {"granted",     "stolen",     "passed", "not-available",
                                      "other-limit", "queue-full", "failed", "lost",
                                      "released",    "snapshot",   "ready"};
  uint32_t goes_on = WLK_NEWS_GRANTED | WLH_NEWS_READY | WLH_NEWS_SNAPSHOT;
  if (event->news & ~goes_on) requests[event->tag] = NULL;
  for (uint32_t bit = 0; bit < sizeof words / sizeof *words; bit++) {
    uint32_t news = 1u << bit;
    bool has_status = news == WLH_NEWS_FAILED || news == WLH_NEWS_READY;
    if (event->news & news)
      say("event %u %s%s%s", event->tag, words[bit], has_status ? " " : "",
          has_status ? names[event->token_low] : "");
  }
}

static void show(uint32_t tag)
{
  struct wlh_snapshot *snapshot;
  enum wlh_status status = wlh_fetch_snapshot(agent, tag, &snapshot);
  if (status != WLH_OK) {
    say("event %u snapshot %s", tag, names[status]);
    return;
  }
  size_t held = 0;
  for (size_t i = 0; i < snapshot->base.lock_count; i++) held += snapshot->base.locks[i].held;
  say("event %u snapshot held %zu pending %zu clients %zu", tag, held,
      snapshot->base.lock_count - held, snapshot->base.client_count);
  wlh_snapshot_free(snapshot);
}

static void take(bool answer)
{
  do {
    if (answer) wlh_agent_take_events(agent, true, &events);
    for (size_t i = 0; i < events.count; i++) {
      if (event_items[i].news & WLH_NEWS_SNAPSHOT)
        show(event_items[i].tag);
      else
        tell(&event_items[i]);
    }
  } while (answer && events.count == EVENTS);
}

static void answer_release(unsigned tag)
{
  enum wlh_status status = WLH_STOLEN; /* as its event reported */
  if (requests[tag]) status = CALL(wlh_release_the_lock(requests[tag], &events));
  say("%u %s", tag, names[status]);
  take(false);
}

static void answer_abort(unsigned tag)
{
  enum wlh_status status = CALL(wlh_abort_the_request(requests[tag], &events));
  say("%u %s", tag, names[status]);
  if (status == WLH_OK) take(false);
}

static void publish(unsigned tag, unsigned job)
{
  enum wlh_status status = wlh_publish(requests[tag], u"x", 1, &events);
  if (status == WLH_PENDING) status = wlh_publish_later(requests[tag], u"x", 1, job);
  say("%u %s", job, names[status]);
  take(false);
}

static uint32_t to_units(const char *name, uint16_t units[LINE])
{
  uint32_t length = 0;
  for (; name[length]; length++) units[length] = (unsigned char)name[length];
  return length;
}

static void ask(unsigned tag, const char *name, char mode, char option)
{
  uint16_t units[LINE];
  uint32_t length = to_units(name, units);
  enum wlk_option how = option == 'i' ? WLK_IF_AVAILABLE : option == 's' ? WLK_STEAL : WLK_WAIT;
  enum wlh_status status = CALL(wlh_request_a_lock(
      agent, units, length, mode == 's' ? WLK_SHARED : WLK_EXCLUSIVE, how, tag, NULL,
      &requests[tag], &events));
  say("%u %s", tag, names[status]);
  take(false);
}

static void open_bucket(const char *directory, const char *name, const char *version)
{
  uint16_t units[LINE];
  uint32_t length = to_units(name, units);
  struct wlk_thread thread = {1, NULL, 0};
  enum wlh_status status = wlh_bucket_open(directory, units, length, version, &bucket);
  if (status == WLH_OK) status = wlh_agent_create(bucket, &thread, wake, NULL, &agent);
  thread.id = 2;
  if (status == WLH_OK) status = wlh_agent_create(bucket, &thread, wake, NULL, &idle);
  say("open %s", names[status]);
}

static void close_bucket(void)
{
  begin_trace();
  wlh_agent_terminate(idle);
  wlh_agent_terminate(agent);
  wlh_bucket_close(bucket);
  end_trace(true);
  say("close");
}

static void terminate(void)
{
  begin_trace();
  wlh_agent_terminate(agent);
  end_trace(true);
}

static void say_member(void)
{
  say("member %u", bucket->arena.member);
}

/* Reaps the dead members, checks the tables, and counts the cells in use. */
static void say_cells(void)
{
  while (!wlh_try_enter(bucket, NULL)) continue;
  struct wlh_arena *arena = &bucket->arena;
  (void)wlh_cells_reap(arena);
  const char *broken = wlh_cells_check(arena);
  uint32_t count = arena->ncells - wlh_cells_free_count(arena);
  wlh_leave(bucket);
  say("cells %u %s", count, broken ? broken : "");
}

/* Uses up all cells but one, with as few locks as possible: each has the longest label that fits. A
 * 64th of the cells is reserved for thefts. */
static void fill_cells(void)
{
  static const uint16_t zeros[WLH_LABEL_MOST];
  for (enum wlh_status status = WLH_GRANTED; status == WLH_GRANTED;) {
    while (!wlh_try_enter(bucket, NULL)) continue;
    uint32_t ncells = bucket->arena.ncells;
    uint32_t left = wlh_cells_free_count(&bucket->arena) - ncells / 64;
    wlh_leave(bucket);
    if (left <= 1) return say("filled");
    /* The first lock also takes cells for a name and an agent. */
    bool is_plenty = left > WLH_LABEL_MOST / WLH_TEXT_UNITS + 5;
    uint32_t units = is_plenty ? WLH_LABEL_MOST : (left - 2) * WLH_TEXT_UNITS;
    struct wlk_extra extra = {.label = zeros, .label_length = units};
    status =
        wlh_request_a_lock(agent, u"n", 1, WLK_SHARED, WLK_WAIT, 0, &extra, &requests[0], &events);
  }
}

/* Says whether the helper still checks the files although no call has used them since it did. */
static void say_checked(void)
{
  wlk_mutex_lock(&bucket->mu);
  const char *is_checked = !bucket->is_checked ? "no" : bucket->used ? "not known" : "yes";
  wlk_mutex_unlock(&bucket->mu);
  say("is_checked %s", is_checked);
}

/* Waits until the helper has finished the work that it does after opening. */
static void settle(void)
{
  for (bool settled = false; !settled; (void)poll(NULL, 0, 1)) {
    wlk_mutex_lock(&bucket->mu);
    settled = bucket->raise_at == 0;
    wlk_mutex_unlock(&bucket->mu);
  }
  struct pollfd poll_woken = {woken, POLLIN, 0};
  if (wlh_start_snapshot(agent, NULL, UINT32_MAX, false, 0) == WLH_PENDING)
    while (poll(&poll_woken, 1, -1) <= 0) continue;
  wlh_cancel_job(agent, 0);
  say("settled");
}

static void say_why(void)
{
  char text[1500];
  wlh_bucket_get_failure(bucket, text, sizeof text);
  say("why %s", text);
}

static void stop_inside(void)
{
  while (!wlh_try_enter(bucket, agent)) continue;
  (void)raise(SIGSTOP);
  wlh_leave(bucket);
  say("went on");
}

/* Imitates other code that closes our descriptor. */
static void close_file(void)
{
  (void)close(bucket->port.file);
  say("closed");
}

/* poll refuses more items than the limit. */
static void limit_descriptors(void)
{
  const struct rlimit few = {200, 200};
  say(setrlimit(RLIMIT_NOFILE, &few) == 0 ? "limited" : "not limited");
}

static void use_up_descriptors(void)
{
  while (dup(0) >= 0) continue;
  say("none left");
}

/* Counts the open descriptors of the library: those with FD_CLOEXEC. */
static int count_descriptors(void)
{
  int count = 0;
  for (int i = 0; i < 2048; i++) {
    int flags = fcntl(i, F_GETFD);
    count += i != woken && flags >= 0 && (flags & FD_CLOEXEC) != 0;
  }
  return count;
}

/* Forks a child that requests a lock, once another process watches this one. */
static void fork_child(void)
{
  for (int i = 0; i < 2000 && bucket->accepted[0] < 0; i++) (void)poll(NULL, 0, 1);
  if (fork() != 0) return;
  struct wlh_request *request;
  enum wlh_status status =
      wlh_request_a_lock(agent, u"f", 1, WLK_EXCLUSIVE, WLK_WAIT, 0, NULL, &request, &events);
  say("child %s with %d descriptors", names[status], count_descriptors());
  (void)pause();
  _exit(0);
}

/* Raises a SIGBUS that is not the library's: it ends the process, or our handler exits with 42. */
static void touch_nothing(void)
{
  int file = memfd_create("bus", MFD_CLOEXEC);
  volatile char *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  map[0] = 1;
}

static void on_bus(int signal)
{
  (void)signal;
  _exit(42);
}

static void handle_bus(void)
{
  (void)signal(SIGBUS, on_bus);
  say("handled");
}

/* Imitates a library that restores the handler of the process's start. */
static void reset_bus(void)
{
  (void)signal(SIGBUS, SIG_DFL);
  say("reset");
}

static const struct {
  const char *line;
  void (*act)(void);
} lines[] = {
    {"close", close_bucket},
    {"terminate", terminate},
    {"cells", say_cells},
    {"fill", fill_cells},
    {"member", say_member},
    {"is_checked", say_checked},
    {"settle", settle},
    {"why", say_why},
    {"stop-inside", stop_inside},
    {"close-file", close_file},
    {"descriptors", use_up_descriptors},
    {"limit", limit_descriptors},
    {"fork", fork_child},
    {"bus", touch_nothing},
    {"handle-bus", handle_bus},
    {"reset-bus", reset_bus}};

static void play(char *line)
{
  char first[LINE], second[LINE];
  char third[LINE] = VERSION;
  unsigned tag, job;
  char mode, option;
  events.count = 0;
  line[strcspn(line, "\n")] = '\0';
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
    if (strcmp(line, lines[i].line) == 0) return lines[i].act();
  if (sscanf(line, "open %500s %500s %15s", first, second, third) >= 2)
    open_bucket(first, second, third);
  else if (sscanf(line, "ask %u %500s %c %c", &tag, first, &mode, &option) == 4)
    ask(tag, first, mode, option);
  else if (sscanf(line, "release %u", &tag) == 1)
    answer_release(tag);
  else if (sscanf(line, "abort %u", &tag) == 1)
    answer_abort(tag);
  else if (sscanf(line, "publish %u %u", &tag, &job) == 2)
    publish(tag, job);
  else if (sscanf(line, "end %u", &tag) == 1)
    wlh_end_the_request(requests[tag]), say("%u ended", tag);
  else if (sscanf(line, "cell %u", &tag) == 1)
    say("cell %u", requests[tag] ? requests[tag]->cell : 0);
  else if (sscanf(line, "trace %c", &mode) == 1)
    tracing = mode == 'h' ? HELPER_TRACED : TRACED;
  else if (sscanf(line, "ready %u", &tag) == 1)
    say("%u %s", tag, names[CALL(wlh_bucket_open_file(agent, tag))]);
  else if (sscanf(line, "query %u", &tag) == 1)
    say("%u %s", tag, names[CALL(wlh_start_snapshot(agent, NULL, UINT32_MAX, true, tag))]);
  else
    say("what? %s", line);
}

int main(void)
{
  char line[LINE * 3];
  uint64_t count;
  woken = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  (void)setvbuf(stdin, NULL, _IONBF, 0);
  for (;;) {
    struct pollfd polls[] = {{0, POLLIN, 0}, {woken, POLLIN, 0}};
    if (poll(polls, 2, -1) < 0) continue;
    if (polls[1].revents & POLLIN) {
      if (read(woken, &count, sizeof count) > 0) take(true);
    } else if (polls[0].revents) {
      if (!fgets(line, sizeof line, stdin)) return 0;
      play(line);
    }
  }
}
