/* Functions that use system calls that only Linux has. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* wlh_port_make_address and wlh_port_watch need /proc. */
const char *wlh_port_lack(void)
{
  struct stat status;
  if (stat("/proc/self/fd", &status) == 0) return NULL;
  return "/proc is not mounted, and the sockets of a bucket are reached through /proc/self/fd. "
         "Mount it.";
}

int wlh_port_socket(int type)
{
  return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int wlh_port_accept_one(int listener)
{
  return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* A path through /proc is short, however long the bucket's path is, and stays valid if the
 * directory is renamed. */
bool wlh_port_make_address(
    const struct wlh_port *port, int place, const char *name, struct sockaddr_un *address)
{
  (void)port;
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  (void)snprintf(
      address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.60s", place, name);
  return true;
}

int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  int error;
  do {
    error = posix_fallocate(port->file, 0, (off_t)size);
  } while (error == EINTR);
  return error;
}

void wlh_port_give_back(struct wlh_port *port, uint64_t size)
{
  off_t length = (off_t)(port->map_size - size);
  if (length <= 0 || !wlh_port_repair_file(port)) return;
  (void)fallocate(port->file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)size, length);
}

const int wlh_port_cut_off_signals[] = {SIGBUS, 0};

int wlh_port_new_watch(void)
{
  return inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
}

void wlh_port_watch(struct wlh_port *port, uint32_t member)
{
  if (port->watch < 0) port->watch = wlh_port_new_watch();
  if (port->watch < 0) return;
  char path[64];
  const int descriptors[] = {port->base, port->directory};
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptors[i]);
    (void)inotify_add_watch(port->watch, path, IN_MOVE_SELF | IN_DELETE_SELF);
  }
  /* IN_ATTRIB reports a deletion at once, IN_DELETE_SELF when the last descriptor is closed. */
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", port->file);
  (void)inotify_add_watch(port->watch, path, IN_ATTRIB | IN_MOVE_SELF | IN_MODIFY);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%c%u", port->directory, "sw"[i], member);
    (void)inotify_add_watch(
        port->watch, path, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW);
  }
}

void wlh_port_take_file_reports(struct wlh_port *port)
{
  char events[1024];
  while (read(port->watch, events, sizeof events) > 0) {
  }
}

bool wlh_port_make_alarm(struct wlh_port_alarm *alarm)
{
  alarm->rings = alarm->pokes = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  return alarm->rings >= 0;
}

void wlh_port_poke(struct wlh_port_alarm alarm)
{
  uint64_t one = 1;
  ssize_t written;
  do written = write(alarm.pokes, &one, sizeof one); /* A full counter is readable already. */
  while (written < 0 && errno == EINTR);
}

void wlh_port_take_pokes(struct wlh_port_alarm alarm)
{
  uint64_t count;
  ssize_t got = read(alarm.rings, &count, sizeof count);
  (void)got;
}

int wlh_port_poll(struct pollfd *polls, size_t count, uint64_t nanoseconds)
{
  struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  return ppoll(polls, (nfds_t)count, nanoseconds == WLH_PORT_FOREVER ? NULL : &time, NULL);
}
