/*
 * A disk that forgets what was not synced: a library that a server loads by LD_PRELOAD. Before a
 * file changes, the library appends the file's size, and the bytes that the change replaces, to a
 * log of the file in the folder WEB_LOCKS_UNDO. A sync of the file empties its log. After a loss of
 * power disk.js applies the logs. A link beside each log leads to the file.
 *
 * The library watches the files whose paths begin with WEB_LOCKS_DISK. It does not undo that a file
 * is made, renamed or removed, and does not see what the C library writes by itself (stdio).
 *
 * A thread holds the log's lock from the record until it has made the change, so that no other one
 * empties the log in between.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { POSITION = -1, END = -2 };

/* `length` bytes follow; the file had them at `offset`, and `size` bytes in all. */
struct record {
  int64_t offset, length, size;
};

/* A change or a sync that is under way. If the file is not watched, there is no log. */
struct change {
  int log;
  char link[PATH_MAX];
};

static void put(int log, const void *bytes, size_t length)
{
  if (syscall(SYS_write, log, bytes, length) != (ssize_t)length) abort();
}

static bool is_watched(const char *own, const char *disk)
{
  char file[PATH_MAX];
  ssize_t length = readlink(own, file, sizeof file);
  return length > 0 && (size_t)length > strlen(disk) && memcmp(file, disk, strlen(disk)) == 0;
}

static struct change begin(int fd)
{
  struct change change = {.log = -1};
  struct stat status;
  char own[64], path[PATH_MAX / 2];
  const char *disk = getenv("WEB_LOCKS_DISK"), *undo = getenv("WEB_LOCKS_UNDO");
  if (!disk || !undo || fstat(fd, &status) || !S_ISREG(status.st_mode)) return change;
  snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
  if (!is_watched(own, disk)) return change;
  snprintf(path, sizeof path, "%s/%ju", undo, (uintmax_t)status.st_ino);
  snprintf(change.link, sizeof change.link, "%s.file", path);
  /* The link keeps the file's number from being used again. A removed file cannot have one. */
  if (linkat(AT_FDCWD, own, AT_FDCWD, change.link, AT_SYMLINK_FOLLOW) && errno != EEXIST)
    return change;
  change.log = open(path, O_CREAT | O_RDWR | O_APPEND | O_CLOEXEC, 0600);
  if (change.log < 0 || flock(change.log, LOCK_EX)) abort();
  return change;
}

/* Releases the log's lock, and returns the result of the change. */
static long end(struct change change, long result)
{
  int error = errno;
  if (change.log >= 0) close(change.log);
  errno = error;
  return result;
}

/* Logs what a change of `length` bytes at `offset` replaces; with END, all behind `offset`. */
static struct change save(int fd, int64_t offset, int64_t length)
{
  struct change change = begin(fd);
  struct stat status;
  if (change.log < 0 || fstat(fd, &status)) return change;
  if (offset == POSITION)
    offset = fcntl(fd, F_GETFL) & O_APPEND ? status.st_size : lseek(fd, 0, SEEK_CUR);
  int64_t left = status.st_size - offset;
  if (length == END || length > left) length = left;
  struct record record = {
      .offset = offset, .length = length > 0 ? length : 0, .size = status.st_size};
  put(change.log, &record, sizeof record);
  int file = open(change.link, O_RDONLY | O_CLOEXEC);
  if (file < 0) abort();
  char bytes[8192];
  for (int64_t done = 0; done < record.length;) {
    size_t rest = (size_t)(record.length - done);
    ssize_t some = pread(file, bytes, rest < sizeof bytes ? rest : sizeof bytes, offset + done);
    if (some <= 0) abort();
    put(change.log, bytes, (size_t)some);
    done += some;
  }
  close(file);
  return change;
}

static int64_t sum(const struct iovec *parts, int count)
{
  int64_t length = 0;
  for (int i = 0; i < count; i++) length += (int64_t)parts[i].iov_len;
  return length;
}

ssize_t write(int fd, const void *bytes, size_t length)
{
  struct change change = save(fd, POSITION, (int64_t)length);
  return end(change, syscall(SYS_write, fd, bytes, length));
}

ssize_t writev(int fd, const struct iovec *parts, int count)
{
  struct change change = save(fd, POSITION, sum(parts, count));
  return end(change, syscall(SYS_writev, fd, parts, count));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t offset)
{
  struct change change = save(fd, offset, (int64_t)length);
  return end(change, syscall(SYS_pwrite64, fd, bytes, length, offset));
}

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset)
{
  struct change change = save(fd, offset, sum(parts, count));
  return end(change, syscall(SYS_pwritev, fd, parts, count, offset, 0L));
}

int ftruncate(int fd, off_t size)
{
  struct change change = save(fd, size, END);
  return (int)end(change, syscall(SYS_ftruncate, fd, size));
}

int ftruncate64(int fd, off64_t size)
{
  return ftruncate(fd, size);
}

int truncate(const char *path, off_t size)
{
  int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  int result = ftruncate(fd, size), error = errno;
  close(fd);
  errno = error;
  return result;
}

int truncate64(const char *path, off64_t size)
{
  return truncate(path, size);
}

static int synced(int fd, long call)
{
  struct change change = begin(fd);
  long result = syscall(call, fd);
  if (result == 0 && change.log >= 0 && syscall(SYS_ftruncate, change.log, 0L)) abort();
  return (int)end(change, result);
}

int fsync(int fd)
{
  return synced(fd, SYS_fsync);
}

int fdatasync(int fd)
{
  return synced(fd, SYS_fdatasync);
}
