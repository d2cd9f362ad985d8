/* What happens between two system calls of a process: others act, the system fails, or the process
 * dies. Tests of two users change the effective user, and are skipped where that is
 * not permitted. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "../../src/host/member/records.h"
#include "../../src/host/port/posix/parts.h"
#include "../core/harness.h"
#include "calls.h"
#include "cast.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define BUCKET "0123456789abcdef01234567"

/* ---- at system calls ---- */

static int step;          /* calls so far, counted while `act` is set */
static int when;          /* the step after which `act` is called */
static void (*act)(void); /* NULL: steps are not counted */

bool call_fails(const char *name)
{
  CHECK(strcmp(name, "F_SETLKW") != 0); /* opening never waits for another process */
  return false;
}

enum { DESCRIPTORS = 1024 };

/* The nesting of wlh_port_prevent_forks in this thread. It is 0 again while a test acts between two
 * steps as if it were another process. */
static _Thread_local int forks_wait;
static atomic_bool
    vital[DESCRIPTORS]; /* sockets and the file: others take us for alive while one is open */
static atomic_int vital_made, vital_closed;
static atomic_int beside_forks; /* how many of them a fork could have interleaved with */

void __real_wlh_port_prevent_forks(void);
void __wrap_wlh_port_prevent_forks(void);
void __wrap_wlh_port_prevent_forks(void)
{
  if (forks_wait++ == 0) __real_wlh_port_prevent_forks();
}

void __real_wlh_port_permit_forks(void);
void __wrap_wlh_port_permit_forks(void);
void __wrap_wlh_port_permit_forks(void)
{
  if (--forks_wait == 0) __real_wlh_port_permit_forks();
}

static bool is_vital(int descriptor)
{
  return descriptor >= 0 && descriptor < DESCRIPTORS && atomic_load(&vital[descriptor]);
}

static bool makes_vital(const char *name, int descriptor)
{
  if (strcmp(name, "F_DUPFD_CLOEXEC") == 0) return is_vital(descriptor);
  return strcmp(name, "socket") == 0 || strncmp(name, "accept", 6) == 0 ||
         strcmp(name, "bucket") == 0;
}

/* Whether another process could interfere after this call. */
static bool is_step(const char *name)
{
  static const char steps[] =
      " mkdirat openat64 bucket fchown fchmod fchownat fchmodat linkat unlinkat "
      "renameat fstatat64 bind fcntl64 ";
  const char *found = strstr(steps, name);
  return found && found[-1] == ' ' && found[strlen(name)] == ' ';
}

void call_made(const char *name, int descriptor, intptr_t result)
{
  int error = errno;
  if (result >= 0 && result < DESCRIPTORS && makes_vital(name, descriptor)) {
    atomic_store(&vital[result], true);
    atomic_fetch_add(&vital_made, 1);
    if (!forks_wait) atomic_fetch_add(&beside_forks, 1);
  }
  if (act && is_step(name) && ++step == when) {
    void (*now)(void) = act;
    act = NULL;
    now();
    act = now;
  }
  errno = error;
}

void call_closes(int descriptor)
{
  if (!is_vital(descriptor)) return;
  atomic_store(&vital[descriptor], false);
  atomic_fetch_add(&vital_closed, 1);
  if (!forks_wait) atomic_fetch_add(&beside_forks, 1);
}

/* ---- users ---- */

enum { ROOT = 0, OWNER = 12001, OTHER = 12002, GROUP = 12345 };

static void become(uid_t user)
{
  gid_t groups[] = {GROUP};
  bool done = seteuid(ROOT) == 0 && setgroups(user == ROOT ? 0 : 1, groups) == 0 &&
              setegid(user) == 0 && seteuid(user) == 0;
  if (done) return;
  perror("another user");
  exit(1);
}

static bool is_root(void)
{
  if (geteuid() == ROOT) return true;
  printf("# skipped: needs to be root\n");
  return false;
}

