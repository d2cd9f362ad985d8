/* Declarations private to the Linux and macOS port. Both systems compile all of its files, except
 * that darwin.c replaces linux.c on macOS, and plain_calls.c replaces linux_calls.c on macOS and on
 * Linux with WLH_PLAIN.
 *
 * "The caller prevents forks" means that it is between wlh_port_prevent_forks and
 * wlh_port_permit_forks. This header must be included first, because it asks the system's headers
 * for more than C11. */
#ifndef WLH_PORT_PARTS_H
#define WLH_PORT_PARTS_H

#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#if !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif

#include "../port.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

/* ---- failures ---- */

#define WLH_GIVEN     "(option 'directory' or WEB_LOCKS_DIRECTORY)"
#define WLH_ELSEWHERE "use another directory " WLH_GIVEN

/* Sets `failure` from errno for an operation on a path, and returns its status. */
enum wlh_status wlh_port_fail_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* Works as wlh_port_fail_unsupported does, but returns WLH_LOST if the path no longer exists. */
enum wlh_status wlh_port_fail_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* ---- paths ---- */

enum { WLH_PORT_NEW_SIZE = 64 };

/* Writes the temporary name of a new file of this bucket, which ends with `what`, to `name`, of
 * WLH_PORT_NEW_SIZE bytes. All processes of a user have the same name, so a process that died may
 * have left such a file. */
void wlh_port_temporary_name(const struct wlh_port *port, const char *what, char *name);

/* Opens the directory in `base` that only our user can write. On failure, sets errno. */
int wlh_port_open_user_directory(const struct wlh_port *port);

/* ---- descriptors ---- */

/* Closes a descriptor and keeps errno. Does nothing for -1. */
void wlh_port_close_quietly(int descriptor);

/* Closes a descriptor, sets it to -1, keeps errno and prevents forks meanwhile. */
void wlh_port_close_recorded(int *descriptor);

/* On failure, returns -1 and sets errno. The caller prevents forks. */
int wlh_port_duplicate_high(const struct wlh_port *port, int descriptor);

/* Returns the new number of the descriptor, or the same number. The caller prevents forks. */
int wlh_port_to_high(const struct wlh_port *port, int descriptor);

/* Returns whether a descriptor is still our file, and was not closed or reused. */
bool wlh_port_is_ours(const struct wlh_port *port, int descriptor);

/* Opens the file once more. On failure, returns -1 and sets errno: ENOENT if the file is gone. */
int wlh_port_reopen(const struct wlh_port *port);

/* If other code closed or reused `file`, replaces it by `copy`. Returns whether it is usable. */
bool wlh_port_repair_file(struct wlh_port *port);

/* ---- locks ---- */

/* Returns whether byte locks work on this file. Sets errno if they cannot be tried. */
bool wlh_port_locks_work(struct wlh_port *port);

/* ---- memory ---- */

void wlh_port_unmap(struct wlh_port *port);

/* ---- linux, darwin ---- */

const char *wlh_port_default_parent(void);

/* Returns whether locks and shared memory work on this file system, one of wlh_port_local. */
bool wlh_port_is_local(int descriptor);
extern const char wlh_port_local[];

/* What decides who may write to a file. MODE: its owner and its mode. LIST: an access list as well.
 * ALL: nothing, because the file system ignores owners, so everybody may write. */
enum wlh_port_rights { WLH_RIGHTS_OF_MODE, WLH_RIGHTS_OF_LIST, WLH_RIGHTS_OF_ALL };
enum wlh_port_rights wlh_port_rights(int descriptor);

/* Excludes a map from children and, if possible, from core dumps. */
void wlh_port_keep_private(void *map, size_t size);

/* Returns the length of the name, or 0 if it is unknown. */
size_t wlh_port_boot_name(char *name, size_t size);

/* ---- linux_calls, plain_calls ---- */

/* Returns NULL, or a sentence about what the functions below need and this system lacks. */
const char *wlh_port_lack(void);

/* Return a socket that neither blocks nor is inherited, or -1. The caller prevents forks. */
int wlh_port_socket(int type);
int wlh_port_accept_one(int listener);

/* `place` is the bucket's directory, or the result of wlh_port_open_user_directory. If the path is
 * too long, returns false and sets errno. */
bool wlh_port_make_address(
    const struct wlh_port *port, int place, const char *name, struct sockaddr_un *address);

/* Returns -1 if the system cannot provide a watch. */
int wlh_port_new_watch(void);

/* The signals that report access to memory of a truncated file. 0 ends the list. */
extern const int wlh_port_cut_off_signals[];

int wlh_port_poll(struct pollfd *polls, size_t count, uint64_t nanoseconds);

#endif
