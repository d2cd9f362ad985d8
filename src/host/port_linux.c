/* See port_host.h. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#if !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif

#include "port_host.h"

#include "../core/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#if !defined(F_OFD_GETLK)
#define F_OFD_GETLK  36
#define F_OFD_SETLK  37
#define F_OFD_SETLKW 38
#endif

/* Where the byte locks are: far behind the end of any file. */
#define GATE    (INT64_C(1) << 40)
#define PROBE   (GATE - 1)
#define BACKLOG 256
#define HIGH    512

enum wlh_status wlh_fail(
    struct wlh_failure *failure, enum wlh_status status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(failure->text, sizeof failure->text, format, arguments);
  va_end(arguments);
  failure->status = status;
  return status;
}

enum wlh_status wlh_port_status_of(int error)
{
  static const int shortages[] = {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOBUFS};
  for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++) {
    if (error == shortages[i]) return WLH_FULL;
  }
  return WLH_UNSUPPORTED;
}

#define GIVEN     "with the option 'directory' or in WEB_LOCKS_DIRECTORY"
#define ELSEWHERE "give another one " GIVEN

const char *wlh_port_remedy(int error)
{
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return ". Make room on that file system, or give a directory on another one " GIVEN ".";
  case EMFILE:
  case ENFILE:
    return ". Close files and buckets that are not in use, or allow more open files (ulimit -n).";
  case ENOMEM:
    return ". Close buckets that are not in use, or allow more memory (ulimit -v).";
  case ENOENT:
    return ". The directory above it must be there: make that, or " ELSEWHERE ".";
  case ENOTDIR:
  case ELOOP:
  case EISDIR:
    return ". Something else is there, or a symbolic link: take that away, or " ELSEWHERE ".";
  case EROFS:
  case ENAMETOOLONG:
    return ". The directory cannot be there: " ELSEWHERE ".";
  default:
    return "";
  }
}

/* Says whose the file or directory is that does not let us in: this one or, if we cannot even see
 * it, the nearest above that we can. */
static enum wlh_status denied(struct wlh_failure *failure, const char *path, const char *what)
{
  char nearest[WLH_PATH_SIZE + 16];
  struct stat status;
  (void)snprintf(nearest, sizeof nearest, "%s", path);
  for (char *end; lstat(nearest, &status) != 0 && (end = strrchr(nearest, '/'));) *end = '\0';
  if (!*nearest) return wlh_fail(failure, WLH_UNSUPPORTED, "%s: %s: permission denied", path, what);
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s: %s: permission denied: %s belongs to user %u, its mode is %04o, and this process runs "
      "as user %u. Change that, or " ELSEWHERE ".",
      path, what, strcmp(nearest, path) == 0 ? "it" : nearest, (unsigned)status.st_uid,
      (unsigned)status.st_mode & 07777, (unsigned)geteuid());
}

static enum wlh_status unsupported(struct wlh_failure *failure, const char *path, const char *what)
{
  int error = errno;
  char text[128] = "";
  /* The XSI one in musl, GNU's in glibc: either leaves or returns the text. */
  const char *said = NULL;
#if defined(__GLIBC__)
  said = strerror_r(error, text, sizeof text);
#else
  said = strerror_r(error, text, sizeof text) == 0 ? text : "";
#endif
  if (error == EACCES || error == EPERM) return denied(failure, path, what);
  return wlh_fail(
      failure, wlh_port_status_of(error), "%s: %s: %s%s", path, what, said, wlh_port_remedy(error));
}

/* ---- files ---- */

void wlh_port_init(struct wlh_port *port)
{
  memset(port, 0, sizeof *port);
  port->base = port->directory = port->file = port->copy = -1;
  port->stream = port->datagram = port->watch = port->guard = -1;
}

/* logind empties a user's part of /dev/shm when he logs out (RemoveIPC), but not a system user's.
 */
static bool logind_removes(void)
{
  struct stat status;
  return geteuid() >= 1000 && stat("/run/systemd/seats", &status) == 0;
}

