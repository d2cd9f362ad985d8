/* What can happen to the files of the host scope, and to those who have them: each row of the
 * design's list of holes that belongs to the transport. Tests that need a file system of their own
 * mount it where nobody else sees it; where that is not permitted they say that they were skipped. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/port/port.h"
#include "../../src/host/segment/segment.h"
#include "../core/harness.h"
#include "cast.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const char *program;
static bool can_mount;
static struct played a, b, c;

static void begin_two(void)
{
  begin_play(program);
  enter(&a);
  enter(&b);
}

/* Has an actor ask for a lock and hears that it fails, with a reason that has `text` in it. */
static void fails(struct played *actor, const char *status, const char *text)
{
  char why[2000];
  ask_for(actor, "ask 1 n x w", "1 WLH_PENDING");
  hear(actor, "event 1 failed %s", status);
  tell(actor, "why");
  hear_rest(actor, "why ", why, sizeof why);
  if (!CHECK(strstr(why, text) != NULL)) printf("# the reason was: %s\n", why);
}

/* The same of one that was started, and opens the bucket. */
static void is_refused(struct played *actor, const char *status, const char *text)
{
  tell(actor, "open %s b", directory);
  hear(actor, "open WLH_OK");
  fails(actor, status, text);
}

/* Whether the system tells what happens to files (inotify); whether sockets are found by the path of
 * the directory. */
#if defined(WLH_PLAIN)
enum { WATCHED = 0, BY_PATH = 1 };
#else
enum { WATCHED = 1, BY_PATH = 0 };
#endif

static void cannot_enter(struct played *actor, const char *status, const char *text)
{
  start(actor);
  is_refused(actor, status, text);
}

static void write_at(off_t at, const void *bytes, size_t size)
{
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  CHECK(pwrite(file, bytes, size, at) == (ssize_t)size);
  (void)close(file);
}

/* Whether the two see each other's locks. */
static void share_locks(struct played *one, struct played *other)
{
  is_granted(one, "ask 2001 again x w");
  is_not_available(other, "ask 2002 again x i");
  ask_for(other, "ask 2003 again x w", "2003 WLH_PENDING");
  releases(one, 2001);
  hear(other, "event 2003 granted");
  releases(other, 2003);
}

static void lose_and_share(void)
{
  hear(&a, "event 1 lost");
  hear(&b, "event 2 failed WLH_LOST");
  share_locks(&a, &b);
  end_play();
}

static void hold_and_wait(void)
{
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
}

/* ---- the file ---- */

TEST(truncated, "a file that is truncated is lost to all, and no process dies of it")
{
  begin_two();
  hold_and_wait();
  CHECK(truncate(bucket_path("bucket"), 0) == 0);
  lose_and_share();
}

TEST(truncated_unseen, "a process that touches a truncated file before it hears of it does not die")
{
  int status;
  begin_two();
  hold_and_wait();
  stop_it(&a);
  stop_it(&b);
  CHECK(truncate(bucket_path("bucket"), 0) == 0);
  tell(&a, "ask 3 m x w");
  go_on(&a);
  go_on(&b);
  hear(&a, "event 1 lost");
  hear(&b, "event 2 failed WLH_LOST");
  has_ended(&a, &status);
  CHECK(WIFEXITED(status));
  end_play();
}

/* Has `c` open the bucket while `a` is inside the tables; returns when it has judged the file and
 * waits to enter, as its sockets are there. */
static void open_behind(struct played *inside, struct played *opener)
{
  char events[4096];
  int watch = inotify_init1(IN_CLOEXEC);
  ask_for(inside, "member", "member 0");
  tell(inside, "stop-inside");
  wait_stopped(inside);
  CHECK(inotify_add_watch(watch, bucket_path(""), IN_CREATE | IN_MOVED_TO) >= 0);
  start(opener);
  tell(opener, "open %s b", directory);
  hear(opener, "open WLH_OK");
  ask_for(opener, "ask 1 n x w", "1 WLH_PENDING");
  for (bool bound = false; !bound;) {
    ssize_t got = read(watch, events, sizeof events);
    for (ssize_t at = 0; at < got;) {
      const struct inotify_event *event = (const void *)(events + at);
      bound = bound || strcmp(event->name, "w1") == 0;
      at += (ssize_t)(sizeof *event + event->len);
    }
  }
  (void)close(watch);
}

