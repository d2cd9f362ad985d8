/* What the parts of the port of Linux and macOS have in common with each other, and with nobody
 * else. A part is a file:
 *
 *   port_posix_...       what both share: paths, sockets, locks, threads, descriptors, memory,
 *                        failures
 *   port_linux           what is so on Linux: places, file systems, the boot
 *   port_darwin          the same of macOS; nothing else compiles it
 *   port_linux_calls     calls that only Linux has
 *   port_plain_calls     what stands in for them on macOS, and on Linux where WLH_PLAIN is defined
 *
 * To be included first: it asks the system's headers for more than C11. */
#ifndef WLH_PORT_PARTS_H
#define WLH_PORT_PARTS_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#if !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif

#include "port_host.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- port_posix_failures ---- */

#define WLH_GIVEN     "with the option 'directory' or in WEB_LOCKS_DIRECTORY"
#define WLH_ELSEWHERE "give another one " WLH_GIVEN

/* Sets `failure` by errno, of what was done with a path, and returns its status. */
enum wlh_status wlh_port_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* The same, of what is in the directory: if it is not there any more, somebody took it away. */
enum wlh_status wlh_port_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* ---- port_posix_paths ---- */

enum { WLH_PORT_NEW_SIZE = 64 };

/* What is being made, of this bucket: `name`, WLH_PORT_NEW_SIZE bytes. Nothing else in the
 * directory of a user has such a name. */
void wlh_port_new_name(const struct wlh_port *port, const char *what, char *name);

/* Opens the directory, in that of all buckets, that only this user can write; -1, and errno. */
int wlh_port_open_own(const struct wlh_port *port);

/* ---- port_posix_descriptors ---- */

/* Closes a descriptor, if it is one, and leaves errno alone. */
void wlh_port_close_quietly(int descriptor);

/* Duplicates a descriptor to a large number, if there is one to be had; -1, and errno. */
int wlh_port_duplicate_high(const struct wlh_port *port, int descriptor);

/* Whether a descriptor still is our file, and nobody closed it and opened something else. */
bool wlh_port_is_ours(const struct wlh_port *port, int descriptor);

/* Opens the file once more: another description of it. -1, and errno; ENOENT if it is not there any
 * more. */
int wlh_port_reopen(const struct wlh_port *port);

/* Whether the descriptors of the file are good, if need be with the help of the duplicate. */
bool wlh_port_mend(struct wlh_port *port);

/* ---- port_posix_locks ---- */

/* Whether byte locks do what they are for on this file; errno, if they cannot be tried. */
bool wlh_port_locks_work(struct wlh_port *port);

/* ---- port_posix_memory ---- */

/* Unmaps the file; nothing, if it is not mapped. */
void wlh_port_unmap(struct wlh_port *port);

/* ---- port_linux, port_darwin ---- */

/* Where the platform's directory is made. */
const char *wlh_port_parent(void);

/* Whether a file system is one on which locks and shared memory work; the names of all those. */
bool wlh_port_is_local(int descriptor);
extern const char wlh_port_local[];

/* Who may write: whom owner and mode say; whom an access list says, too; everybody, as the file
 * system does not mind who owns what. */
enum wlh_port_rights { WLH_RIGHTS_OF_MODE, WLH_RIGHTS_OF_LIST, WLH_RIGHTS_OF_ALL };
enum wlh_port_rights wlh_port_rights(int descriptor);

/* Keeps a map out of children, and of core dumps where that can be. */
void wlh_port_keep_private(void *map, size_t size);

/* Writes what the system calls this boot to `name`, at most `size` bytes. Returns how many; 0, and
 * errno, if it does not tell. */
size_t wlh_port_boot_name(char *name, size_t size);

/* ---- port_linux_calls, port_plain_calls ---- */

/* Makes a socket that does not block and is not inherited; -1, and errno. Accepts such a one. */
int wlh_port_socket(int type);
int wlh_port_accept_one(int listener);

/* The address of a name in `place`: the bucket's directory, or what wlh_port_open_own opened.
 * False, and errno, if it is too long for one. */
bool wlh_port_address(
    const struct wlh_port *port, int place, const char *name, struct sockaddr_un *address);

/* What `watch` is; -1 if there is none to be had. */
int wlh_port_new_watch(void);

/* The signals that tell of memory whose file was cut off; the last one is 0. */
extern const int wlh_port_cut_off_signals[];

/* Polls for at most so many ns, WLH_PORT_FOREVER included. */
int wlh_port_poll(struct pollfd *polls, size_t count, uint64_t nanoseconds);

#endif