enum wlh_status wlh_port_directory(
    const char *directory, char *path, bool *standard, struct wlh_failure *failure)
{
  if (!directory || !*directory) directory = getenv("WEB_LOCKS_DIRECTORY");
  *standard = !directory || !*directory;
  int length;
  if (*standard) {
    const char *parent = logind_removes() ? "/tmp" : "/dev/shm";
    length = snprintf(path, WLH_PATH_SIZE, "%s/web-locks-%u", parent, (unsigned)geteuid());
  } else {
    length = snprintf(path, WLH_PATH_SIZE, "%s", directory);
  }
  if (length < 0 || length > WLH_PATH_SIZE - 64) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED, "the path of the directory is too long, %.60s...: " ELSEWHERE ".",
        directory);
  }
  if (*path == '/') return WLH_OK;
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "the path of the directory, %s, is not absolute. Give one that begins with a slash: what is "
      "relative would be another directory for each process.",
      path);
}

static bool is_local(int descriptor)
{
  static const uint32_t local[] = {
      0x01021994 /* tmpfs */,
      0xEF53 /* ext */,
      0x58465342 /* xfs */,
      0x9123683E /* btrfs */,
      0x794C7630 /* overlay */,
      0xF2F52010u /* f2fs */,
      0x2FC12FC1 /* zfs */};
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0) return false;
  for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
    if ((uint32_t)status.f_type == local[i]) return true;
  }
  return false;
}

/* Whether the process's table of descriptors has room for HIGH. Of all buckets; read and written
 * with atomic operations only, and once true it stays so: who still finds it false takes a smaller
 * number, and is moved by wlh_port_raise. */
static bool wide;

/* The least number of a descriptor that others see our death by. When a process dies the kernel
 * ends those with large numbers first, and takes some 10 ms to end an inotify instance: `watch` has
 * a smaller number and, where the table is wide, so have those of the other buckets. */
static int least_high(const struct wlh_port *port)
{
  return __atomic_load_n(&wide, __ATOMIC_RELAXED) ? HIGH : port->watch + 1;
}

/* Duplicates a descriptor to a large number, if there is one to be had. */
static int duplicate_high(const struct wlh_port *port, int descriptor)
{
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, least_high(port));
  return high >= 0 ? high : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

int wlh_port_move_high(const struct wlh_port *port, int descriptor)
{
  int least = least_high(port);
  if (descriptor < 0 || descriptor >= least) return descriptor;
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, least);
  if (high < 0) return descriptor;
  (void)close(descriptor);
  return high;
}

void wlh_port_widen(const struct wlh_port *port)
{
  int high = fcntl(port->base, F_DUPFD_CLOEXEC, HIGH);
  if (high < 0) return;
  (void)close(high);
  __atomic_store_n(&wide, true, __ATOMIC_RELAXED);
}

/* Opens a directory of ours, in `parent` if that is a descriptor; makes it if need be. */
static int open_directory(int parent, const char *path, bool group, gid_t gid)
{
  bool made = mkdirat(parent, path, 0700) == 0;
  if (!made && errno != EEXIST) return -1;
  int descriptor = openat(parent, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor >= 0 && made && group) {
    (void)fchown(descriptor, (uid_t)-1, gid);
    (void)fchmod(descriptor, 0770);
  }
  return descriptor;
}

static enum wlh_status say_writable(
    struct wlh_failure *failure, const char *path, mode_t mode, const char *right)
{
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s is writable by others, who could break the locks: its mode is %04o. Give it the mode %s "
      "(chmod), or " ELSEWHERE ".",
      path, (unsigned)mode & 07777, right);
}

static enum wlh_status say_owner(
    struct wlh_failure *failure, const char *path, uid_t owner, const char *else_what)
{
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s belongs to another user, %u, and this process runs as user %u. Run it as that one, %s.",
      path, (unsigned)owner, (unsigned)geteuid(), else_what);
}

#define DELETE "have it deleted while nobody uses it, or " ELSEWHERE
#define SHARE                                                                                      \
  "or " ELSEWHERE "; one that users share has to belong to a group of theirs, and the mode 0770"

/* Whether nobody but those who are meant to can write there: we, root, and of an explicit directory
 * its group. `made`: whether it is nothing but what this library makes. */
static enum wlh_status check_owner(
    const char *path, int descriptor, bool standard, struct stat *status, bool made,
    struct wlh_failure *failure)
{
  if (fstat(descriptor, status) != 0) return unsupported(failure, path, "cannot look at it");
  mode_t others = standard ? S_IWGRP | S_IWOTH : S_IWOTH;
  bool ours = status->st_uid == geteuid() || (!standard && status->st_uid == 0);
  if (!ours && !(!standard && (status->st_mode & S_IWGRP))) {
    return say_owner(failure, path, status->st_uid, made ? DELETE : SHARE);
  }
  if (status->st_mode & others) {
    return say_writable(
        failure, path, status->st_mode, standard ? "0700" : "0700, or 0770 for its group");
  }
  return WLH_OK;
}