TEST(zeroed, "a header that becomes zeros while it is opened is lost, and then made anew")
{
  static const char zeros[sizeof(struct wlh_header)];
  begin_play(program);
  enter(&a);
  open_behind(&a, &c);
  write_at(0, zeros, sizeof zeros);
  hear(&c, "event 1 failed WLH_LOST");
  go_on(&a);
  hear(&a, "went on");
  share_locks(&a, &c);
  end_play();
}

TEST(zeroed_size, "a file that is truncated while it is opened is lost, and then made anew")
{
  begin_play(program);
  enter(&a);
  open_behind(&a, &c);
  CHECK(truncate(bucket_path("bucket"), 0) == 0);
  hear(&c, "event 1 failed WLH_LOST");
  go_on(&a);
  hear(&a, "went on");
  share_locks(&a, &c);
  end_play();
}

TEST(deleted, "a file that is deleted is lost to all, and the next request makes a new one")
{
  begin_two();
  hold_and_wait();
  CHECK(unlink(bucket_path("bucket")) == 0);
  lose_and_share();
}

TEST(renamed, "a bucket whose directory is renamed is lost to all")
{
  char from[512], to[600];
  begin_two();
  hold_and_wait();
  (void)snprintf(from, sizeof from, "%s", bucket_path(""));
  from[strlen(from) - 1] = '\0';
  (void)snprintf(to, sizeof to, "%s/.away", directory);
  CHECK(rename(from, to) == 0);
  lose_and_share();
}

TEST(replaced, "a bucket whose directory is renamed from above is lost to all")
{
  char away[200];
  begin_two();
  hold_and_wait();
  (void)snprintf(away, sizeof away, "%s-away", directory);
  CHECK(rename(directory, away) == 0);
  hear(&a, "event 1 lost");
  hear(&b, "event 2 failed WLH_LOST");
  CHECK(rename(away, directory) == 0);
  end_play();
}

/* Begins with a directory in `top`, and two who have it open. */
static void begin_below(char *top, char *away)
{
  begin_play(program);
  (void)snprintf(top, sizeof directory, "%s", directory);
  (void)snprintf(away, sizeof directory + 8, "%s-away", directory);
  (void)strncat(directory, "/given", sizeof directory - strlen(directory) - 1);
  CHECK(mkdir(directory, 0700) == 0);
  enter(&a);
  enter(&b);
}

static void end_below(const char *top, const char *away)
{
  CHECK(rename(away, top) == 0);
  (void)snprintf(directory, sizeof directory, "%s", top);
  end_play();
}

TEST(moved_above, "when a directory above the given one is moved, who holds or waits is told")
{
  char top[sizeof directory], away[sizeof directory + 8];
  begin_below(top, away);
  hold_and_wait();
  CHECK(rename(top, away) == 0);
  hear(&a, "event 1 lost");
  hear(&b, "event 2 failed WLH_LOST");
  end_below(top, away);
}

TEST(moved_idle, "who has nothing does not look after the files, and looks at its next request")
{
  char top[sizeof directory], away[sizeof directory + 8];
  begin_below(top, away);
  is_granted(&a, "ask 1 n x w");
  releases(&a, 1);
  hear_minded(&a, "no");
  CHECK(rename(top, away) == 0);
  is_granted(&a, "ask 2 n x w");
  hear(&a, "event 2 lost");
  end_below(top, away);
}

TEST(poisoned, "a damaged file is lost to all, and made anew when all have left it")
{
  uint32_t yes = 1;
  begin_two();
  hold_and_wait();
  write_at(offsetof(struct wlh_header, poisoned), &yes, sizeof yes);
  tell(&b, "query 9");
  hear(&b, "event 2 failed WLH_LOST");
  tell(&a, "query 9");
  hear(&a, "event 1 lost");
  share_locks(&a, &b);
  end_play();
}

