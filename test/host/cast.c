/* See cast.h. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "cast.h"

#include "../../src/host/segment/segment.h"
#include "../core/harness.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST_MS = 20000, MOST_ACTORS = 600 };

char directory[128];
struct played a, b, c;
const char *current_step = "none";
static char actor_path[500];
static pid_t pids[MOST_ACTORS];
static int pid_count;

/* Kills all actors and their children. */
static void kill_all(void)
{
  for (int i = 0; i < pid_count; i++) {
    (void)kill(pids[i], SIGKILL);
    (void)kill(-pids[i], SIGKILL);
    while (waitpid(pids[i], NULL, 0) < 0 && errno == EINTR) {
    }
  }
  pid_count = 0;
}

static void fail(struct played *actor, const char *what)
{
  fprintf(stderr, "waited in vain for: %s\nin the step: %s\n", what, current_step);
  if (actor) fprintf(stderr, "the actor said:\n%.*s\n", (int)actor->length, actor->text);
  kill_all();
  exit(1);
}

void begin_play(void)
{
  char self[480] = "";
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) exit(1);
  *strrchr(self, '/') = '\0';
  (void)snprintf(actor_path, sizeof actor_path, "%s/actor", self);
  (void)snprintf(directory, sizeof directory, "/dev/shm/web-locks-test-XXXXXX");
  if (!mkdtemp(directory)) exit(1);
  (void)signal(SIGPIPE, SIG_IGN);
  pid_count = 0;
}

void end_play(void)
{
  char command[256];
  kill_all();
  (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
  if (system(command) != 0) exit(1);
}

static void start_program(struct played *actor, const char *path)
{
  int in[2], out[2];
  memset(actor, 0, sizeof *actor);
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) exit(1);
  actor->pid = fork();
  if (actor->pid == 0) {
    (void)setpgid(0, 0); /* so that its children can be killed with it */
    (void)dup2(in[0], 0);
    (void)dup2(out[1], 1);
    (void)execl(path, "actor", (char *)NULL);
    _exit(127);
  }
  (void)close(in[0]);
  (void)close(out[1]);
  actor->in = in[1];
  actor->out = out[0];
  if (pid_count < MOST_ACTORS) pids[pid_count++] = actor->pid;
}

void start(struct played *actor)
{
  start_program(actor, actor_path);
}

/* Starts an actor built with another table layout, as version 99.0.0. */
static void start_next(struct played *actor)
{
  char path[sizeof actor_path + 8];
  (void)snprintf(path, sizeof path, "%s-next", actor_path);
  start_program(actor, path);
}

void enter(struct played *actor)
{
  start(actor);
  tell(actor, "open %s b", directory);
  hear(actor, "open WLH_OK");
  tell(actor, "ready 4000");
  hear(actor, "4000 WLH_PENDING");
  hear(actor, "event 4000 ready WLH_OK");
  char number[16];
  tell(actor, "member");
  hear_rest(actor, "member ", number, sizeof number);
  actor->member = (unsigned)atoi(number);
}

void tell(struct played *actor, const char *format, ...)
{
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  line[length++] = '\n';
  if (write(actor->in, line, (size_t)length) != length) fail(actor, "its standard input");
}

/* Finds a line with this beginning, or the whole line if `exact`. */
static char *find_line(struct played *actor, const char *text, bool exact)
{
  size_t length = strlen(text);
  for (char *line = actor->text; line < actor->text + actor->length;) {
    char *end = memchr(line, '\n', (size_t)(actor->text + actor->length - line));
    if (!end) return NULL;
    size_t has = (size_t)(end - line);
    if (has >= length && memcmp(line, text, length) == 0 && (!exact || has == length)) return line;
    line = end + 1;
  }
  return NULL;
}

static bool read_more(struct played *actor, int timeout)
{
  struct pollfd poll_out = {actor->out, POLLIN, 0};
  if (poll(&poll_out, 1, timeout) <= 0) return false;
  ssize_t got = read(actor->out, actor->text + actor->length, sizeof actor->text - actor->length);
  if (got <= 0) return false;
  actor->length += (size_t)got;
  return true;
}

static void take_line(struct played *actor, char *line, char *rest, size_t size, size_t skip)
{
  char *end = memchr(line, '\n', (size_t)(actor->text + actor->length - line));
  if (rest) (void)snprintf(rest, size, "%.*s", (int)(end - line - (ptrdiff_t)skip), line + skip);
  memmove(line, end + 1, (size_t)(actor->text + actor->length - end - 1));
  actor->length -= (size_t)(end + 1 - line);
}