static enum wlh_status open_directories(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure)
{
  struct stat status;
  port->base = open_directory(AT_FDCWD, base, false, 0);
  if (port->base < 0) return unsupported(failure, base, "cannot open or make the directory");
  enum wlh_status checked = check_owner(base, port->base, standard, &status, standard, failure);
  if (checked != WLH_OK) return checked;
  if (!is_local(port->base)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s is not on a local file system of a kind that is known to work: tmpfs, ext4, xfs, "
        "btrfs, overlay, f2fs, zfs. On others, above all those of a network, locks or shared "
        "memory do not work: " ELSEWHERE ".",
        base);
  }
  port->group = !standard && (status.st_mode & S_IWGRP) != 0;
  port->directory = open_directory(port->base, bucket, port->group, status.st_gid);
  if (port->directory < 0) {
    return unsupported(failure, port->path, "cannot open or make the directory");
  }
  return check_owner(port->path, port->directory, !port->group, &status, true, failure);
}

static enum wlh_status open_file(struct wlh_port *port, struct wlh_failure *failure)
{
  mode_t mode = port->group ? 0660 : 0600;
  const int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
  struct stat status;
  port->file = openat(port->directory, "bucket", flags | O_CREAT | O_EXCL, mode);
  if (port->file >= 0) {
    struct stat directory;
    if (port->group && fstat(port->directory, &directory) == 0) {
      (void)fchown(port->file, (uid_t)-1, directory.st_gid);
    }
    (void)fchmod(port->file, mode); /* whatever the umask is */
  } else if (errno == EEXIST) {
    port->file = openat(port->directory, "bucket", flags);
  }
  char path[WLH_PATH_SIZE + 16];
  (void)snprintf(path, sizeof path, "%s/bucket", port->path);
  if (port->file < 0) return unsupported(failure, path, "cannot open the file");
  if (fstat(port->file, &status) != 0) return unsupported(failure, path, "cannot look at it");
  if (!S_ISREG(status.st_mode)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED, "%s is not a file. Take it away, or " ELSEWHERE ".", path);
  }
  if (status.st_uid != geteuid() && !port->group)
    return say_owner(failure, path, status.st_uid, DELETE);
  if (status.st_mode & S_IWOTH) {
    return say_writable(failure, path, status.st_mode, port->group ? "0660" : "0600");
  }
  port->file = wlh_port_move_high(port, port->file);
  port->device = status.st_dev;
  port->inode = status.st_ino;
  port->copy = duplicate_high(port, port->file);
  if (port->copy < 0) return unsupported(failure, port->path, "cannot duplicate a descriptor");
  return WLH_OK;
}

