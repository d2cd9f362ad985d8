/* Locks between processes, and what can happen to these processes and to their files. torn_test,
 * steps_test and torture have deaths at any moment. A test that needs a file system of its own
 * mounts one that no other process sees; where that is not permitted, it is skipped. */
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
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static bool can_mount;

/* Whether sockets are addressed by the path of the directory. */
#if defined(WLH_PLAIN)
enum { BY_PATH = 1 };
#else
enum { BY_PATH = 0 };
#endif

/* ---- the steps of stories ---- */

#define GATE (INT64_C(1) << 40)

enum { PAGE = 4096, FIRST_CELL = WLH_BYTES_BEFORE_CELLS };

/* Places in the file, with the size of the number there. */
static const struct {
  const char *name;
  int64_t at;
  size_t size;
} places[] = {
    {"poisoned", offsetof(struct wlh_header, poisoned), 4},
    {"boot", offsetof(struct wlh_header, boot), 8},
    {"layout", offsetof(struct wlh_header, layout), 4},
    {"incompat", offsetof(struct wlh_header, incompat), 4},
    {"token", offsetof(struct wlh_header, token), 8},
    {"key", offsetof(struct wlh_header, hash_key), 8},
    {"page", PAGE, 0},
    {"cells", FIRST_CELL, 0},
    {"agent", FIRST_CELL + WLH_CELL_BYTES, 0},
    {"name", FIRST_CELL + 2 * WLH_CELL_BYTES, 0},
    {"request", FIRST_CELL + 3 * WLH_CELL_BYTES, 0},
    {"gate", GATE, 0},
    {"test", GATE - 1, 0},
};

_Static_assert(sizeof(struct wlh_header) == 256 && WLH_CELL_BYTES == 128, "as stories say");

/* Parses a place: a name, or one with an offset, as in "cells+128". */
static int64_t place_of(const char *word, size_t *size)
{
  size_t length = strcspn(word, "+");
  *size = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (strncmp(word, places[i].name, length) != 0 || places[i].name[length] != '\0') continue;
    *size = places[i].size;
    return places[i].at + (word[length] ? atoi(word + length) : 0);
  }
  return atoi(word);
}

static int open_file(void)
{
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  CHECK(file >= 0);
  return file;
}

/* "set boot 12345"; "set token ahead": an hour ahead of the clock */
static void set(const char *words)
{
  char place[20];
  unsigned long long given = (unsigned long long)time(NULL) * 1000000 + UINT64_C(3600000000);
  size_t size;
  CHECK(sscanf(words, "%19s %llu", place, &given) == 2 || strcmp(words, "token ahead") == 0);
  uint64_t value = given;
  off_t at = place_of(place, &size);
  int file = open_file();
  CHECK(size > 0 && pwrite(file, &value, size, at) == (ssize_t)size);
  (void)close(file);
}

/* "fill x page end" stores bytes between two places, 0 for zeros. Stores notify nobody. */
static void fill(const char *words)
{
  char byte, from[20], to[20];
  size_t unused;
  struct stat status;
  int file = open_file();
  CHECK(sscanf(words, "%c %19s %19s", &byte, from, to) == 3 && fstat(file, &status) == 0);
  size_t size = (size_t)status.st_size, begin = (size_t)place_of(from, &unused);
  size_t end = strcmp(to, "end") == 0 ? size : (size_t)place_of(to, &unused);
  char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (!CHECK(bytes != MAP_FAILED)) exit(1);
  memset(bytes + begin, byte == '0' ? 0 : byte, end - begin);
  (void)munmap(bytes, size);
  (void)close(file);
}

/* "zero cells PAGE" writes zeros. */
static void zero(const char *words)
{
  static const char zeros[PAGE];
  char place[20];
  int size;
  size_t unused;
  CHECK(sscanf(words, "%19s %d", place, &size) == 2);
  int file = open_file();
  CHECK(pwrite(file, zeros, (size_t)size, place_of(place, &unused)) == size);
  (void)close(file);
}

static int byte_holder;