/* ---- what is overwritten ---- */

#define GATE (INT64_C(1) << 40)

enum { PAGE = 4096, FIRST_CELL = WLH_BYTES_BEFORE_CELLS };

/* Overwrites the file as a stray store does: nobody is told. `to`: 0 for the end. */
static void fill(char byte, size_t from, size_t to)
{
  struct stat status;
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  CHECK(fstat(file, &status) == 0);
  size_t size = (size_t)status.st_size;
  char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!CHECK(bytes != MAP_FAILED)) exit(1);
  memset(bytes + from, byte, (to ? to : size) - from);
  (void)munmap(bytes, size);
  (void)close(file);
}

/* One that holds a lock, and has nothing else to do. */
static void hold_quietly(struct played *actor)
{
  enter(actor);
  hear_minded(actor, "no");
  is_granted(actor, "ask 1 n x w");
  hear_minded(actor, "yes");
}

TEST(zeroed_behind, "zeros behind the header: holders and waiters are told, whoever acts")
{
  begin_two();
  hold_and_wait();
  fill(0, PAGE, 0);
  lose_and_share();
}

TEST(zeroed_alone, "who alone holds a lock in a file that is overwritten is told")
{
  begin_play(program);
  hold_quietly(&a);
  fill(0, FIRST_CELL, 0);
  hear(&a, "event 1 lost");
  is_granted(&a, "ask 2 n x w");
  end_play();
}

TEST(zeroed_own, "who holds a lock is told that what tells of it was overwritten, and nothing else")
{
  for (size_t cell = 1; cell <= 3; cell++) { /* its agent, its name and itself */
    size_t at = FIRST_CELL + cell * WLH_CELL_BYTES;
    begin_play(program);
    hold_quietly(&a);
    fill(0, at, at + WLH_CELL_BYTES);
    hear(&a, "event 1 lost");
    end_play();
  }
}

TEST(zeroed_header, "who alone holds a lock in a file whose header becomes zeros is told")
{
  begin_play(program);
  hold_quietly(&a);
  fill(0, 0, PAGE);
  hear(&a, "event 1 lost");
  is_granted(&a, "ask 2 n x w");
  end_play();
}

TEST(garbage, "garbage behind the header: who holds or waits is told")
{
  begin_two();
  hold_and_wait();
  fill('x', FIRST_CELL, 0);
  lose_and_share();
}

TEST(zeroed_newcomer, "nobody gets a lock in a file of zeros while its holder has not been told")
{
  begin_play(program);
  enter(&a);
  is_granted(&a, "ask 1 n x w");
  stop_it(&a);
  fill(0, PAGE, 0);
  cannot_enter(&c, "WLH_LOST", "damaged, and other processes still have it open");
  go_on(&a);
  hear(&a, "event 1 lost");
  share_locks(&a, &c);
  end_play();
}

TEST(zeroed_member, "nor does who has had it open before")
{
  begin_two();
  is_granted(&b, "ask 2 n x w");
  releases(&b, 2);
  is_granted(&a, "ask 1 n x w");
  stop_it(&a);
  fill(0, PAGE, 0);
  ask_for(&b, "ask 3 n x w", "3 WLH_PENDING");
  hear(&b, "event 3 failed WLH_LOST");
  go_on(&a);
  hear(&a, "event 1 lost");
  share_locks(&a, &b);
  end_play();
}

/* Waits until a process, which lives, is no member any more. */
static void wait_left(const struct played *actor)
{
  struct flock lock = {F_WRLCK, SEEK_SET, GATE + 1 + actor->member, 1, 0};
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  (void)alarm(20);
  CHECK(fcntl(file, 38 /* F_OFD_SETLKW */, &lock) == 0);
  (void)alarm(0);
  (void)close(file);
}