static bool range_lock(
    int descriptor, int command, short type, int64_t at, int64_t length, struct flock *lock)
{
  int done;
  do {
    memset(lock, 0, sizeof *lock);
    lock->l_type = type;
    lock->l_whence = SEEK_SET;
    lock->l_start = at;
    lock->l_len = length;
    done = fcntl(descriptor, command, lock);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

static bool byte_lock(int descriptor, int command, short type, int64_t at, struct flock *lock)
{
  return range_lock(descriptor, command, type, at, 1, lock);
}

/* Whether byte locks do what they are for here: one descriptor sees what another holds. If another
 * process tests at this moment, we see its lock. */
static bool locks_work(struct wlh_port *port)
{
  int other = openat(port->directory, "bucket", O_RDWR | O_CLOEXEC | O_NOFOLLOW);
  if (other < 0) return false;
  struct flock lock;
  bool works = byte_lock(other, F_OFD_SETLK, F_WRLCK, PROBE, &lock) || errno == EAGAIN;
  works = works && byte_lock(port->file, F_OFD_GETLK, F_WRLCK, PROBE, &lock);
  /* A test elsewhere that ended between our two calls proves nothing, and nothing against it. */
  bool held = works && lock.l_type != F_UNLCK;
  if (works && !held) {
    works = byte_lock(other, F_OFD_SETLKW, F_WRLCK, PROBE, &lock) &&
            byte_lock(port->file, F_OFD_GETLK, F_WRLCK, PROBE, &lock) && lock.l_type != F_UNLCK;
  }
  (void)close(other);
  return works;
}

enum wlh_status wlh_port_open(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure)
{
  wlh_port_init(port);
  (void)snprintf(port->path, sizeof port->path, "%s/%s", base, bucket);
  enum wlh_status status = open_directories(port, base, standard, bucket, failure);
  if (status == WLH_OK) {
    port->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK); /* before those with larger numbers */
    status = open_file(port, failure);
  }
  if (status == WLH_OK && !locks_work(port)) {
    status = unsupported(failure, port->path, "byte locks do not work here");
  }
  /* systemd-tmpfiles leaves directories with a lock alone. */
  if (status == WLH_OK) (void)flock(port->directory, LOCK_SH | LOCK_NB);
  if (status != WLH_OK) wlh_port_close(port);
  return status;
}

void wlh_port_shut(int descriptor)
{
  if (descriptor >= 0) (void)close(descriptor);
}

/* Whether a descriptor still is our file, and nobody closed it and opened something else. */
static bool is_ours(const struct wlh_port *port, int descriptor)
{
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 &&
         (uint64_t)status.st_dev == port->device && (uint64_t)status.st_ino == port->inode;
}

/* Whether the descriptors are good, if need be with the help of the duplicate. */
static bool mend(struct wlh_port *port)
{
  if (is_ours(port, port->file)) return true;
  if (!is_ours(port, port->copy)) return false;
  /* What has the number now is somebody else's, so it is not closed. */
  port->file = port->copy;
  port->copy = duplicate_high(port, port->file);
  return true;
}

void wlh_port_raise(struct wlh_port *port)
{
  if (!mend(port)) return;
  port->file = wlh_port_move_high(port, port->file);
  if (is_ours(port, port->copy)) port->copy = wlh_port_move_high(port, port->copy);
  port->stream = wlh_port_move_high(port, port->stream);
  port->datagram = wlh_port_move_high(port, port->datagram);
}

static void unguard(struct wlh_port *port);

void wlh_port_close(struct wlh_port *port)
{
  unguard(port);
  if (port->map) (void)munmap(port->map, port->map_size);
  if (is_ours(port, port->copy)) wlh_port_shut(port->copy);
  if (is_ours(port, port->file)) wlh_port_shut(port->file);
  wlh_port_shut(port->watch);
  wlh_port_shut(port->stream);
  wlh_port_shut(port->datagram);
  wlh_port_shut(port->directory);
  wlh_port_shut(port->base);
  wlh_port_init(port);
}

void wlh_port_forget(struct wlh_port *port)
{
  if (is_ours(port, port->copy)) wlh_port_shut(port->copy);
  if (is_ours(port, port->file)) wlh_port_shut(port->file);
  wlh_port_shut(port->watch);
  wlh_port_shut(port->stream);
  wlh_port_shut(port->datagram);
  wlh_port_shut(port->directory);
  wlh_port_shut(port->base);
  port->base = port->directory = port->file = port->copy = -1;
  port->stream = port->datagram = port->watch = -1;
}

const char *wlh_port_harm(struct wlh_port *port, uint64_t size)
{
  struct stat status;
  char path[WLH_PATH_SIZE + 16];
  if (!mend(port)) return "was closed by something else in this process";
  if (fstat(port->file, &status) == 0 && status.st_nlink == 0) return "was deleted";
  (void)snprintf(path, sizeof path, "%s/bucket", port->path);
  if (lstat(path, &status) != 0) {
    bool moved = errno == ENOENT || errno == ENOTDIR;
    return moved ? "was moved"
                 : "cannot be reached any more, as the rights to its directory changed";
  }
  bool same = (uint64_t)status.st_dev == port->device && (uint64_t)status.st_ino == port->inode;
  if (!same) return "was moved, and another one is there";
  return (uint64_t)status.st_size < size ? "was truncated" : NULL;
}

/* ---- proof of life ---- */

bool wlh_port_gate(struct wlh_port *port)
{
  struct flock lock;
  return byte_lock(port->file, F_OFD_SETLK, F_WRLCK, GATE, &lock);
}

void wlh_port_leave_gate(struct wlh_port *port)
{
  struct flock lock;
  (void)byte_lock(port->file, F_OFD_SETLK, F_UNLCK, GATE, &lock);
}

bool wlh_port_take(struct wlh_port *port, uint32_t member)
{
  struct flock lock;
  return byte_lock(port->file, F_OFD_SETLK, F_WRLCK, GATE + 1 + member, &lock);
}

void wlh_port_drop(struct wlh_port *port, uint32_t member)
{
  struct flock lock;
  (void)byte_lock(port->file, F_OFD_SETLK, F_UNLCK, GATE + 1 + member, &lock);
}

/* Whether another open description holds a lock on one of `count` bytes. A death is believed only
 * if it was our file that was asked. */
static bool is_locked(struct wlh_port *port, int64_t at, int64_t count)
{
  struct flock lock;
  for (int i = 0; i < 2; i++) {
    int asked = port->file;
    bool answered = range_lock(asked, F_OFD_GETLK, F_WRLCK, at, count, &lock);
    if (answered && lock.l_type != F_UNLCK) return true;
    if (answered && is_ours(port, asked)) return false;
    if (!mend(port)) return true;
  }
  return true;
}

bool wlh_port_alive(struct wlh_port *port, uint32_t member)
{
  return is_locked(port, GATE + 1 + member, 1);
}

bool wlh_port_any_alive(struct wlh_port *port)
{
  return is_locked(port, GATE + 1, WLH_PORT_MEMBERS);
}

/* ---- memory ---- */

uint64_t wlh_port_size(struct wlh_port *port)
{
  struct stat status;
  return fstat(port->file, &status) == 0 ? (uint64_t)status.st_size : 0;
}

int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  int error;
  do {
    error = posix_fallocate(port->file, 0, (off_t)size);
  } while (error == EINTR);
  return error;
}