/* ---- opening ---- */

static char above[100]; /* contains `base`, the directory of the buckets, and the precious files */
static char base[120];

static void begin_files(bool shared)
{
  (void)snprintf(above, sizeof above, "/dev/shm/web-locks-test-XXXXXX");
  if (!mkdtemp(above)) exit(1);
  CHECK(chmod(above, 0755) == 0);
  (void)snprintf(base, sizeof base, "%s/base", above);
  if (!shared) return;
  CHECK(mkdir(base, 0770) == 0 && chmod(base, 0770) == 0 && chown(base, ROOT, GROUP) == 0);
}

static void end_files(void)
{
  char command[150];
  become(ROOT);
  (void)snprintf(command, sizeof command, "rm -rf '%s'", above);
  CHECK(system(command) == 0);
}

static struct wlh_failure failure; /* of the last call */

/* Opens the files and binds the sockets of a member. */
static enum wlh_status open_files(struct wlh_port *port, uint32_t member)
{
  wlh_port_init(port);
  enum wlh_status status = wlh_port_open(port, base, false, BUCKET, &failure);
  if (status == WLH_OK) {
    int error = wlh_port_bind(port, member);
    if (error == 0) return WLH_OK;
    (void)snprintf(failure.text, sizeof failure.text, "bind: %s", strerror(error));
    status = error == ENOENT ? WLH_LOST : WLH_UNSUPPORTED;
    wlh_port_close(port);
  }
  return status;
}

static void close_files(struct wlh_port *port, uint32_t member)
{
  wlh_port_unbind(port, member);
  wlh_port_close(port);
}

/* Opens the files and calls `action` after the n-th step. Returns false if there are
 * fewer steps. */
static bool open_with(struct wlh_port *port, int n, void (*action)(void), enum wlh_status *status)
{
  step = 0;
  when = n;
  act = action;
  *status = open_files(port, 0);
  act = NULL;
  return step >= n;
}

/* ---- a member of the group that is hostile ---- */

static int precious[4]; /* two files and two directories of OWNER, which no other user can open */

static void make_precious(int i, const char *path, bool is_directory)
{
  if (is_directory) CHECK(mkdir(path, 0700) == 0);
  precious[i] = open(path, is_directory ? O_RDONLY : O_RDWR | O_CREAT | O_EXCL, 0600);
  CHECK(fchown(precious[i], OWNER, OWNER) == 0);
  if (!is_directory) CHECK(write(precious[i], "precious", 8) == 8);
}

static char file_path[150], directory_path[150], near_file[150], near_directory[150];

static void make_all_precious(void)
{
  (void)snprintf(file_path, sizeof file_path, "%s/file", above);
  (void)snprintf(directory_path, sizeof directory_path, "%s/directory", above);
  (void)snprintf(near_file, sizeof near_file, "%s/file", base);
  (void)snprintf(near_directory, sizeof near_directory, "%s/directory", base);
  make_precious(0, file_path, false);
  make_precious(1, near_file, false);
  make_precious(2, directory_path, true);
  make_precious(3, near_directory, true);
}

/* Whether the precious files are unchanged, and the bucket uses none of them. */
static bool are_unharmed(const struct wlh_port *port)
{
  bool unharmed = true;
  for (int i = 0; i < 4; i++) {
    struct stat status;
    CHECK(fstat(precious[i], &status) == 0);
    mode_t mode = i < 2 ? S_IFREG | 0600 : S_IFDIR | 0700;
    unharmed = unharmed && status.st_mode == mode && status.st_uid == OWNER &&
               status.st_gid == OWNER && (i >= 2 || status.st_size == 8);
    unharmed = unharmed && !(port && port->inode == status.st_ino);
    (void)close(precious[i]);
  }
  return unharmed;
}

enum trick { LINK_TO_FILE, LINK_TO_DIRECTORY, HARD_LINK, MOVE_FILE, MOVE_DIRECTORY, TRICKS };
static enum trick trick;