/* Locks a byte of the file as another process would. */
static void hold(const char *place)
{
  size_t unused;
  struct flock lock = {F_WRLCK, SEEK_SET, place_of(place, &unused), 1, 0};
  byte_holder = open_file();
  CHECK(fcntl(byte_holder, 37 /* F_OFD_SETLK */, &lock) == 0);
}

static void let_go(const char *nothing)
{
  (void)nothing;
  (void)close(byte_holder);
}

/* Waits until `b` or `a`, which lives, has ceased to be a member. */
static void await_leave(const char *who)
{
  struct flock lock = {F_WRLCK, SEEK_SET, GATE + 1 + (*who == 'a' ? a : b).member, 1, 0};
  int file = open_file();
  (void)alarm(20);
  CHECK(fcntl(file, 38 /* F_OFD_SETLKW */, &lock) == 0);
  (void)alarm(0);
  (void)close(file);
}

static void truncate_file(const char *nothing)
{
  (void)nothing;
  CHECK(truncate(bucket_path("bucket"), 0) == 0);
}

/* Deletes files of the bucket's directory. */
static void delete_files(const char *names)
{
  char command[1200];
  (void)snprintf(command, sizeof command, "cd '%s' && rm %s", bucket_path(""), names);
  CHECK(system(command) == 0);
}

/* Waits until `a` and `b` have bound their sockets again. */
static void sockets_return(const char *nothing)
{
  (void)nothing;
  const struct played *const actors[] = {&a, &b};
  for (int i = 0; i < 4; i++) {
    char name[16];
    bool exists = false;
    (void)snprintf(name, sizeof name, "%c%u", i % 2 ? 's' : 'w', actors[i / 2]->member);
    for (int wait = 0; wait < 20000 && !exists; wait++) {
      exists = access(bucket_path(name), F_OK) == 0;
      if (!exists) (void)usleep(1000);
    }
    CHECK(exists);
  }
}

/* ---- directories that are moved ---- */

static char top[sizeof directory], away[sizeof directory + 8];

/* Continues in a subdirectory of the test's directory. */
static void go_below(const char *nothing)
{
  (void)nothing;
  (void)strncat(directory, "/given", sizeof directory - strlen(directory) - 1);
  CHECK(mkdir(directory, 0700) == 0);
}

static void move_top(const char *nothing)
{
  (void)nothing;
  (void)snprintf(top, sizeof top, "%s", directory);
  char *given = strstr(top, "/given");
  if (given) *given = '\0';
  (void)snprintf(away, sizeof away, "%s-away", top);
  CHECK(rename(top, away) == 0);
}

static void move_back(const char *nothing)
{
  (void)nothing;
  CHECK(rename(away, top) == 0);
  (void)snprintf(directory, sizeof directory, "%s", top);
}

static void move_bucket(const char *nothing)
{
  char from[512], to[600];
  (void)nothing;
  (void)snprintf(from, sizeof from, "%s", bucket_path(""));
  from[strlen(from) - 1] = '\0';
  (void)snprintf(to, sizeof to, "%s/.away", directory);
  CHECK(rename(from, to) == 0);
}

/* ---- checks ---- */

static uint64_t token;

static uint64_t last_token(void)
{
  uint64_t value = 0;
  int file = open_file();
  CHECK(pread(file, &value, sizeof value, offsetof(struct wlh_header, token)) == sizeof value);
  (void)close(file);
  return value;
}

static void note_token(const char *nothing)
{
  (void)nothing;
  token = last_token();
}

static void token_grows(const char *nothing)
{
  (void)nothing;
  CHECK(last_token() > token);
  token = last_token();
}

static void take_step(const char *step)
{
  static const struct {
    const char *words;
    void (*take)(const char *rest);
  } own[] = {
      {"set ", set},
      {"fill ", fill},
      {"zero ", zero},
      {"hold ", hold},
      {"let go", let_go},
      {"wait until this left: ", await_leave},
      {"truncate", truncate_file},
      {"delete ", delete_files},
      {"the sockets return", sockets_return},
      {"go below", go_below},
      {"move top", move_top},
      {"move back", move_back},
      {"move bucket", move_bucket},
      {"note the token", note_token},
      {"the token grows", token_grows},
  };
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    size_t length = strlen(own[i].words);
    if (strncmp(step, own[i].words, length) == 0) return own[i].take(step + length);
  }
  printf("no step: %s\n", step);
  exit(1);
}