long now_ms(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void hear_rest(struct played *actor, const char *beginning, char *rest, size_t size)
{
  char *line;
  long until = now_ms() + LONGEST_MS;
  while (!(line = find_line(actor, beginning, rest == NULL))) {
    long left = until - now_ms();
    if (left <= 0 || !read_more(actor, (int)left)) fail(actor, beginning);
  }
  take_line(actor, line, rest, size, strlen(beginning));
}

void hear(struct played *actor, const char *format, ...)
{
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  hear_rest(actor, line, NULL, 0);
}

void ask_for(struct played *actor, const char *line, const char *answer)
{
  tell(actor, "%s", line);
  hear(actor, "%s", answer);
}

void hear_either(struct played *actor, int tag, const char *answer, const char *event)
{
  char beginning[32], rest[100];
  (void)snprintf(beginning, sizeof beginning, "%d ", tag);
  hear_rest(actor, beginning, rest, sizeof rest);
  if (strcmp(rest, answer) == 0) return;
  if (strcmp(rest, "WLH_PENDING") != 0) fail(actor, answer);
  hear(actor, "event %d %s", tag, event);
}

void acquire(struct played *actor, const char *line)
{
  tell(actor, "%s", line);
  hear_either(actor, atoi(line + 4), "WLH_GRANTED", "granted");
}

void release(struct played *actor, int tag)
{
  tell(actor, "release %d", tag);
  hear_either(actor, tag, "WLH_OK", "released");
}

/* Waits until the actor's helper reports that it checks the files ("yes") or not ("no"): it has
 * then done all its work. */
static void await_checked(struct played *actor, const char *answer)
{
  char is_checked[16];
  long until = now_ms() + LONGEST_MS;
  do {
    if (now_ms() > until) fail(actor, answer);
    tell(actor, "is_checked");
    hear_rest(actor, "is_checked ", is_checked, sizeof is_checked);
  } while (strcmp(is_checked, answer) != 0);
}

static bool has_said(struct played *actor, const char *line)
{
  while (read_more(actor, 0)) {
  }
  return find_line(actor, line, true) != NULL;
}

/* Opens again, which may succeed meanwhile. If it fails again, no descriptor is left of that. */
static void fail_again(struct played *actor)
{
  char path[64], rest[100];
  (void)snprintf(path, sizeof path, "/proc/%d/fd", (int)actor->pid);
  int descriptors = count_in(path);
  ask_for(actor, "ask 1 n x w", "1 WLH_PENDING");
  hear_rest(actor, "event 1 ", rest, sizeof rest);
  if (strcmp(rest, "granted") == 0) return release(actor, 1);
  CHECK(strncmp(rest, "failed ", 7) == 0 && count_in(path) == descriptors);
}

void expect_failure(struct played *actor, const char *status, const char *text)
{
  char why[2000];
  ask_for(actor, "ask 1 n x w", "1 WLH_PENDING");
  hear(actor, "event 1 failed %s", status);
  tell(actor, "why");
  hear_rest(actor, "why ", why, sizeof why);
  if (!CHECK(strstr(why, text) != NULL)) printf("# the reason was: %s\n", why);
  fail_again(actor);
}

/* Checks that each of the two processes sees the other's lock. */
static void check_shared(struct played *one, struct played *other)
{
  acquire(one, "ask 2001 again x w");
  tell(other, "ask 2002 again x i");
  hear_either(other, 2002, "WLH_NOT_AVAILABLE", "not-available");
  tell(other, "ask 2003 again x w");
  hear(other, "2003 WLH_PENDING");
  release(one, 2001);
  hear(other, "event 2003 granted");
  release(other, 2003);
}

static void wait_for(struct played *actor, int options, const char *what)
{
  int status;
  if (waitpid(actor->pid, &status, options) != actor->pid) fail(actor, what);
}

void kill_it(struct played *actor)
{
  (void)kill(actor->pid, SIGKILL);
  wait_for(actor, 0, "its death");
}

static void wait_stopped(struct played *actor)
{
  wait_for(actor, WUNTRACED, "its stop");
}

bool is_inside(const struct played *actor)
{
  uint64_t word = 0;
  int file = open(bucket_path("bucket"), O_RDONLY | O_CLOEXEC);
  bool is_read = pread(file, &word, sizeof word, offsetof(struct wlh_header, word)) == sizeof word;
  if (file >= 0) (void)close(file);
  return is_read && (word & 0xffff) == actor->member + 1;
}

void stop_it(struct played *actor)
{
  (void)kill(actor->pid, SIGSTOP);
  wait_stopped(actor);
  while (is_inside(actor)) {
    go_on(actor);
    (void)kill(actor->pid, SIGSTOP);
    wait_stopped(actor);
  }
}

void go_on(struct played *actor)
{
  (void)kill(actor->pid, SIGCONT);
}

const char *bucket_path(const char *file)
{
  static char path[512];
  DIR *open = opendir(directory);
  struct dirent *entry;
  path[0] = '\0';
  while (open && (entry = readdir(open))) {
    if (strlen(entry->d_name) != 24) continue;
    (void)snprintf(path, sizeof path, "%s/%.200s/%s", directory, entry->d_name, file);
  }
  if (open) (void)closedir(open);
  return path;
}

/* ---- this process as a member ---- */

struct wlh_bucket *bucket;
struct wlh_agent *agent;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t came = PTHREAD_COND_INITIALIZER;
static bool woken; /* mutex */

void wake(void *unused)
{
  (void)unused;
  (void)pthread_mutex_lock(&mutex);
  woken = true;
  (void)pthread_cond_signal(&came);
  (void)pthread_mutex_unlock(&mutex);
}

void begin_member(const char *name)
{
  struct wlk_thread thread = {1, NULL, 0};
  uint16_t units[16];
  uint32_t length = 0;
  for (; name[length]; length++) units[length] = (unsigned char)name[length];
  CHECK(wlh_bucket_open(directory, units, length, "1.2.3", &bucket) == WLH_OK);
  CHECK(wlh_agent_create(bucket, &thread, wake, NULL, &agent) == WLH_OK);
}

void end_member(void)
{
  if (agent) wlh_agent_terminate(agent);
  wlh_bucket_close(bucket);
  agent = NULL;
  bucket = NULL;
}

struct wlk_event next_event(struct wlh_agent *whose)
{
  struct wlk_event event;
  struct wlk_events one = {.items = &event, .capacity = 1};
  struct timespec until;
  (void)clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += 3 * LONGEST_MS / 1000;
  for (;;) {
    wlh_agent_take_events(whose, true, &one);
    if (one.count > 0) return event;
    (void)pthread_mutex_lock(&mutex);
    int error = 0;
    while (!woken && error == 0) error = pthread_cond_timedwait(&came, &mutex, &until);
    woken = false;
    (void)pthread_mutex_unlock(&mutex);
    if (error != 0) fail(NULL, "an event");
  }
}

int count_in(const char *path)
{
  int count = 0;
  DIR *open = opendir(path);
  while (open && readdir(open)) count++;
  if (open) (void)closedir(open);
  return count;
}

/* ---- stories ---- */

static void open_bucket(struct played *actor, const char *version)
{
  tell(actor, "open %s b %s", directory, version);
  hear(actor, "open WLH_OK");
}

/* Requests with the tag and name of `what`; `otherwise` adds mode and option if it has none. */
static void tell_to_ask(struct played *actor, const char *what, const char *otherwise)
{
  bool is_whole = strchr(strchr(what, ' ') + 1, ' ') != NULL;
  tell(actor, "ask %s %s", what, is_whole ? "" : otherwise);
}

/* Waits until a request is in the tables: it may have been deferred. */
static void await_queued(struct played *actor, int tag)
{
  char cell[16] = "0";
  while (strcmp(cell, "0") == 0) {
    tell(actor, "cell %d", tag);
    hear_rest(actor, "cell ", cell, sizeof cell);
  }
}

static void exits(struct played *actor, bool by_signal, int number)
{
  int status;
  (void)close(actor->in); /* The actor ends at the end of its input. */
  if (waitpid(actor->pid, &status, 0) != actor->pid) fail(actor, "its end");
  CHECK(
      by_signal ? WIFSIGNALED(status) && WTERMSIG(status) == number
                : WIFEXITED(status) && WEXITSTATUS(status) == number);
}

static bool act(struct played *actor, const char *verb, const char *rest)
{
  int number = atoi(rest);
  char line[200];
  (void)snprintf(line, sizeof line, "event %s", rest);
  if (strcmp(verb, "enters") == 0)
    enter(actor);
  else if (strcmp(verb, "starts") == 0)
    start(actor);
  else if (strcmp(verb, "starts-next") == 0)
    start_next(actor);
  else if (strcmp(verb, "opens") == 0)
    open_bucket(actor, rest);
  else if (strcmp(verb, "gets") == 0)
    tell_to_ask(actor, rest, "x w"), hear_either(actor, number, "WLH_GRANTED", "granted");
  else if (strcmp(verb, "lacks") == 0)
    tell_to_ask(actor, rest, "x i"),
        hear_either(actor, number, "WLH_NOT_AVAILABLE", "not-available");
  else if (strcmp(verb, "waits") == 0)
    tell_to_ask(actor, rest, "x w"), hear(actor, "%d WLH_PENDING", number);
  else if (strcmp(verb, "queues") == 0)
    tell_to_ask(actor, rest, "x w"), hear(actor, "%d WLH_PENDING", number),
        await_queued(actor, number);
  else if (strcmp(verb, "releases") == 0)
    release(actor, number);
  else if (strcmp(verb, "hears") == 0)
    hear(actor, "%s", line);
  else if (strcmp(verb, "is-answered") == 0)
    (void)strcat(line, " "), hear_rest(actor, line, line, sizeof line);
  else if (strcmp(verb, "has-not-heard") == 0)
    CHECK(!has_said(actor, line));
  else if (strcmp(verb, "says") == 0)
    hear(actor, "%s", rest);
  else if (strcmp(verb, "fails") == 0)
    expect_failure(actor, (sscanf(rest, "%30s", line), line), strchr(rest, ' ') + 1);
  else if (strcmp(verb, "dies") == 0)
    kill_it(actor);
  else if (strcmp(verb, "stops") == 0)
    stop_it(actor);
  else if (strcmp(verb, "stops-inside") == 0)
    tell(actor, "stop-inside"), wait_stopped(actor);
  else if (strcmp(verb, "goes-on") == 0)
    go_on(actor);
  else if (strcmp(verb, "exits") == 0)
    exits(actor, false, number);
  else if (strcmp(verb, "dies-of") == 0)
    exits(actor, true, number);
  else if (strcmp(verb, "rests") == 0)
    await_checked(actor, "no");
  else if (strcmp(verb, "watches") == 0)
    await_checked(actor, "yes");
  else
    return false;
  return true;
}

static struct played *actor_of(char letter)
{
  return letter == 'a' ? &a : letter == 'b' ? &b : &c;
}

static void send_line(struct played *actor, char *line)
{
  char *answer = strstr(line, " = ");
  if (answer) *answer = '\0';
  tell(actor, "%s", line);
  if (answer) hear(actor, "%s", answer + 3);
}

void (*more_steps)(const char *step);

static void take_step(char *step)
{
  size_t actors = strspn(step, "abc");
  char *verb = step + actors + 1, *rest = strchr(verb, ' ');
  if (actors > 0 && step[actors] == ':') return send_line(actor_of(step[0]), verb + 1);
  if (actors == 0 || step[actors] != ' ') return more_steps(step);
  if (strcmp(verb, "share") == 0) return check_shared(actor_of(step[0]), actor_of(step[1]));
  if (rest) *rest++ = '\0';
  for (size_t i = 0; i < actors; i++) {
    if (act(actor_of(step[i]), verb, rest ? rest : "")) continue;
    if (rest) rest[-1] = ' ';
    return more_steps(step);
  }
}

/* Copies a step, replacing "$a" by the number of that process, and "$L" by that of the layout. */
static void copy_step(char *to, size_t size, const char *from)
{
  size_t length = 0;
  for (; *from && length + 12 < size; from++)
    if (*from == '$')
      length += (size_t)snprintf(
          to + length, 12, "%d", *++from == 'L' ? (int)WLH_LAYOUT : (int)actor_of(*from)->pid);
    else
      to[length++] = *from;
  to[length] = '\0';
}

static void play_step(char *step, void *unused)
{
  char whole[400], copy[400];
  (void)unused;
  copy_step(whole, sizeof whole, step);
  copy_step(copy, sizeof copy, step);
  current_step = whole;
  take_step(copy);
  current_step = "none";
}

void play(const char *steps)
{
  for_each_step(steps, play_step, NULL);
}

static const struct story *current;

static void play_current(void)
{
  begin_play();
  play(current->steps);
  end_play();
}

static void no_others(const char *step)
{
  printf("no step: %s\n", step);
  exit(1);
}

void run_stories(const struct story *stories, size_t count, void (*more)(const char *step))
{
  more_steps = more ? more : no_others;
  for (current = stories; current < stories + count; current++)
    run_test(&(struct test){current->title, play_current, NULL});
}