/* Moves the file of this path away, and puts a precious one there. */
static void replace(const char *path)
{
  static int count;
  char away[200];
  (void)snprintf(away, sizeof away, "%s/.away-%d", base, ++count);
  (void)rename(path, away);
  switch (trick) {
  case LINK_TO_FILE:
    (void)!symlink(file_path, path);
    break;
  case LINK_TO_DIRECTORY:
    (void)!symlink(directory_path, path);
    break;
  case HARD_LINK: /* permitted to all where fs.protected_hardlinks is 0 */
    become(ROOT);
    (void)!link(file_path, path);
    become(OTHER);
    break;
  case MOVE_FILE:
    (void)rename(near_file, path);
    break;
  default:
    (void)rename(near_directory, path);
    break;
  }
}

static const char *const places[] = {
    BUCKET "/bucket", BUCKET "/s0", BUCKET "/w0", BUCKET, "u12001"};
static const char *place;

static void play_a_trick(void)
{
  char path[200];
  become(OTHER);
  (void)snprintf(path, sizeof path, "%s/%s", base, place);
  replace(path);
  become(OWNER);
}

TEST(
    hostile, "whatever a member of the group puts in place of a name, at any step, no file of "
             "another user changes hands or rights")
{
  if (!is_root()) return;
  int steps = 0;
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    for (trick = 0; trick < TRICKS; trick++) {
      bool more = true;
      for (int n = 1; more; n++) {
        struct wlh_port port;
        enum wlh_status status;
        begin_files(true);
        make_all_precious();
        place = places[i];
        become(OWNER);
        more = open_with(&port, n, play_a_trick, &status);
        if (!CHECK(are_unharmed(status == WLH_OK ? &port : NULL)))
          printf("# %s, trick %d, step %d\n", place, (int)trick, n);
        if (status == WLH_OK) close_files(&port, 0);
        end_files();
        if (n > steps) steps = n;
      }
    }
  }
  CHECK(steps > 10);
}

/* ---- other users of the group ---- */

static uint64_t inode_of_other;

static void open_as_other(void)
{
  struct wlh_port port;
  become(OTHER);
  enum wlh_status status = open_files(&port, 1);
  if (CHECK(status == WLH_OK)) {
    inode_of_other = port.inode;
    close_files(&port, 1);
  } else {
    printf("# behind step %d: %s\n", step, failure.text);
  }
  become(OWNER);
}

/* Leaves the directory of the bucket without its file. */
static void delete_file(void)
{
  struct wlh_port port;
  char path[200];
  become(OWNER);
  if (CHECK(open_files(&port, 0) == WLH_OK)) close_files(&port, 0);
  become(ROOT);
  (void)snprintf(path, sizeof path, "%s/" BUCKET "/bucket", base);
  CHECK(unlink(path) == 0);
}

/* Whether another user can wake member 0. */
static bool can_be_woken_by_other(void)
{
  struct wlh_port port;
  become(OTHER);
  bool is_sent = open_files(&port, 1) == WLH_OK && wlh_port_send_wake_up(&port, 0) == WLH_SENT;
  close_files(&port, 1);
  become(OWNER);
  return is_sent;
}

/* Opens as one user while another one opens. Returns false if there are fewer steps. */
static bool open_with_other(int n)
{
  struct wlh_port port;
  enum wlh_status status;
  (void)umask(n % 2 ? 0077 : 0);
  become(OWNER);
  bool more = open_with(&port, n, open_as_other, &status);
  if (CHECK(status == WLH_OK)) {
    CHECK(!more || port.inode == inode_of_other);
    CHECK(can_be_woken_by_other());
    close_files(&port, 0);
  }
  (void)umask(0022);
  return more;
}