/* What the SIGBUS handler looks at. A slot is written under `guards_mutex`; `base` last when it is
 * taken and first when it is given back, so that the handler, which cannot take a mutex, finds a
 * slot whole or empty. Each bucket that is open takes one. */
enum { GUARDS = 4096 };
static struct {
  void *base;
  size_t size;
  uint32_t *lost;
} guards[GUARDS];
static struct wlk_mutex guards_mutex = WLK_MUTEX_INIT;
static struct sigaction former;
static bool guarding; /* guards_mutex */

static void chain(int signal, siginfo_t *info, void *context)
{
  if (former.sa_flags & SA_SIGINFO) {
    former.sa_sigaction(signal, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  } else if (former.sa_handler == SIG_IGN && info->si_code <= 0) {
    return; /* sent by somebody, and ignored before */
  } else {
    /* A fault happens again when we return, and ends the process as it would have without us. */
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    (void)sigaction(signal, &standard, NULL);
    if (info->si_code <= 0) (void)raise(signal);
  }
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
  int error = errno;
  uintptr_t address = (uintptr_t)info->si_addr;
  for (size_t i = 0; i < GUARDS && info->si_code > 0; i++) {
    void *base = __atomic_load_n(&guards[i].base, __ATOMIC_ACQUIRE);
    if (!base || address - (uintptr_t)base >= guards[i].size) continue;
    /* Zeros: nobody is inside, and nothing is in the tables. */
    void *zeros = mmap(
        base, guards[i].size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    __atomic_store_n(guards[i].lost, 1, __ATOMIC_RELEASE);
    errno = error;
    return;
  }
  errno = error;
  chain(signal, info, context);
}

static void start_guarding(void)
{
  struct sigaction ours, now;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  (void)sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, NULL, &now) != 0) return;
  bool there = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error;
  /* Where somebody came after us he has us as his former handler, and may call us: then to go in
   * front of him again would make a circle. Where he reset it, we come back. */
  bool reset = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
  if (there || (guarding && !reset)) return;
  former = now;
  guarding = sigaction(SIGBUS, &ours, NULL) == 0;
}

static int guard(struct wlh_port *port, uint32_t *lost)
{
  int error = ENOBUFS;
  wlk_mutex_lock(&guards_mutex);
  start_guarding();
  for (int i = 0; i < GUARDS && error != 0; i++) {
    if (guards[i].base) continue;
    guards[i].size = port->map_size;
    guards[i].lost = lost;
    __atomic_store_n(&guards[i].base, port->map, __ATOMIC_RELEASE);
    port->guard = i;
    error = 0;
  }
  wlk_mutex_unlock(&guards_mutex);
  return error;
}

