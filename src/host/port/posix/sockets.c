/* The two sockets of a member: for wake-ups, and for notification of its death. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 256
#define REFUSED UINT64_C(10000000) /* nanoseconds to sleep if the system refuses to wait */

static bool address_of(
    const struct wlh_port *port, char kind, uint32_t member, struct sockaddr_un *address)
{
  char name[16];
  (void)snprintf(name, sizeof name, "%c%u", kind, member);
  return wlh_port_make_address(port, port->directory, name, address);
}

/* `place` is a directory that only our user can write. Sets `*inode` to that of the socket file. */
static bool bind_in(
    const struct wlh_port *port, int descriptor, int type, int place, const char *name,
    uint64_t *inode)
{
  struct sockaddr_un address;
  struct stat status;
  if (!wlh_port_make_address(port, place, name, &address)) return false;
  (void)unlinkat(place, name, 0);
  if (bind(descriptor, (struct sockaddr *)&address, sizeof address) != 0) return false;
  if (fstatat(place, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return false;
  *inode = (uint64_t)status.st_ino;
  return (!port->group || status.st_gid == port->gid ||
          fchownat(place, name, (uid_t)-1, port->gid, AT_SYMLINK_NOFOLLOW) == 0) &&
         fchmodat(place, name, port->group ? 0660 : 0600, 0) == 0 &&
         (type != SOCK_STREAM || listen(descriptor, BACKLOG) == 0);
}

/* Binds a socket to a temporary name, and then gives it its final name. The temporary name has the
 * same length for each member: if the path is too long for a socket's address, the first member
 * fails, and not only the tenth. */
static bool make_socket(
    struct wlh_port *port, int *descriptor, int type, char kind, uint32_t member, uint64_t *inode)
{
  char final[16], end[16], name[WLH_PORT_NEW_SIZE];
  (void)snprintf(final, sizeof final, "%c%u", kind, member);
  (void)snprintf(end, sizeof end, ".%c%03u", kind, member);
  if (port->group)
    wlh_port_temporary_name(port, end, name);
  else
    (void)snprintf(name, sizeof name, "new%s", end);
  wlh_port_prevent_forks();
  *descriptor = wlh_port_socket(type);
  wlh_port_permit_forks();
  int place = port->group ? wlh_port_open_user_directory(port) : port->directory;
  bool bound =
      *descriptor >= 0 && place >= 0 && bind_in(port, *descriptor, type, place, name, inode);
  bound = bound && renameat(place, name, port->directory, final) == 0;
  if (port->group) wlh_port_close_quietly(place);
  if (bound)
    wlh_port_move_high(port, descriptor);
  else
    wlh_port_close_recorded(descriptor);
  return bound;
}

static bool is_bound(const struct wlh_port *port, char kind, uint32_t member, uint64_t inode)
{
  char name[16];
  struct stat status;
  (void)snprintf(name, sizeof name, "%c%u", kind, member);
  return fstatat(port->directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         (uint64_t)status.st_ino == inode;
}

bool wlh_port_is_bound(struct wlh_port *port, uint32_t member)
{
  return port->datagram >= 0 && is_bound(port, 's', member, port->stream_inode) &&
         is_bound(port, 'w', member, port->datagram_inode);
}

/* If another process has bound its socket to our path, this is no failure: we bind again later. */
static int wake_up_oneself(struct wlh_port *port, uint32_t member)
{
  char byte;
  if (wlh_port_send_wake_up(port, member) == WLH_SENT &&
      recv(port->datagram, &byte, 1, MSG_DONTWAIT) >= 0)
    return 0;
  int error = errno;
  if (!wlh_port_is_bound(port, member)) return 0;
  /* Another process may have bound its socket to the path before we read the inode: then the inode
   * is that of its socket. With 0, wlh_port_is_bound returns false, and we bind again. */
  port->datagram_inode = 0;
  return error;
}

int wlh_port_bind(struct wlh_port *port, uint32_t member)
{
  wlh_port_close_recorded(&port->stream);
  wlh_port_close_recorded(&port->datagram);
  bool bound = make_socket(port, &port->stream, SOCK_STREAM, 's', member, &port->stream_inode) &&
               make_socket(port, &port->datagram, SOCK_DGRAM, 'w', member, &port->datagram_inode);
  return bound ? wake_up_oneself(port, member) : errno;
}

void wlh_port_unbind(struct wlh_port *port, uint32_t member)
{
  for (int i = 0; i < 2; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%c%u", "sw"[i], member);
    (void)unlinkat(port->directory, name, 0);
  }
}

enum wlh_sent wlh_port_send_wake_up(struct wlh_port *port, uint32_t member)
{
  struct sockaddr_un address;
  if (!address_of(port, 'w', member, &address)) return WLH_NOT_NOW;
  if (sendto(
          port->datagram, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address,
          sizeof address) >= 0) {
    return WLH_SENT;
  }
  return errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_NOT_NOW;
}

void wlh_port_take_wake_ups(struct wlh_port *port)
{
  char byte;
  while (recv(port->datagram, &byte, 1, MSG_DONTWAIT) >= 0) {
  }
}

int wlh_port_duplicate_wake_ups(const struct wlh_port *port)
{
  return fcntl(port->datagram, F_DUPFD_CLOEXEC, 0);
}

enum wlh_sent wlh_port_connect(struct wlh_port *port, uint32_t member, int *descriptor)
{
  struct sockaddr_un address;
  if (!address_of(port, 's', member, &address)) return WLH_NOT_NOW;
  wlh_port_prevent_forks();
  int stream = wlh_port_socket(SOCK_STREAM);
  bool connected = stream >= 0 && connect(stream, (struct sockaddr *)&address, sizeof address) == 0;
  if (connected)
    *descriptor = stream;
  else
    wlh_port_close_quietly(stream);
  wlh_port_permit_forks();
  if (connected) return WLH_SENT;
  if (stream < 0) return WLH_NOT_NOW;
  return errno == ECONNREFUSED || errno == ENOENT ? WLH_NOBODY : WLH_NOT_NOW;
}

void wlh_port_disconnect(struct wlh_port *port, int *descriptor)
{
  (void)port;
  wlh_port_close_recorded(descriptor);
}

void wlh_port_rouse(struct wlh_port *port, uint32_t member)
{
  int descriptor = -1;
  if (wlh_port_connect(port, member, &descriptor) == WLH_SENT)
    wlh_port_disconnect(port, &descriptor);
}

bool wlh_port_accept(struct wlh_port *port, int *descriptor, bool *full)
{
  wlh_port_prevent_forks();
  int accepted = wlh_port_accept_one(port->stream);
  int error = errno;
  *descriptor = wlh_port_to_high(port, accepted);
  wlh_port_permit_forks();
  *full = accepted < 0 && (error == EMFILE || error == ENFILE || error == ENOMEM);
  return accepted >= 0;
}

void wlh_port_wait(
    struct wlh_port *port, struct wlh_wait_item *items, size_t count, uint64_t nanoseconds)
{
  (void)port;
  struct pollfd polls[WLH_PORT_WAIT_MOST];
  size_t places[WLH_PORT_WAIT_MOST];
  size_t polled = 0;
  if (count > WLH_PORT_WAIT_MOST) count = WLH_PORT_WAIT_MOST;
  for (size_t i = 0; i < count; i++) {
    items[i].ready = items[i].hung_up = false;
    /* poll refuses more items than the process may have open descriptors, even if they are empty.
     * So empty items are left out. */
    if (items[i].descriptor < 0) continue;
    places[polled] = i;
    /* macOS reports a hang-up only on request, and only until data arrives, so nothing is ever
     * written to a connection. */
    polls[polled++] =
        (struct pollfd){items[i].descriptor, (short)(POLLHUP | (items[i].reads ? POLLIN : 0)), 0};
  }
  int ready = wlh_port_poll(polls, polled, nanoseconds);
  /* If the system refuses to wait, this sleeps, because the caller would call again at once. */
  if (ready < 0 && errno != EINTR) wlh_port_sleep(nanoseconds < REFUSED ? nanoseconds : REFUSED);
  for (size_t i = 0; i < polled && ready > 0; i++) {
    items[places[i]].ready = polls[i].revents != 0;
    items[places[i]].hung_up = (polls[i].revents & (POLLHUP | POLLERR | POLLNVAL)) != 0;
  }
}