TEST(
    second_user, "a second user can open at any step of the first, has the same file, and wakes it")
{
  if (!is_root()) return;
  for (int deleted = 0; deleted < 2; deleted++) {
    bool more = true;
    for (int n = 1; more; n++) {
      begin_files(true);
      if (deleted) delete_file();
      more = open_with_other(n);
      end_files();
    }
  }
}

static void die(void)
{
  _exit(0);
}

/* Another process opens, and dies after the n-th step. Returns false if there are fewer steps. */
static bool open_and_die(int n)
{
  int status;
  pid_t child = fork();
  if (child == 0) {
    struct wlh_port port;
    enum wlh_status opened;
    become(OWNER);
    (void)open_with(&port, n, die, &opened);
    _exit(1);
  }
  CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status));
  return WEXITSTATUS(status) == 0;
}

/* Whether both users can open, one after the other, and get the same file. */
static bool can_both_open(const uid_t users[2])
{
  uint64_t inodes[2] = {0, 1};
  for (int i = 0; i < 2; i++) {
    struct wlh_port port;
    become(users[i]);
    if (open_files(&port, 0) != WLH_OK) {
      printf("# user %u: %s\n", (unsigned)users[i], failure.text);
      continue;
    }
    inodes[i] = port.inode;
    close_files(&port, 0);
  }
  return inodes[0] == inodes[1];
}

TEST(
    killed,
    "if the first user is killed at any step, all others can open, and so can its next process")
{
  if (!is_root()) return;
  const uid_t users[2][2] = {{OTHER, OWNER}, {OWNER, OTHER}};
  for (int way = 0; way < 4; way++) {
    bool more = true;
    for (int n = 1; more; n++) {
      begin_files(true);
      if (way >= 2) delete_file();
      more = open_and_die(n);
      if (!CHECK(can_both_open(users[way % 2]))) printf("# step %d\n", n);
      end_files();
    }
  }
}

/* ---- two processes bind the sockets of one number ---- */

static struct wlh_port stale; /* a process that still has the previous file open */
static int foreign;           /* a socket bound to the name of the one that is being made */

static void bind_too(void)
{
  wlh_port_init(&stale);
  CHECK(wlh_port_open(&stale, base, false, BUCKET, &failure) == WLH_OK);
  CHECK(wlh_port_bind(&stale, 0) == 0);
}

static void take_the_name(void)
{
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  (void)snprintf(
      address.sun_path, sizeof address.sun_path, "%.40s/base/" BUCKET "/new.w000", above);
  (void)unlink(address.sun_path);
  foreign = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  CHECK(bind(foreign, (struct sockaddr *)&address, sizeof address) == 0);
}

/* Whether the port takes itself for bound, but wake-ups do not reach it. */
static bool is_deaf(struct wlh_port *port)
{
  char byte;
  if (!wlh_port_is_bound(port, 0)) return false;
  wlh_port_take_wake_ups(port);
  return wlh_port_send_wake_up(port, 0) != WLH_SENT ||
         recv(port->datagram, &byte, 1, MSG_DONTWAIT) < 0;
}

/* Binds and calls `action` after the n-th step. Returns false if there are fewer steps. */
static bool bind_with(int n, void (*action)(void))
{
  struct wlh_port port;
  begin_files(false);
  wlh_port_init(&stale);
  foreign = -1;
  wlh_port_init(&port);
  CHECK(wlh_port_open(&port, base, false, BUCKET, &failure) == WLH_OK);
  step = 0;
  when = n;
  act = action;
  int error = wlh_port_bind(&port, 0);
  act = NULL;
  bool more = step >= n;
  CHECK(!is_deaf(&port) && !is_deaf(&stale));
  if (action == bind_too) CHECK(error == 0 || error == ENOENT);
  wlh_port_close(&stale);
  close_files(&port, 0);
  wlh_port_close_descriptor(foreign);
  end_files();
  return more;
}

TEST(
    bound_together,
    "of two who bind the sockets of one number, each knows whether its own are there")
{
  void (*const actions[])(void) = {bind_too, take_the_name};
  for (size_t i = 0; i < 2; i++) {
    int n = 1;
    while (bind_with(n, actions[i])) n++;
    CHECK(n > 6);
  }
}