/* ---- stories ---- */

#define HOLD_AND_WAIT "ab enters; a gets 1 n; b waits 2 n; "
#define ALL_THREE     "abc enters; a gets 1 n; b waits 2 n; "
#define BOTH_LOSE     "a hears 1 lost; b hears 2 failed WLH_LOST"
#define LOSE_AND_MEET BOTH_LOSE "; ab share"
/* A process that holds a lock and has nothing else to do. */
#define HOLD_QUIETLY "a enters; a rests; a gets 1 n; a watches; "
#define IN_USE       "WLH_LOST damaged, and other processes still have it open; "

static const struct story stories[] = {
    {"the lock of a thief that was killed is granted to one that waited before the thief came",
     HOLD_AND_WAIT "b watches; c enters; c gets 3 n x s; c dies; b hears 2 granted"},
    /* It watches because of request 2, so it rests again before request 3. */
    {"a process that begins to wait while its helper rests is granted the lock of a dead one",
     "ab enters; a gets 1 n; b rests; b gets 2 m; b watches; b waits 3 n; a dies; b hears 3 "
     "granted"},
    {"a process that waits again is granted the lock of a dead one that joined meanwhile",
     "ab enters; a gets 1 n; b rests; b waits 2 n; b watches; b: abort 2 = 2 WLH_OK; c enters; "
     "a releases 1; c gets 3 n; b waits 4 n; c dies; b hears 4 granted; a gets 5 m; "
     /* The same in a file that was made anew, and that as many processes have joined. */
     "delete bucket; a hears 5 lost; b hears 4 lost; b gets 6 o; a gets 7 m; c enters; c gets 8 n; "
     "b: settle = settled; b waits 9 n; c dies; b hears 9 granted"},
    {"a snapshot does not have the dead",
     "ab enters; a gets 1 n; b gets 2 m; a dies; b: query 9 = 9 WLH_PENDING; "
     "b hears 9 snapshot held 1 pending 0 clients 1"},
    {"a process that is stopped keeps its lock, and delays no other",
     ALL_THREE "a stops; c gets 3 m; b has-not-heard 2 granted; a goes-on; a releases 1; "
               "b hears 2 granted"},
    {"while a process is stopped inside the tables, calls of others return",
     "abc enters; b gets 2 n; a stops-inside; b: release 2 = 2 WLH_PENDING; b waits 3 m; "
     "b waits 4 m x i; b waits 5 m; b: abort 5 = 5 WLH_OK; b waits 6 m; b: end 6 = 6 ended; "
     "c waits 7 n; a goes-on; a says went on; b hears 2 released; b hears 3 granted; "
     "b hears 4 not-available; c hears 7 granted; b releases 3; c gets 8 m x i"},
    {"a bucket is closed although another process stands still inside",
     "abc enters; b gets 2 n; a stops-inside; b: close = close; c waits 3 n; a goes-on; "
     "c hears 3 granted"},

    {"a file that is truncated is lost to all, and no process dies of it",
     HOLD_AND_WAIT "truncate; " LOSE_AND_MEET},
    {"a truncated file ends no process that opened it after other code had reset the handler",
     "a enters; a gets 1 n; a: reset-bus = reset; delete bucket; a hears 1 lost; a gets 2 n; "
     "a stops-inside; truncate; a goes-on; a says went on; a hears 2 lost; a exits 0"},
    {"a file that is deleted is lost to all, and the next request makes a new one",
     HOLD_AND_WAIT "delete bucket; " LOSE_AND_MEET},
    {"a bucket whose directory is renamed is lost to all",
     HOLD_AND_WAIT "move bucket; " LOSE_AND_MEET},
    {"a bucket is lost to all when a directory above the given one is moved",
     "go below; " HOLD_AND_WAIT "move top; " BOTH_LOSE "; move back"},
    {"a process that has nothing checks the files at its next request",
     "go below; ab enters; a gets 1 n; a releases 1; a rests; move top; a gets 2 n; "
     "a hears 2 lost; move back"},
    {"a bucket that is lost, and cannot be opened again, answers every call",
     "go below; ab enters; a gets 1 n; b stops-inside; a: publish 1 8 = 8 WLH_PENDING; a: query 9 "
     "= 9 WLH_PENDING; a: ready 7 = 7 WLH_PENDING; a waits 2 m; delete bucket; move top; a hears 1 "
     "lost; a is-answered 8; a is-answered 9; a is-answered 7; a is-answered 2; b dies; move back"},
    {"a token that goes back is damage", HOLD_AND_WAIT
     "set token 1; b: query 9; b hears 2 failed WLH_LOST; a: query 9; a hears 1 lost"},
    {"a key of hashes that changes is damage",
     HOLD_AND_WAIT "set key 1; b: query 9; b hears 2 failed WLH_LOST; a: query 9; a hears 1 lost"},
    {"a damaged file is lost to all, and made anew when all have left it",
     HOLD_AND_WAIT "set poisoned 1; b: query 9; b hears 2 failed WLH_LOST; a: query 9; "
                   "a hears 1 lost; ab share"},

    {"zeros behind the header are reported to holders and waiters, whoever acts",
     HOLD_AND_WAIT "fill 0 page end; " LOSE_AND_MEET},
    {"an overwritten file is reported to the only holder of a lock",
     HOLD_QUIETLY "fill 0 cells end; a hears 1 lost; a gets 2 n"},
    {"a holder notices that its agent was overwritten",
     HOLD_QUIETLY "fill 0 agent name; a hears 1 lost"},
    {"a holder notices that the name was overwritten",
     HOLD_QUIETLY "fill 0 name request; a hears 1 lost"},
    {"a holder notices that its request was overwritten",
     HOLD_QUIETLY "fill 0 request request+128; a hears 1 lost"},
    {"a header of zeros is reported to the only holder of a lock",
     HOLD_QUIETLY "fill 0 0 page; a hears 1 lost; a gets 2 n"},
    {"garbage behind the header is reported to holders and waiters",
     HOLD_AND_WAIT "fill x cells end; " LOSE_AND_MEET},
    {"in a file of zeros, nobody gets a lock before its holder has noticed, nor a newcomer",
     "a enters; a gets 1 n; a stops; fill 0 page end; c starts; c opens; c fails " IN_USE
     "a goes-on; a hears 1 lost; ac share"},
    {"in a file of zeros, nobody gets a lock before its holder has noticed, nor another member",
     "ab enters; b gets 2 n; b releases 2; a gets 1 n; a stops; fill 0 page end; b waits 3 n; "
     "b hears 3 failed WLH_LOST; a goes-on; a hears 1 lost; ab share"},
    {"an idle process keeps nobody from making a damaged file anew",
     "ab enters; b rests; a gets 1 n; fill 0 page end; a hears 1 lost; a fails " IN_USE
     "wait until this left: b; a gets 3 n; b lacks 4 n"},
#if !defined(WLH_PLAIN)
    {"an idle process notices at once that zeros are written",
     "a enters; a rests; zero cells 4096; wait until this left: a; a gets 1 n"},
#endif
    {"a file of zeros behind the header that nobody has open is made anew",
     "ab enters; ab dies; fill 0 page end; ab enters; ab share"},
    {"a holder is notified of damage that another process has found",
     HOLD_QUIETLY "fill x poisoned poisoned+4; a hears 1 lost"},
    {"a file of something else is made anew",
     "ab enters; ab dies; fill x 0 20000; ab enters; ab share"},
    {"a file of the time before the machine was started is made anew",
     "ab enters; a gets 1 n; ab dies; set boot 12345; ab enters; b gets 1 n x i; ab share"},

    {"while another process keeps a file from being made anew, requests can be aborted and all "
     "be closed",
     "ab enters; ab dies; set poisoned 1; hold gate; ab starts; ab opens; a waits 1 n; b waits 1 "
     "n; a: abort 1 = 1 WLH_OK; a: close = close; b has-not-heard 1 granted; let go; b hears 1 "
     "granted"},
    {"no process waits for one that stands still while it tests whether locks work",
     "a enters; hold test; b enters; ab share; let go"},

    {"processes with other versions of the package and the same layout share locks",
     "a enters; b starts; b opens 4.5.6; ab share; ba share"},
    {"a file with another layout that is in use is refused, and its users are named",
     "ab enters; set layout 99; c starts; c opens; "
     "c fails WLH_VERSION process $a with version 1.2.3; ab dies; c gets 2 n"},
    {"a program with another layout is refused while the file is in use, and learns why",
     HOLD_AND_WAIT
     "c starts-next; c opens; c fails WLH_VERSION is in use by process $a with version 1.2.3 of "
     "web-locks (layout $L), which cannot share it with version 99.0.0 (layout 99) of this "
     "process; a releases 1; b hears 2 granted; ab dies; note the token; c gets 2 n; the token "
     "grows; a starts; a opens; a fails WLH_VERSION is in use by process $c with version 99.0.0 of "
     "web-locks (layout 99), which cannot share it with version 1.2.3 (layout $L) of this process; "
     "c dies; a gets 2 n; the token grows"},
    {"a file with a bit that is not known is refused",
     "ab enters; set incompat 4; c starts; c opens; c fails WLH_VERSION cannot share it"},
    {"where tokens are ahead of the clock, a file that is made anew goes on from them",
     "ab enters; ab dies; set boot 12345; set token ahead; note the token; a enters; a gets 1 n; "
     "the token grows"},
    {"tokens grow over the deletion of the file, and over another boot",
     "ab enters; a gets 1 n; note the token; delete bucket; a hears 1 lost; a gets 1 n; "
     "the token grows; ab dies; set boot 12345; a enters; a gets 1 n; the token grows"},

    {"sockets that are deleted come back, and no lock and no wake-up is lost",
     HOLD_AND_WAIT "delete s* w*; the sockets return; b lacks 3 n; a releases 1; b hears 2 "
                   "granted; b releases 2; ab share"},
    {"the death of a process whose sockets are deleted is noticed",
     "ab enters; a gets 1 n; a stops; delete s* w*; b waits 2 n; a dies; b hears 2 granted"},
    {"a process without a free descriptor waits, and is granted a dead one's lock",
     "ab enters; a gets 1 n; b: descriptors = none left; b waits 2 n; a dies; b hears 2 granted"},
    {"a process that may have few descriptors is granted a dead one's lock",
     "ab enters; a gets 1 n; b: limit = limited; b waits 2 n; b watches; a dies; b hears 2 "
     "granted"},
    {"a holder whose descriptor somebody closed keeps its lock, and goes on",
     "ab enters; a gets 1 n; b gets 9 m; a: close-file = closed; b lacks 2 n; a lacks 3 m; "
     "b waits 4 n; a dies; b hears 4 granted"},
    {"a forked child has lost its parent's locks, and does not keep the parent alive",
     HOLD_AND_WAIT "a: fork; a says child WLH_LOST with 0 descriptors; a dies; b hears 2 granted"},
    {"a process with an open bucket and a held lock ends as if it had none",
     HOLD_AND_WAIT "a exits 0; b hears 2 granted"},
    {"another fault of memory ends the process, as it would without the library",
     "a enters; a: bus; a dies-of 7"},
    {"another fault of memory is given to the handler that was there before",
     "a starts; a: handle-bus = handled; a opens; a gets 1 n; a: bus; a exits 42"},
};