static void unguard(struct wlh_port *port)
{
  if (port->guard < 0) return;
  wlk_mutex_lock(&guards_mutex);
  __atomic_store_n(&guards[port->guard].base, NULL, __ATOMIC_RELEASE);
  wlk_mutex_unlock(&guards_mutex);
  port->guard = -1;
}

int wlh_port_map(struct wlh_port *port, size_t size, uint32_t *lost)
{
  void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, port->file, 0);
  if (map == MAP_FAILED) return errno;
  (void)madvise(map, size, MADV_DONTFORK);
  (void)madvise(map, size, MADV_DONTDUMP);
  port->map = map;
  port->map_size = size;
  return guard(port, lost);
}

void *wlh_port_zeros(size_t size)
{
  void *zeros =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return zeros == MAP_FAILED ? NULL : zeros;
}

void wlh_port_free_zeros(void *zeros, size_t size)
{
  if (zeros) (void)munmap(zeros, size);
}

uint64_t wlh_port_boot(void)
{
  static const uint64_t key[2] = {UINT64_C(0x7765622d6c6f636b), UINT64_C(0x626f6f742d69642e)};
  uint16_t text[64];
  size_t length = 0;
  int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  char bytes[64];
  ssize_t got = read(descriptor, bytes, sizeof bytes);
  (void)close(descriptor);
  for (; (ssize_t)length < got; length++) text[length] = (unsigned char)bytes[length];
  return length ? wlk_hash(key, text, length) | 1 : 0;
}

/* ---- sockets ---- */

/* Through /proc, so that neither the length of the path nor a rename matters. */
static void address_of(
    const struct wlh_port *port, char kind, uint32_t member, struct sockaddr_un *address)
{
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  (void)snprintf(
      address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%c%u", port->directory, kind,
      member);
}

static int bind_one(struct wlh_port *port, int type, char kind, uint32_t member)
{
  struct sockaddr_un address;
  char name[16];
  (void)snprintf(name, sizeof name, "%c%u", kind, member);
  (void)unlinkat(port->directory, name, 0);
  int descriptor = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (descriptor < 0) return -1;
  address_of(port, kind, member, &address);
  mode_t mode = port->group ? 0660 : 0600;
  struct stat directory;
  bool good = bind(descriptor, (struct sockaddr *)&address, sizeof address) == 0 &&
              fchmodat(port->directory, name, mode, 0) == 0;
  if (good && port->group && fstat(port->directory, &directory) == 0) {
    (void)fchownat(port->directory, name, (uid_t)-1, directory.st_gid, AT_SYMLINK_NOFOLLOW);
  }
  if (good && type == SOCK_STREAM) good = listen(descriptor, BACKLOG) == 0;
  if (good) return wlh_port_move_high(port, descriptor);
  int error = errno;
  (void)close(descriptor);
  errno = error;
  return -1;
}

int wlh_port_bind(struct wlh_port *port, uint32_t member)
{
  wlh_port_shut(port->stream);
  wlh_port_shut(port->datagram);
  port->datagram = -1;
  port->stream = bind_one(port, SOCK_STREAM, 's', member);
  if (port->stream >= 0) port->datagram = bind_one(port, SOCK_DGRAM, 'w', member);
  if (port->datagram < 0) return errno;
  char byte;
  if (wlh_port_send(port, member) != WLH_SENT) return errno;
  return recv(port->datagram, &byte, 1, MSG_DONTWAIT) >= 0 ? 0 : errno;
}