/* ---- directories that others can write by rights beyond the mode ---- */

static enum wlh_port_rights rights; /* what wlh_port_rights returns, as it may on macOS */

/* Where the helper stands still until the test sets NOWHERE. */
enum { NOWHERE, AT_RIGHTS, HERE };
static atomic_int stands;

enum wlh_port_rights __wrap_wlh_port_rights(int descriptor);
enum wlh_port_rights __wrap_wlh_port_rights(int descriptor)
{
  (void)descriptor;
  enum wlh_port_rights found = rights;
  if (atomic_load(&stands) == AT_RIGHTS) {
    atomic_store(&stands, HERE);
    while (atomic_load(&stands) == HERE) (void)poll(NULL, 0, 1);
  }
  return found;
}

TEST(other_rights, "a directory that others can write by other rights than its mode is refused")
{
  static const struct {
    enum wlh_port_rights rights;
    const char *why, *remedy;
  } all[] = {
      {WLH_RIGHTS_OF_LIST, "has an access list", "chmod -N \""},
      {WLH_RIGHTS_OF_ALL, "ignores who owns its files", "diskutil enableOwnership"},
  };
  for (size_t i = 0; i < 2; i++)
    for (int shared = 0; shared < 2; shared++) {
      struct wlh_port port;
      if (shared && !is_root()) return;
      begin_files(shared);
      rights = all[i].rights;
      CHECK(open_files(&port, 0) == WLH_UNSUPPORTED);
      CHECK(strstr(failure.text, all[i].why) && strstr(failure.text, all[i].remedy));
      rights = WLH_RIGHTS_OF_MODE;
      CHECK(open_files(&port, 0) == WLH_OK);
      close_files(&port, 0);
      end_files();
    }
}

/* ---- this process as a member ---- */

static enum wlh_status ask_for_n(struct wlh_request **request)
{
  struct wlk_event items[4];
  struct wlk_events events = {.items = items, .capacity = 4};
  return wlh_request_a_lock(agent, u"n", 1, WLK_EXCLUSIVE, WLK_WAIT, 1, NULL, request, &events);
}

/* Requests "n" and waits for the answer. */
static struct wlk_event get(struct wlh_request **request)
{
  enum wlh_status status = ask_for_n(request);
  return status == WLH_PENDING ? next_event(agent) : (struct wlk_event){.news = WLK_NEWS_GRANTED};
}

TEST(no_fork, "no fork comes between making or closing a vital descriptor and noting its number")
{
  struct wlh_request *request;
  struct wlk_events events = {.capacity = 0};
  atomic_store(&vital_made, 0);
  atomic_store(&vital_closed, 0);
  atomic_store(&beside_forks, 0);
  begin_play();
  begin_member("b");
  CHECK(get(&request).news == WLK_NEWS_GRANTED);
  enter(&a);
  int alone = atomic_load(&vital_made);
  play("a waits 1 n");
  /* It connects to the holder to notice its death. */
  for (int i = 0; i < 20000 && atomic_load(&vital_made) == alone; i++) (void)poll(NULL, 0, 1);
  enum wlh_status status = wlh_release_the_lock(request, &events);
  CHECK(status == WLH_OK || (status == WLH_PENDING && next_event(agent).news == WLH_NEWS_RELEASED));
  hear(&a, "event 1 granted");
  CHECK(ask_for_n(&request) == WLH_PENDING);
  kill_it(&a);
  CHECK(next_event(agent).news == WLK_NEWS_GRANTED);
  end_member();
  end_play();
  /* The file twice, its copy, two sockets, and a connection in each direction. */
  CHECK(atomic_load(&vital_made) >= 7);
  CHECK(atomic_load(&vital_closed) == atomic_load(&vital_made));
  CHECK(atomic_load(&beside_forks) == 0);
}

