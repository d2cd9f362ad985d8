/* See calls.h. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "calls.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define CALL(type, name, error, descriptor, parameters, arguments)                                 \
  type __real_##name parameters;                                                                   \
  type __wrap_##name parameters;                                                                   \
  type __wrap_##name parameters                                                                    \
  {                                                                                                \
    type result = (type)-1;                                                                        \
    if (call_fails(#name))                                                                         \
      errno = error;                                                                               \
    else                                                                                           \
      result = __real_##name arguments;                                                            \
    call_made(#name, descriptor, (intptr_t)result);                                                \
    return result;                                                                                 \
  }

/* Calls that return an error code. */
#define CALL_CODE(name, error, descriptor, parameters, arguments)                                  \
  int __real_##name parameters;                                                                    \
  int __wrap_##name parameters;                                                                    \
  int __wrap_##name parameters                                                                     \
  {                                                                                                \
    int result = call_fails(#name) ? error : __real_##name arguments;                              \
    call_made(#name, descriptor, result);                                                          \
    return result;                                                                                 \
  }

typedef const struct sockaddr *address;

CALL(int, socket, EMFILE, -1, (int domain, int type, int protocol), (domain, type, protocol))
CALL(int, bind, ENOSPC, at, (int at, address to, socklen_t size), (at, to, size))
CALL(int, listen, ENOMEM, at, (int at, int backlog), (at, backlog))
CALL(int, connect, EAGAIN, at, (int at, address to, socklen_t size), (at, to, size))
CALL(int, accept, EMFILE, at, (int at, struct sockaddr *from, socklen_t *size), (at, from, size))
CALL(
    int, accept4, EMFILE, at, (int at, struct sockaddr *from, socklen_t *size, int flags),
    (at, from, size, flags))
CALL(
    ssize_t, sendto, ENOBUFS, at,
    (int at, const void *bytes, size_t size, int flags, address to, socklen_t to_size),
    (at, bytes, size, flags, to, to_size))
CALL(
    ssize_t, recv, ENOMEM, at, (int at, void *bytes, size_t size, int flags),
    (at, bytes, size, flags))
CALL(int, eventfd, EMFILE, -1, (unsigned count, int flags), (count, flags))
CALL(int, inotify_init1, EMFILE, -1, (int flags), (flags))
CALL(
    int, inotify_add_watch, ENOSPC, at, (int at, const char *path, uint32_t mask), (at, path, mask))
CALL(int, fstatfs64, EIO, at, (int at, struct statfs64 *status), (at, status))
CALL(int, fstat64, ENOMEM, at, (int at, struct stat64 *status), (at, status))
CALL(int, lstat64, ENOMEM, -1, (const char *path, struct stat64 *status), (path, status))
CALL(
    int, fstatat64, ENOMEM, at, (int at, const char *path, struct stat64 *status, int flags),
    (at, path, status, flags))
CALL(int, mkdirat, ENOSPC, at, (int at, const char *path, mode_t mode), (at, path, mode))
CALL(int, fchown, EIO, at, (int at, uid_t user, gid_t group), (at, user, group))
CALL(int, fchmod, EIO, at, (int at, mode_t mode), (at, mode))
CALL(
    int, fchownat, EIO, at, (int at, const char *path, uid_t user, gid_t group, int flags),
    (at, path, user, group, flags))
CALL(
    int, fchmodat, EIO, at, (int at, const char *path, mode_t mode, int flags),
    (at, path, mode, flags))
CALL(
    int, linkat, ENOSPC, at, (int at, const char *path, int to, const char *other, int flags),
    (at, path, to, other, flags))
CALL(int, unlinkat, EIO, at, (int at, const char *path, int flags), (at, path, flags))
CALL(
    int, renameat, ENOSPC, at, (int at, const char *path, int to, const char *other),
    (at, path, to, other))
CALL(int, flock, ENOLCK, at, (int at, int operation), (at, operation))
CALL(
    void *, mmap64, ENOMEM, at,
    (void *to, size_t size, int rights, int flags, int at, off64_t offset),
    (to, size, rights, flags, at, offset))
CALL(int, madvise, ENOMEM, -1, (void *from, size_t size, int advice), (from, size, advice))
CALL(
    int, ppoll, ENOMEM, -1,
    (struct pollfd * all, nfds_t count, const struct timespec *time, const sigset_t *set),
    (all, count, time, set))
CALL_CODE(posix_fallocate64, ENOSPC, at, (int at, off64_t offset, off64_t size), (at, offset, size))
CALL_CODE(
    pthread_create, EAGAIN, -1,
    (pthread_t * thread, const pthread_attr_t *attributes, void *(*run)(void *), void *data),
    (thread, attributes, run, data))

int __real_close(int descriptor);
int __wrap_close(int descriptor);
int __wrap_close(int descriptor)
{
  call_closes(descriptor);
  return __real_close(descriptor);
}

/* The library's own reads and writes have these sizes; lines to and from actors have others. */
static bool is_of_library(size_t size)
{
  return size == sizeof(uint64_t) || size == 1024;
}

#define CALL_OF_LIBRARY(name, pointer)                                                             \
  ssize_t __real_##name(int at, pointer bytes, size_t size);                                       \
  ssize_t __wrap_##name(int at, pointer bytes, size_t size);                                       \
  ssize_t __wrap_##name(int at, pointer bytes, size_t size)                                        \
  {                                                                                                \
    if (!is_of_library(size) || !call_fails(#name)) return __real_##name(at, bytes, size);         \
    errno = EINTR;                                                                                 \
    return -1;                                                                                     \
  }

CALL_OF_LIBRARY(read, void *)
CALL_OF_LIBRARY(write, const void *)

int __real_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...);
int __wrap_openat64(int at, const char *path, int flags, ...)
{
  const char *name = strcmp(path, "bucket") == 0 ? "bucket" : "openat64";
  va_list arguments;
  va_start(arguments, flags);
  mode_t mode = flags & O_CREAT ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  int result = -1;
  if (call_fails(name))
    errno = EMFILE;
  else
    result = __real_openat64(at, path, flags, mode);
  call_made(name, at, result);
  return result;
}

int __real_fcntl64(int at, int command, ...);
int __wrap_fcntl64(int at, int command, ...);
int __wrap_fcntl64(int at, int command, ...)
{
  va_list arguments;
  va_start(arguments, command);
  void *argument = va_arg(arguments, void *);
  va_end(arguments);
  bool waits = command == F_SETLKW || command == F_OFD_SETLKW;
  const char *name = command == F_DUPFD_CLOEXEC ? "F_DUPFD_CLOEXEC"
                     : waits                    ? "F_SETLKW"
                                                : "fcntl64";
  int result = -1;
  if (call_fails(name))
    errno = command == F_DUPFD_CLOEXEC ? EMFILE : ENOLCK;
  else
    result = __real_fcntl64(at, command, argument);
  call_made(name, at, result);
  return result;
}