TEST(zeroed_idle, "who has a damaged file open and does nothing keeps nobody from making it anew")
{
  begin_two();
  hear_minded(&b, "no");
  is_granted(&a, "ask 1 n x w");
  fill(0, PAGE, 0);
  hear(&a, "event 1 lost");
  fails(&a, "WLH_LOST", "damaged, and other processes still have it open");
  wait_left(&b);
  is_granted(&a, "ask 3 n x w");
  is_not_available(&b, "ask 4 n x i");
  end_play();
}

TEST(zeroed_by_write, "who has nothing notices at once, too, if zeros are written")
{
  static const char zeros[PAGE];
  if (!WATCHED) return;
  begin_play(program);
  enter(&a);
  hear_minded(&a, "no");
  write_at(FIRST_CELL, zeros, sizeof zeros);
  wait_left(&a);
  is_granted(&a, "ask 1 n x w");
  end_play();
}

TEST(zeroed_left, "a file of zeros behind the header that nobody has open is made anew")
{
  begin_two();
  kill_it(&a);
  kill_it(&b);
  fill(0, PAGE, 0);
  enter(&a);
  enter(&b);
  share_locks(&a, &b);
  end_play();
}

TEST(told_of_damage, "who holds a lock is told of damage that somebody else has found")
{
  size_t at = offsetof(struct wlh_header, poisoned);
  begin_play(program);
  hold_quietly(&a);
  fill(1, at, at + sizeof(uint32_t));
  hear(&a, "event 1 lost");
  end_play();
}

TEST(foreign, "a file of something else is made anew")
{
  char text[20000];
  begin_two();
  kill_it(&a);
  kill_it(&b);
  memset(text, 'x', sizeof text);
  write_at(0, text, sizeof text);
  enter(&a);
  enter(&b);
  share_locks(&a, &b);
  end_play();
}

TEST(other_boot, "a file of the time before the machine was started is made anew")
{
  uint64_t boot = 12345;
  begin_two();
  is_granted(&a, "ask 1 n x w");
  kill_it(&a);
  kill_it(&b);
  write_at(offsetof(struct wlh_header, boot), &boot, sizeof boot);
  enter(&a);
  enter(&b);
  is_granted(&b, "ask 1 n x i");
  share_locks(&a, &b);
  end_play();
}

TEST(other_layout, "a file with another layout that is in use is refused, and who uses it is named")
{
  char text[100];
  uint32_t layout = 99;
  begin_two();
  write_at(offsetof(struct wlh_header, layout), &layout, sizeof layout);
  (void)snprintf(text, sizeof text, "process %d with version 1.2.3", (int)a.pid);
  cannot_enter(&c, "WLH_VERSION", text);
  kill_it(&a);
  kill_it(&b);
  is_granted(&c, "ask 2 n x w");
  end_play();
}

/* ---- a process that is stopped while it opens ---- */

/* Holds a byte of the file as another process would. Returns what is to be closed. */
static int hold_byte(int64_t at)
{
  struct flock lock = {F_WRLCK, SEEK_SET, at, 1, 0};
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  CHECK(fcntl(file, 37 /* F_OFD_SETLK */, &lock) == 0);
  return file;
}

TEST(
    stopped_at_gate, "while another stands at the gate of a file that is to be made anew requests "
                     "can be aborted and all be closed")
{
  uint32_t yes = 1;
  begin_two();
  kill_it(&a);
  kill_it(&b);
  write_at(offsetof(struct wlh_header, poisoned), &yes, sizeof yes);
  int file = hold_byte(GATE);
  start(&a);
  start(&b);
  tell(&a, "open %s b", directory);
  tell(&b, "open %s b", directory);
  ask_for(&a, "ask 1 n x w", "1 WLH_PENDING");
  ask_for(&b, "ask 1 n x w", "1 WLH_PENDING");
  ask_for(&a, "abort 1", "1 WLH_OK");
  ask_for(&a, "close", "close");
  CHECK(!has_said(&b, "event 1 granted"));
  (void)close(file);
  hear(&b, "event 1 granted");
  end_play();
}

