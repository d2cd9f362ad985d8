/* The descriptors of a bucket: their numbers, and repairs after other code has closed them. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HIGH 512

void wlh_port_init(struct wlh_port *port)
{
  memset(port, 0, sizeof *port);
  port->base = port->directory = port->file = port->copy = -1;
  port->stream = port->datagram = port->watch = port->guard = -1;
}

/* Whether the process's table of descriptors is large enough for HIGH. Atomic; it never becomes
 * false again. A thread that still reads false takes a smaller number, which is moved later. */
static bool wide;

/* Returns the least number for descriptors whose closing reports our death. The kernel closes the
 * greatest numbers of a dead process first, and closing an inotify instance takes some 10 ms, which
 * would delay the report. So `watch` must have a smaller number and, if the table is large enough,
 * the watches of other buckets as well. */
static int least_high(const struct wlh_port *port)
{
  return __atomic_load_n(&wide, __ATOMIC_RELAXED) ? HIGH : port->watch + 1;
}

int wlh_port_duplicate_high(const struct wlh_port *port, int descriptor)
{
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, least_high(port));
  return high >= 0 ? high : fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
}

int wlh_port_to_high(const struct wlh_port *port, int descriptor)
{
  int least = least_high(port);
  if (descriptor < 0 || descriptor >= least) return descriptor;
  int high = fcntl(descriptor, F_DUPFD_CLOEXEC, least);
  if (high < 0) return descriptor;
  (void)close(descriptor);
  return high;
}

void wlh_port_move_high(const struct wlh_port *port, int *descriptor)
{
  wlh_port_prevent_forks();
  *descriptor = wlh_port_to_high(port, *descriptor);
  wlh_port_permit_forks();
}

void wlh_port_enlarge_table(const struct wlh_port *port)
{
  int high = fcntl(port->base, F_DUPFD_CLOEXEC, HIGH);
  if (high < 0) return;
  (void)close(high);
  __atomic_store_n(&wide, true, __ATOMIC_RELAXED);
}

void wlh_port_close_quietly(int descriptor)
{
  int error = errno;
  wlh_port_close_descriptor(descriptor);
  errno = error;
}

void wlh_port_close_recorded(int *descriptor)
{
  wlh_port_prevent_forks();
  wlh_port_close_quietly(*descriptor);
  *descriptor = -1;
  wlh_port_permit_forks();
}

void wlh_port_close_descriptor(int descriptor)
{
  if (descriptor >= 0) (void)close(descriptor);
}

bool wlh_port_is_ours(const struct wlh_port *port, int descriptor)
{
  struct stat status;
  return descriptor >= 0 && fstat(descriptor, &status) == 0 &&
         (uint64_t)status.st_dev == port->device && (uint64_t)status.st_ino == port->inode;
}

/* If the system cannot say whether other code closed or reused the descriptor, it counts as ours:
 * otherwise a bucket would be lost, or its descriptor would stay open. */
static bool may_be_ours(const struct wlh_port *port, int descriptor)
{
  struct stat status;
  if (descriptor < 0) return false;
  if (fstat(descriptor, &status) != 0) return errno != EBADF;
  return (uint64_t)status.st_dev == port->device && (uint64_t)status.st_ino == port->inode;
}

int wlh_port_reopen(const struct wlh_port *port)
{
  int file = openat(port->directory, "bucket", O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (file < 0 || wlh_port_is_ours(port, file)) return file;
  (void)close(file);
  errno = ENOENT; /* Our file was deleted or moved. */
  return -1;
}

bool wlh_port_repair_file(struct wlh_port *port)
{
  if (may_be_ours(port, port->file)) return true;
  if (!may_be_ours(port, port->copy)) return false;
  /* The number now belongs to another file, so it is not closed. */
  wlh_port_prevent_forks();
  port->file = port->copy;
  port->copy = wlh_port_duplicate_high(port, port->file);
  wlh_port_permit_forks();
  return true;
}

void wlh_port_move_all_high(struct wlh_port *port)
{
  if (!wlh_port_repair_file(port)) return;
  wlh_port_move_high(port, &port->file);
  if (wlh_port_is_ours(port, port->copy)) wlh_port_move_high(port, &port->copy);
  wlh_port_move_high(port, &port->stream);
  wlh_port_move_high(port, &port->datagram);
}

/* The file's descriptors are closed only if they still are ours. */
void wlh_port_close_files(struct wlh_port *port)
{
  if (may_be_ours(port, port->copy)) wlh_port_close_descriptor(port->copy);
  if (may_be_ours(port, port->file)) wlh_port_close_descriptor(port->file);
  wlh_port_close_descriptor(port->watch);
  wlh_port_close_descriptor(port->stream);
  wlh_port_close_descriptor(port->datagram);
  wlh_port_close_descriptor(port->directory);
  wlh_port_close_descriptor(port->base);
  port->base = port->directory = port->file = port->copy = -1;
  port->stream = port->datagram = port->watch = -1;
}
