/* What only Linux has: where files are by default and where they may be, /proc, inotify, eventfd,
 * ppoll. */
#include "port_parts.h"

#include "../core/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

/* logind empties a user's part of /dev/shm when he logs out (RemoveIPC), but not a system user's.
 */
static bool logind_removes(void)
{
  struct stat status;
  return geteuid() >= 1000 && stat("/run/systemd/seats", &status) == 0;
}

const char *wlh_port_parent(void)
{
  return logind_removes() ? "/tmp" : "/dev/shm";
}

bool wlh_port_is_local(int descriptor)
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

int wlh_port_reopen(int descriptor)
{
  char path[64];
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  return open(path, O_RDWR | O_CLOEXEC);
}

int wlh_port_socket(int type)
{
  return socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

int wlh_port_accept_one(int listener)
{
  return accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
}

/* Through /proc, so that neither the length of the path nor a rename matters. */
void wlh_port_address(int directory, const char *name, struct sockaddr_un *address)
{
  memset(address, 0, sizeof *address);
  address->sun_family = AF_UNIX;
  (void)snprintf(
      address->sun_path, sizeof address->sun_path, "/proc/self/fd/%d/%.60s", directory, name);
}

void wlh_port_keep_private(void *map, size_t size)
{
  (void)madvise(map, size, MADV_DONTFORK);
  (void)madvise(map, size, MADV_DONTDUMP);
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
  /* The number of links is an attribute: a file that is open is deleted with its last descriptor
   * only. */
  (void)snprintf(path, sizeof path, "/proc/self/fd/%d", port->file);
  (void)inotify_add_watch(port->watch, path, IN_ATTRIB | IN_MOVE_SELF | IN_MODIFY);
  for (int i = 0; i < 2; i++) {
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d/%c%u", port->directory, "sw"[i], member);
    (void)inotify_add_watch(
        port->watch, path, IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_DONT_FOLLOW);
  }
}

void wlh_port_watched(struct wlh_port *port)
{
  char events[1024];
  while (read(port->watch, events, sizeof events) > 0) {
  }
}

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