/* ---- single tests ---- */

TEST(many_wakes, "a stopped process blocks no sender, and receives everything once it goes on")
{
  begin_play();
  play("ab enters; a stops");
  for (int i = 1; i <= 300; i++) {
    tell(&a, "ask %d n%d x w", i, i);
  }
  go_on(&a);
  for (int i = 1; i <= 300; i++) hear_either(&a, i, "WLH_GRANTED", "granted");
  stop_it(&a);
  for (int i = 1; i <= 300; i++) {
    tell(&b, "ask %d n%d x s", i, i);
    hear_either(&b, i, "WLH_GRANTED", "granted");
  }
  go_on(&a);
  for (int i = 1; i <= 300; i++) hear(&a, "event %d stolen", i);
  end_play();
}

/* Checks that opening the bucket is refused. */
static void check_refused(const char *status, const char *text)
{
  play("a starts; a opens");
  expect_failure(&a, status, text);
}

/* ---- directories ---- */

/* Opens in a directory whose path has this length; it works or is refused. */
static void open_at_length(size_t length, bool is_refused)
{
  char before[sizeof directory];
  begin_play();
  (void)snprintf(before, sizeof before, "%s", directory);
  size_t missing = length - strlen(directory) - 1;
  (void)strcat(directory, "/");
  for (size_t i = 0; i < missing; i++) (void)strcat(directory, "d");
  if (is_refused)
    check_refused("WLH_UNSUPPORTED", "File name too long. No directory can be created there");
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

static bool mount_here(const char *type, const char *options)
{
  begin_play();
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
  check_refused(
      "WLH_UNSUPPORTED", "Use a directory on a supported file system (option 'directory'");
  unmount_here();
}

TEST(full_at_open, "where the file does not fit, opening says so")
{
  if (!mount_here("tmpfs", "size=12k,mode=0700")) return;
  check_refused("WLH_FULL", "No space left on device. Free space on that file system");
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
  CHECK(*byte == 0 && lost == 1); /* past the end of the file: the handler mapped it */
  for (int i = 0; i <= MOST; i++) wlh_port_close(&ports[i]);
  ports[0].file = file;
  CHECK(wlh_port_map(&ports[0], 4096, &lost) == 0);
  wlh_port_close(&ports[0]);
  (void)close(file);
}

/* Imitates other code that closes our descriptor and opens a file that gets its number. */
static int use_anew(int descriptor)
{
  int file = open("/dev/null", O_RDWR | O_CLOEXEC);
  CHECK(file >= 0 && dup2(file, descriptor) == descriptor);
  (void)close(file);
  return descriptor;
}

TEST(used_anew, "descriptors that others closed and use tell of no death, and are left to them")
{
  struct wlh_port ours, theirs;
  struct wlh_failure failure;
  int used[3];
  begin_play();
  wlh_port_init(&ours);
  wlh_port_init(&theirs);
  CHECK(wlh_port_open(&ours, directory, false, "b", &failure) == WLH_OK);
  CHECK(wlh_port_open(&theirs, directory, false, "b", &failure) == WLH_OK);
  CHECK(wlh_port_lock_member(&theirs, 5));
  for (int i = 0; i < 2; i++) {
    used[i] = use_anew(ours.file);
    CHECK(wlh_port_is_alive(&ours, 5) && !wlh_port_is_alive(&ours, 6));
  }
  used[2] = use_anew(ours.copy);
  wlh_port_close(&ours);
  for (int i = 0; i < 3; i++) CHECK(close(used[i]) == 0);
  wlh_port_close(&theirs);
  end_play();
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
  play("a releases 1; a gets 3000 another; a lacks 3001 name2");
  /* When there is room again, the file grows. */
  CHECK(mount("test", directory, "tmpfs", MS_REMOUNT, "size=1m") == 0);
  for (int i = 3001; i < 3001 + made; i++) {
    tell(&a, "ask %d more%d x w", i, i);
    (void)snprintf(why, sizeof why, "%d ", i);
    hear_rest(&a, why, why, sizeof why);
    if (strcmp(why, "WLH_GRANTED") == 0) continue;
    hear(&a, "event %d granted", i);
  }
  unmount_here();
}

TEST(members, "there is room for 256 processes, and the next is refused")
{
  static struct played all[WLH_MEMBERS];
  begin_play();
  for (int i = 0; i < WLH_MEMBERS; i++) enter(&all[i]);
  check_refused("WLH_FULL", "is open in 256 processes, which is the maximum. Close it");
  kill_it(&all[7]); /* no other process watches it */
  enter(&all[7]);
  acquire(&all[0], "ask 1 n x w");
  ask_for(&all[255], "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&all[0]);
  hear(&all[255], "event 2 granted");
  acquire(&a, "ask 3 m x w");
  end_play();
}

int main(void)
{
  run_stories(stories, sizeof stories / sizeof *stories, take_step);
  can_mount = unshare(CLONE_NEWNS) == 0 && mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
  return run_tests();
}