TEST(stopped_in_test, "nobody waits for another who stands still while it tests whether locks work")
{
  begin_play(program);
  enter(&a);
  int file = hold_byte(GATE - 1);
  enter(&b);
  share_locks(&a, &b);
  (void)close(file);
  end_play();
}

/* ---- two versions at once ---- */

static uint64_t last_token(void)
{
  uint64_t token = 0;
  int file = open(bucket_path("bucket"), O_RDONLY | O_CLOEXEC);
  CHECK(pread(file, &token, sizeof token, offsetof(struct wlh_header, token)) == sizeof token);
  (void)close(file);
  return token;
}

TEST(other_version, "processes with other versions of the package and the same layout share locks")
{
  begin_play(program);
  enter(&a);
  start(&b);
  tell(&b, "open %s b 4.5.6", directory);
  hear(&b, "open WLH_OK");
  share_locks(&a, &b);
  share_locks(&b, &a);
  end_play();
}

TEST(next_layout, "a program with another layout is refused while the file is in use, and told why")
{
  char text[200];
  begin_two();
  hold_and_wait();
  (void)snprintf(
      text, sizeof text,
      "is in use by process %d with version 1.2.3 of web-locks (layout %u), which cannot share it "
      "with version 99.0.0 (layout 99) of this process",
      (int)a.pid, WLH_LAYOUT);
  start_next(&c);
  is_refused(&c, "WLH_VERSION", text);
  /* Who was there has noticed nothing. */
  releases(&a, 1);
  hear(&b, "event 2 granted");
  kill_it(&a);
  kill_it(&b);
  uint64_t token = last_token();
  is_granted(&c, "ask 2 n x w");
  CHECK(last_token() > token);
  token = last_token();
  (void)snprintf(
      text, sizeof text,
      "is in use by process %d with version 99.0.0 of web-locks (layout 99), which cannot share it "
      "with version 1.2.3 (layout %u) of this process",
      (int)c.pid, WLH_LAYOUT);
  cannot_enter(&a, "WLH_VERSION", text);
  kill_it(&c);
  is_granted(&a, "ask 2 n x w");
  CHECK(last_token() > token);
  end_play();
}

TEST(tokens, "tokens grow over the deletion of the file, and over another boot")
{
  uint64_t boot = 12345;
  begin_two();
  is_granted(&a, "ask 1 n x w");
  uint64_t token = last_token();
  CHECK(unlink(bucket_path("bucket")) == 0);
  hear(&a, "event 1 lost");
  is_granted(&a, "ask 1 n x w");
  CHECK(last_token() > token);
  token = last_token();
  kill_it(&a);
  kill_it(&b);
  write_at(offsetof(struct wlh_header, boot), &boot, sizeof boot);
  enter(&a);
  is_granted(&a, "ask 1 n x w");
  CHECK(last_token() > token);
  end_play();
}

TEST(tokens_ahead, "where tokens are ahead of the clock a file that is made anew goes on from them")
{
  uint64_t ahead = (uint64_t)time(NULL) * 1000000 + UINT64_C(3600000000);
  begin_two();
  kill_it(&a);
  kill_it(&b);
  write_at(offsetof(struct wlh_header, token), &ahead, sizeof ahead);
  uint32_t yes = 1;
  write_at(offsetof(struct wlh_header, poisoned), &yes, sizeof yes);
  enter(&a);
  is_granted(&a, "ask 1 n x w");
  CHECK(last_token() == ahead + 1);
  end_play();
}

TEST(other_bits, "a file with a bit that is not known is refused")
{
  uint32_t bits = 4;
  begin_two();
  write_at(offsetof(struct wlh_header, incompat), &bits, sizeof bits);
  cannot_enter(&c, "WLH_VERSION", "cannot share it");
  end_play();
}

/* ---- sockets and descriptors ---- */