bool wlh_port_bound(struct wlh_port *port, uint32_t member)
{
  for (int i = 0; i < 2; i++) {
    char name[16];
    struct stat status;
    (void)snprintf(name, sizeof name, "%c%u", "sw"[i], member);
    if (fstatat(port->directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  }
  return true;
}

void wlh_port_unbind(struct wlh_port *port, uint32_t member)
{
  for (int i = 0; i < 2; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%c%u", "sw"[i], member);
    (void)unlinkat(port->directory, name, 0);
  }
}

enum wlh_sent wlh_port_send(struct wlh_port *port, uint32_t member)
{
  struct sockaddr_un address;
  address_of(port, 'w', member, &address);
  if (sendto(
          port->datagram, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
          sizeof address) >= 0) {
    return WLH_SENT;
  }
  return errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_NOT_NOW;
}

void wlh_port_receive(struct wlh_port *port)
{
  char byte;
  while (recv(port->datagram, &byte, 1, MSG_DONTWAIT) >= 0) {
  }
}

enum wlh_sent wlh_port_connect(struct wlh_port *port, uint32_t member, int *descriptor)
{
  struct sockaddr_un address;
  int stream = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (stream < 0) return WLH_NOT_NOW;
  address_of(port, 's', member, &address);
  if (connect(stream, (struct sockaddr *)&address, sizeof address) == 0) {
    *descriptor = stream;
    return WLH_SENT;
  }
  enum wlh_sent answer = errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_NOT_NOW;
  (void)close(stream);
  return answer;
}

int wlh_port_accept(struct wlh_port *port, bool *full)
{
  int descriptor = accept4(port->stream, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  *full = descriptor < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
  return wlh_port_move_high(port, descriptor);
}

void wlh_port_watch(struct wlh_port *port, uint32_t member)
{
  if (port->watch < 0) port->watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (port->watch < 0) return;
  char path[64];
  const int descriptors[] = {port->base, port->directory};
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptors[i]);
    (void)inotify_add_watch(port->watch, path, IN_MOVE_SELF | IN_DELETE_SELF);
  }
  /* The number of links is an attribute: a file that is open is deleted with its last descriptor
   * only. */
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d/bucket", port->directory);
  (void)inotify_add_watch(port->watch, path, IN_ATTRIB | IN_MOVE_SELF | IN_MODIFY);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%c%u", port->directory, "sw"[i], member);
    (void)inotify_add_watch(port->watch, path, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF);
  }
}

void wlh_port_watched(struct wlh_port *port)
{
  char events[1024];
  while (read(port->watch, events, sizeof events) > 0) {
  }
}

/* ---- threads ---- */

int wlh_port_alarm(void)
{
  return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

void wlh_port_poke(int alarm)
{
  uint64_t one = 1;
  ssize_t written = write(alarm, &one, sizeof one); /* full: it is readable already */
  (void)written;
}

void wlh_port_poked(int alarm)
{
  uint64_t count;
  ssize_t got = read(alarm, &count, sizeof count);
  (void)got;
}

void wlh_port_wait(struct wlh_wait_item *items, size_t count, uint64_t nanoseconds)
{
  struct pollfd polls[WLH_PORT_WAIT_MOST];
  size_t places[WLH_PORT_WAIT_MOST];
  size_t polled = 0;
  if (count > WLH_PORT_WAIT_MOST) count = WLH_PORT_WAIT_MOST;
  for (size_t i = 0; i < count; i++) {
    items[i].ready = items[i].hung_up = false;
    /* The kernel refuses more than the process can have open, those that are none included. */
    if (items[i].descriptor < 0) continue;
    places[polled] = i;
    polls[polled++] = (struct pollfd){items[i].descriptor, (short)(items[i].reads ? POLLIN : 0), 0};
  }
  struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  int ready = ppoll(polls, (nfds_t)polled, nanoseconds == WLH_PORT_FOREVER ? NULL : &time, NULL);
  for (size_t i = 0; i < polled && ready > 0; i++) {
    items[places[i]].ready = polls[i].revents != 0;
    items[places[i]].hung_up = (polls[i].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
}

void wlh_port_sleep(uint64_t nanoseconds)
{
  struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  (void)nanosleep(&time, NULL);
}

uint64_t wlh_port_time(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

bool wlh_port_try(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  return pthread_mutex_trylock(&mutex->native) == 0;
}

void wlh_port_renew(struct wlk_mutex *mutex)
{
  struct wlk_mutex fresh = WLK_MUTEX_INIT;
  *mutex = fresh;
}

struct start {
  void (*run)(void *);
  void *data;
};

static void *run_thread(void *data)
{
  struct start start = *(struct start *)data;
  free(data);
  start.run(start.data);
  return NULL;
}

int wlh_port_start(void (*run)(void *), void *data)
{
  struct start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  start->run = run;
  start->data = data;
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) {
    free(start);
    return error;
  }
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  (void)pthread_attr_setstacksize(&attributes, (size_t)256 << 10);
  sigset_t all, before;
  (void)sigfillset(&all);
  const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) (void)sigdelset(&all, faults[i]);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t native;
  error = pthread_create(&native, &attributes, run_thread, start);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attributes);
  if (error != 0) free(start);
  return error;
}

bool wlh_port_at_fork(void (*child)(void))
{
  return pthread_atfork(NULL, NULL, child) == 0;
}

uint32_t wlh_port_pid(void)
{
  return (uint32_t)getpid();
}