TEST(refused_before, "a refusal does not fail the requests that were made after it was found")
{
  struct wlh_request *request, *later;
  begin_play();
  rights = WLH_RIGHTS_OF_ALL;
  atomic_store(&stands, AT_RIGHTS);
  begin_member("b");
  bucket->openings = UINT32_MAX; /* It overflows. */
  CHECK(ask_for_n(&request) == WLH_PENDING);
  while (atomic_load(&stands) != HERE) (void)poll(NULL, 0, 1);
  rights = WLH_RIGHTS_OF_MODE;
  CHECK(ask_for_n(&later) == WLH_PENDING);
  atomic_store(&stands, NOWHERE);
  struct wlk_event event = next_event(agent);
  CHECK(event.news == WLH_NEWS_FAILED && event.token_low == WLH_UNSUPPORTED);
  CHECK(next_event(agent).news == WLK_NEWS_GRANTED);
  end_member();
  end_play();
}

/* ---- a file that changes while it is opened ---- */

static uint32_t read_header(size_t at)
{
  uint32_t value = 0;
  int file = open(bucket_path("bucket"), O_RDONLY | O_CLOEXEC);
  CHECK(pread(file, &value, sizeof value, (off_t)at) == sizeof value);
  (void)close(file);
  return value;
}

static void write_header(size_t at, uint32_t value)
{
  int file = open(bucket_path("bucket"), O_RDWR | O_CLOEXEC);
  if (file >= 0) CHECK(pwrite(file, &value, sizeof value, (off_t)at) == sizeof value);
  if (file >= 0) (void)close(file);
}

static void poison(void)
{
  write_header(offsetof(struct wlh_header, poisoned), 1);
}

/* Imitates a process that stops or dies while it formats the file. */
static void begin_to_format(void)
{
  write_header(offsetof(struct wlh_header, retired), 1);
  write_header(offsetof(struct wlh_header, magic), 0);
}

static void truncate_file(void)
{
  (void)!truncate(bucket_path("bucket"), 0);
}

static void zero_header(void)
{
  for (size_t at = 0; at < sizeof(struct wlh_header); at += 4) write_header(at, 0);
}

static void delete_bucket(void)
{
  char command[200];
  (void)snprintf(command, sizeof command, "rm -rf '%s'/*", directory);
  CHECK(system(command) == 0);
}

/* The file changes after the n-th step of the first request. Returns false if the request is
 * answered in fewer steps. */
static bool open_while(int n, bool is_there, void (*it_changes)(void))
{
  struct wlh_request *request;
  begin_play();
  if (is_there) play("a enters; a dies");
  begin_member("b");
  step = 0;
  when = n;
  act = it_changes;
  struct wlk_event event = get(&request);
  bool more = step >= n;
  act = NULL;
  bool is_lost =
      event.news == WLH_NEWS_LOST || (event.news == WLH_NEWS_FAILED && event.token_low == WLH_LOST);
  if (!CHECK(event.news == WLK_NEWS_GRANTED || is_lost)) printf("# step %d\n", n);
  end_member();
  play("ab enters; ab share");
  CHECK(read_header(offsetof(struct wlh_header, magic)) == WLH_MAGIC);
  CHECK(read_header(offsetof(struct wlh_header, retired)) == 0);
  CHECK(read_header(offsetof(struct wlh_header, poisoned)) == 0);
  end_play();
  return more;
}

TEST(
    changes, "a file that is damaged, made anew or deleted while it is opened is lost or made anew")
{
  static void (*const changes[])(void) = {
      delete_bucket, poison, begin_to_format, truncate_file, zero_header};
  for (int is_there = 0; is_there < 2; is_there++)
    for (int i = 0; i < (is_there ? 5 : 1); i++) {
      int n = 1;
      while (open_while(n, is_there, changes[i])) n++;
      CHECK(n > 10);
    }
}

int main(void)
{
  return run_tests();
}
