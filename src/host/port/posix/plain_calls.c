/* Replaces linux_calls.c on macOS and, so that it is tested there, on Linux with WLH_PLAIN. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Sets FD_CLOEXEC and O_NONBLOCK. The caller prevents forks, because a child could pass the
 * descriptor on to another program. On failure, closes the descriptor, returns -1 and sets
 * errno. */
static int mark_not_inherited(int descriptor)
{
  if (descriptor < 0) return -1;
  int flags = fcntl(descriptor, F_GETFL);
  if (flags >= 0 && fcntl(descriptor, F_SETFD, FD_CLOEXEC) == 0 &&
      fcntl(descriptor, F_SETFL, flags | O_NONBLOCK) == 0) {
    return descriptor;
  }
  wlh_port_close_quietly(descriptor);
  return -1;
}

const char *wlh_port_lack(void)
{
  return NULL;
}

int wlh_port_socket(int type)
{
  return mark_not_inherited(socket(AF_UNIX, type, 0));
}

int wlh_port_accept_one(int listener)
{
  return mark_not_inherited(accept(listener, NULL, NULL));
}

bool wlh_port_make_alarm(struct wlh_port_alarm *alarm)
{
  int ends[2] = {-1, -1};
  wlh_port_prevent_forks();
  bool made = pipe(ends) == 0;
  alarm->rings = made ? mark_not_inherited(ends[0]) : -1;
  alarm->pokes = made ? mark_not_inherited(ends[1]) : -1;
  wlh_port_permit_forks();
  if (alarm->rings >= 0 && alarm->pokes >= 0) return true;
  wlh_port_close_quietly(alarm->rings);
  wlh_port_close_quietly(alarm->pokes);
  return false;
}

void wlh_port_poke(struct wlh_port_alarm alarm)
{
  ssize_t written;
  do written = write(alarm.pokes, "", 1); /* If the pipe is full, it is readable already. */
  while (written < 0 && errno == EINTR);
}

void wlh_port_take_pokes(struct wlh_port_alarm alarm)
{
  char bytes[64];
  while (read(alarm.rings, bytes, sizeof bytes) > 0) {
  }
}

/* An address has room for some 100 bytes of path. The temporary name, to which a socket is bound
 * first (make_socket), is the longest name. If its path fits, all other paths do. */
bool wlh_port_make_address(
    const struct wlh_port *port, int place, const char *name, struct sockaddr_un *address)
{
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  size_t size = sizeof address->sun_path;
  int above = (int)(strrchr(port->path, '/') - port->path);
  int length = place == port->directory
                   ? snprintf(address->sun_path, size, "%s/%s", port->path, name)
                   : snprintf(
                         address->sun_path, size, "%.*s/u%u/%s", above, port->path,
                         (unsigned)geteuid(), name);
  if (length > 0 && (size_t)length < size) return true;
  errno = ENAMETOOLONG;
  return false;
}

const int wlh_port_cut_off_signals[] = {SIGBUS, SIGSEGV, 0};

/* Appending zeros allocates each page, and never overwrites bytes that another process has
 * appended. If several processes append at once, the file gets a little larger than needed. */
int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  static const char zeros[16384];
  struct stat status;
  int flags = fcntl(port->file, F_GETFL);
  if (flags < 0 || fcntl(port->file, F_SETFL, flags | O_APPEND) != 0) return errno;
  while (fstat(port->file, &status) == 0) {
    uint64_t now = (uint64_t)status.st_size;
    if (now >= size) return 0;
    uint64_t missing = size - now;
    size_t count = missing < sizeof zeros ? (size_t)missing : sizeof zeros;
    ssize_t written = write(port->file, zeros, count);
    if (written < 0 && errno != EINTR) return errno;
    if (written == 0) return ENOSPC;
  }
  return errno;
}

/* Does nothing, so the space stays allocated until a process that has the file open alone recreates
 * the file. */
void wlh_port_give_back(struct wlh_port *port, uint64_t size)
{
  (void)port;
  (void)size;
}

/* No notification reports changes of our files, so helper.c checks them. */
int wlh_port_new_watch(void)
{
  return -1;
}

void wlh_port_watch(struct wlh_port *port, uint32_t member)
{
  (void)port;
  (void)member;
}

void wlh_port_take_file_reports(struct wlh_port *port)
{
  (void)port;
}

/* Rounds up, and returns -1 for WLH_PORT_FOREVER. */
static int milliseconds(uint64_t nanoseconds)
{
  if (nanoseconds == WLH_PORT_FOREVER) return -1;
  uint64_t whole = nanoseconds / 1000000 + (nanoseconds % 1000000 != 0);
  return whole > INT_MAX ? INT_MAX : (int)whole;
}

int wlh_port_poll(struct pollfd *polls, size_t count, uint64_t nanoseconds)
{
  return poll(polls, (nfds_t)count, milliseconds(nanoseconds));
}