TEST(no_sockets, "sockets that are deleted come back, and no lock and no wake-up is lost")
{
  char command[1200], path[512];
  begin_two();
  hold_and_wait();
  (void)snprintf(path, sizeof path, "%s", bucket_path(""));
  (void)snprintf(command, sizeof command, "rm -f %s/s* %s/w*", path, path);
  CHECK(system(command) == 0);
  is_not_available(&b, "ask 3 n x i");
  releases(&a, 1);
  hear(&b, "event 2 granted");
  releases(&b, 2);
  share_locks(&a, &b);
  end_play();
}

/* Binds a socket of its own where one of a member is, as a process does that has the file which was
 * there before and does not know that yet. It is dead a moment later. */
static void bind_over(char kind, unsigned member, int type)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  char name[16], path[512];
  (void)snprintf(name, sizeof name, "%c%u", kind, member);
  (void)snprintf(address.sun_path, sizeof address.sun_path, "%s", bucket_path("over"));
  (void)snprintf(path, sizeof path, "%s", bucket_path(name));
  int descriptor = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
  CHECK(bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0);
  CHECK(rename(address.sun_path, path) == 0);
  (void)close(descriptor);
}

TEST(bound_over, "a member whose sockets another one has bound over is woken all the same")
{
  begin_two();
  for (int times = 0; times < 2; times++) { /* once it may enter just then for another reason */
    hold_and_wait();
    bind_over('s', b.member, SOCK_STREAM);
    bind_over('w', b.member, SOCK_DGRAM);
    /* Its helper has done by then what the system told it of that, if anything. */
    ask_for(&b, "query 3", "3 WLH_PENDING");
    hear(&b, "event 3 snapshot held 1 pending 1 clients 2");
    releases(&a, 1);
    hear(&b, "event 2 granted");
    releases(&b, 2);
  }
  share_locks(&a, &b);
  end_play();
}

TEST(no_sockets_dead, "the death of a process whose sockets are deleted is noticed")
{
  char command[1200], path[512];
  begin_two();
  is_granted(&a, "ask 1 n x w");
  stop_it(&a);
  (void)snprintf(path, sizeof path, "%s", bucket_path(""));
  (void)snprintf(command, sizeof command, "rm -f %s/s* %s/w*", path, path);
  CHECK(system(command) == 0);
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(no_descriptors, "a process without a free descriptor waits, and is granted a dead one's lock")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "descriptors", "none left");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(stray_close, "a holder whose descriptor somebody closed keeps its lock, and goes on")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  is_granted(&b, "ask 9 m x w");
  ask_for(&a, "close-file", "closed");
  is_not_available(&b, "ask 2 n x i");
  is_not_available(&a, "ask 3 m x i");
  ask_for(&b, "ask 4 n x w", "4 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 4 granted");
  end_play();
}

/* Goes through what a process has opened: not what was there when it was started. */
static void count_before_inotify(const struct played *actor, int *files, int *sockets)
{
  char path[300], link[300];
  int inotify = -1;
  *files = *sockets = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (int i = STDERR_FILENO + 1; i < 2000; i++) {
      (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)actor->pid, i);
      ssize_t length = readlink(path, link, sizeof link - 1);
      if (length < 0) continue;
      link[length] = '\0';
      if (pass == 0 && strcmp(link, "anon_inode:inotify") == 0) inotify = i;
      if (pass == 0 || i > inotify) continue;
      if (strcmp(link, bucket_path("bucket")) == 0) ++*files;
      if (strncmp(link, "socket:", 7) == 0) ++*sockets;
    }
  }
  CHECK(inotify >= 0);
}

TEST(ends_first, "what tells of a death has larger numbers than what the kernel takes long to end")
{
  int files, sockets;
  if (!WATCHED) return;
  begin_two();
  hold_and_wait();
  count_before_inotify(&a, &files, &sockets);
  CHECK(files == 0);
  CHECK(sockets == 0);
  end_play();
}

TEST(fork_child, "a forked child has lost its parent's locks, and does not keep the parent alive")
{
  begin_two();
  hold_and_wait();
  tell(&a, "fork");
  hear(&a, "child WLH_LOST");
  kill_it(&a);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(ends, "a process with an open bucket and a held lock ends as if it had none")
{
  int status;
  begin_two();
  hold_and_wait();
  has_ended(&a, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(other_fault, "a fault that is not ours ends the process, as it would without us")
{
  int status;
  begin_play(program);
  enter(&a);
  tell(&a, "bus");
  has_ended(&a, &status);
  CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
  end_play();
}

TEST(handled_fault, "a fault that is not ours is given to the handler that was there before us")
{
  int status;
  begin_play(program);
  start(&a);
  ask_for(&a, "handle-bus", "handled");
  tell(&a, "open %s b", directory);
  is_granted(&a, "ask 1 n x w");
  tell(&a, "bus");
  has_ended(&a, &status);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 42);
  end_play();
}

/* ---- directories ---- */

TEST(writable, "a directory that all can write to is refused")
{
  begin_play(program);
  CHECK(chmod(directory, 0777) == 0);
  cannot_enter(&a, "WLH_UNSUPPORTED", "writable by others");
  CHECK(chmod(directory, 0700) == 0);
  is_granted(&a, "ask 2 n x w");
  end_play();
}

TEST(not_ours, "a directory of another user is refused")
{
  begin_play(program);
  if (chown(directory, 12345, 12345) != 0) {
    printf("# skipped: needs to be root\n");
  } else {
    cannot_enter(&a, "WLH_UNSUPPORTED", "belongs to user 12345, but this process runs as");
  }
  end_play();
}

TEST(not_there, "a directory that cannot be made is an error that names it")
{
  begin_play(program);
  CHECK(rmdir(directory) == 0);
  (void)strncat(directory, "/deep", sizeof directory - strlen(directory) - 1);
  cannot_enter(&a, "WLH_UNSUPPORTED", directory);
  end_play();
}

TEST(symbolic, "a directory that is a symbolic link is refused")
{
  char link[200];
  begin_play(program);
  (void)snprintf(link, sizeof link, "%s-link", directory);
  CHECK(symlink(directory, link) == 0);
  char before[sizeof directory];
  (void)snprintf(before, sizeof before, "%s", directory);
  (void)snprintf(directory, sizeof directory, "%.100s", link);
  cannot_enter(&a, "WLH_UNSUPPORTED", "cannot open");
  CHECK(unlink(link) == 0);
  (void)snprintf(directory, sizeof directory, "%.100s", before);
  end_play();
}

/* Opens in a directory whose path is so long, or is refused. */
static void open_at_length(size_t length, bool is_refused)
{
  char before[sizeof directory];
  begin_play(program);
  (void)snprintf(before, sizeof before, "%s", directory);
  size_t missing = length - strlen(directory) - 1;
  (void)strcat(directory, "/");
  for (size_t i = 0; i < missing; i++) (void)strcat(directory, "d");
  if (is_refused)
    cannot_enter(&a, "WLH_UNSUPPORTED", "File name too long. No directory can be created there");
  else
    enter(&a);
  (void)snprintf(directory, sizeof directory, "%s", before);
  end_play();
}

TEST(long_path, "the path of a directory can be as long as a socket's address has room for")
{
  struct sockaddr_un address;
  size_t longest = sizeof address.sun_path - sizeof "/012345678901234567890123/new.w255";
  open_at_length(longest, false);
  open_at_length(longest + 1, BY_PATH);
}

TEST(group, "members of a directory's group share its locks, whatever their umask is")
{
  begin_play(program);
  CHECK(chmod(directory, 0770) == 0);
  enter(&a);
  struct stat status;
  CHECK(stat(bucket_path("bucket"), &status) == 0 && (status.st_mode & 0777) == 0660);
  CHECK(stat(bucket_path("w0"), &status) == 0 && (status.st_mode & 0777) == 0660);
  enter(&b);
  share_locks(&a, &b);
  end_play();
}

static bool mount_here(const char *type, const char *options)
{
  begin_play(program);
  if (can_mount && mount("test", directory, type, 0, options) == 0) return true;
  printf("# skipped: not permitted to mount\n");
  end_play();
  return false;
}

static void unmount_here(void)
{
  kill_it(&a);
  CHECK(umount2(directory, MNT_DETACH) == 0);
  end_play();
}

TEST(other_system, "a file system that is not known to work is refused")
{
  if (!mount_here("ramfs", "mode=0700")) return;
  cannot_enter(
      &a, "WLH_UNSUPPORTED", "Use a directory on a supported file system (option 'directory'");
  unmount_here();
}

TEST(full_at_open, "where the file does not fit, opening says so")
{
  if (!mount_here("tmpfs", "size=12k,mode=0700")) return;
  cannot_enter(&a, "WLH_FULL", "No space left on device. Free space on that file system");
  unmount_here();
}

TEST(most_mapped, "as many buckets can be open in a process as are documented, and no more")
{
  enum { MOST = 4096 };
  static struct wlh_port ports[MOST + 1];
  static uint32_t lost;
  int file = memfd_create("bucket", MFD_CLOEXEC);
  for (int i = 0; i <= MOST; i++) {
    wlh_port_init(&ports[i]);
    ports[i].file = file;
    CHECK(wlh_port_map(&ports[i], 4096, &lost) == (i < MOST ? 0 : ENOBUFS));
    ports[i].file = -1;
  }
  volatile const char *byte = ports[MOST - 1].map;
  CHECK(*byte == 0 && lost == 1); /* behind the end of the file: the handler found it */
  for (int i = 0; i <= MOST; i++) wlh_port_close(&ports[i]);
  ports[0].file = file;
  CHECK(wlh_port_map(&ports[0], 4096, &lost) == 0);
  wlh_port_close(&ports[0]);
  (void)close(file);
}

TEST(full_later, "where the file cannot grow, requests fail, and what is held stays whole")
{
  if (!mount_here("tmpfs", "size=120k,mode=0700")) return;
  enter(&a);
  char why[2000];
  int made = 0;
  for (int i = 1; i < 2000; i++) {
    char rest[100];
    tell(&a, "ask %d name%d x w", i, i);
    (void)snprintf(rest, sizeof rest, "%d ", i);
    hear_rest(&a, rest, rest, sizeof rest);
    if (strcmp(rest, "WLH_GRANTED") == 0) continue;
    CHECK(strcmp(rest, "WLH_PENDING") == 0);
    char event[40];
    (void)snprintf(event, sizeof event, "event %d ", i);
    hear_rest(&a, event, rest, sizeof rest);
    if (strcmp(rest, "granted") == 0) continue;
    CHECK(strcmp(rest, "failed WLH_FULL") == 0);
    tell(&a, "why");
    hear_rest(&a, "why ", why, sizeof why);
    CHECK(strstr(why, directory) && strstr(why, "No space left on device. Free space"));
    made = i - 1;
    break;
  }
  CHECK(made > 100 && made < 2000);
  releases(&a, 1);
  is_granted(&a, "ask 3000 another x w");
  is_not_available(&a, "ask 3001 name2 x i");
  unmount_here();
}

TEST(grows, "the file grows with the requests")
{
  begin_two();
  for (int i = 1; i <= 1500; i++) {
    tell(&a, "ask %d name%d x w", i, i);
    hear_either(&a, i, "WLH_GRANTED", "granted");
  }
  is_not_available(&b, "ask 1 name1500 x i");
  ask_for(&b, "ask 2 name700 x w", "2 WLH_PENDING");
  releases(&a, 700);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(members, "there is room for 256 processes, and the next is refused")
{
  static struct played all[WLH_MEMBERS];
  begin_play(program);
  for (int i = 0; i < WLH_MEMBERS; i++) enter(&all[i]);
  cannot_enter(&a, "WLH_FULL", "is open in 256 processes, which is the maximum. Close it");
  is_granted(&all[0], "ask 1 n x w");
  ask_for(&all[255], "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&all[0]);
  hear(&all[255], "event 2 granted");
  is_granted(&a, "ask 3 m x w");
  end_play();
}

int main(int argc, char **argv)
{
  (void)argc;
  program = argv[0];
  can_mount = unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
  return run_tests();
}
