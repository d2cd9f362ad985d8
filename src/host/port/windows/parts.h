/* Declarations private to the Windows port. It differs as follows from what port.h describes:
 *
 * - A descriptor is a handle, whose value has 32 bits even if pointers have 64. The descriptor of a
 *   connection to another member is that member's number.
 * - `errno`, and an `int` with the system's error, have the value of GetLastError.
 * - There are no sockets, listeners or accepted connections: `stream` is always -1. The bucket's
 *   second file, `peers`, replaces them, see peers.c.
 * - Processes do not fork.
 *
 * docs/internals/architecture.md, "On Windows", describes two other designs that were tried. This
 * header must be included first, because it asks the system's headers for Windows 10. */
#ifndef WLH_PORT_WINDOWS_PARTS_H
#define WLH_PORT_WINDOWS_PARTS_H

#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00

#include "../port.h"

#define WLH_GIVEN     "(option 'directory' or WEB_LOCKS_DIRECTORY)"
#define WLH_ELSEWHERE "use another directory " WLH_GIVEN

/* The record of one member in the file `peers`. Only the holder of the member's byte lock may write
 * it. The writer first sets `life` to 0, and last to the new value. */
struct wlh_peer_record {
  _Atomic uint64_t life; /* random and used only once: names the event; 0 for no member */
  uint32_t pid;
  uint32_t zero;
  uint64_t born; /* when the process was created; with `pid` it identifies one process for ever */
  uint64_t zeros;
};

/* Another member that we watch. Only the helper uses it, except for `died`. */
struct wlh_peer {
  uint64_t life;  /* `life` of its record when we connected; 0 if not connected */
  HANDLE process; /* the thread pool waits for its end */
  HANDLE wait;    /* the wait of the thread pool */
  HANDLE news;    /* the event `news` of the bucket, which the thread pool signals */
  LONG died;      /* 1: the process ended. Written by the thread pool, atomic */
};

struct wlh_system {
  FILE_ID_INFO id;                 /* of the segment */
  FILE_ID_INFO peers_id;           /* of the file `peers` */
  struct wlh_peer_record *records; /* WLH_PORT_MEMBERS records of that file, mapped */
  uint32_t member;                 /* ours, if `life` is not 0 */
  uint32_t taken;                  /* 1 + the number whose byte we have locked; 0 for none */
  uint64_t life;                   /* `life` of our record while we are bound; else 0 */
  HANDLE news;                     /* an event, signalled when a member of `peers` has died */
  struct wlh_peer peers[WLH_PORT_MEMBERS];
};

static inline HANDLE wlh_port_handle(int descriptor)
{
  return (HANDLE)(LONG_PTR)descriptor;
}

static inline int wlh_port_descriptor(HANDLE handle)
{
  return handle ? (int)(LONG_PTR)handle : -1;
}

/* ---- failures ---- */

/* Sets `failure` from GetLastError for an operation on a path, and returns its status. */
enum wlh_status wlh_port_fail_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* Works as wlh_port_fail_unsupported does, but returns WLH_LOST if the path no longer exists. */
enum wlh_status wlh_port_fail_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* ---- access ---- */

/* Security attributes that give access to this user, SYSTEM and the administrators only. */
struct wlh_private {
  SECURITY_ATTRIBUTES attributes;
  SECURITY_DESCRIPTOR descriptor;
  union {
    ACL acl;
    char bytes[512];
  } list;
};

/* Makes the attributes, which point into `security`: it must not move in memory. If they cannot be
 * made, returns false, with GetLastError set. */
bool wlh_port_make_private(struct wlh_private *security, bool directory);

/* Checks that only this user, SYSTEM and the administrators can write to the file or directory. Of
 * a file, others may not have read access either, because that is enough to lock it. */
enum wlh_status wlh_port_check_access(
    HANDLE handle, const char *path, bool directory, struct wlh_failure *failure);

/* ---- files ---- */

enum { WLH_PORT_WIDE_SIZE = WLH_PATH_SIZE + 32 };

#define WLH_PORT_SHARE        (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define WLH_PORT_NO_FOLLOWING FILE_FLAG_OPEN_REPARSE_POINT

/* Converts an absolute path to the form in which the system accepts any length. Returns false if
 * `path` is not UTF-8 or does not fit. */
bool wlh_port_widen_path(const char *path, WCHAR *wide);

/* `name` is the name of a file of the bucket, or "" for the bucket's directory. */
bool wlh_port_widen_file_path(const struct wlh_port *port, const char *name, WCHAR *wide);

/* Opens a file of the bucket so that other processes may open it as well. If that fails, returns
 * INVALID_HANDLE_VALUE, with GetLastError set. */
HANDLE wlh_port_open_file(const struct wlh_port *port, const char *name, DWORD disposition);

/* If the path of a file of the bucket does not lead to the file with this id, returns what
 * happened, as wlh_port_find_harm does. Otherwise, or after a shortage, returns NULL. */
const char *wlh_port_find_move(
    const struct wlh_port *port, const char *name, const FILE_ID_INFO *id);

/* ---- locks ---- */

/* Returns whether byte locks work on this file. Sets GetLastError if they cannot be tried. */
bool wlh_port_locks_work(struct wlh_port *port);

/* ---- memory ---- */

/* Maps the first `size` bytes of a file, and extends the file first if it is shorter. On failure,
 * returns NULL, with GetLastError set. */
void *wlh_port_map_file(HANDLE file, uint64_t size);

/* ---- peers ---- */

/* Maps the records of all members. */
enum wlh_status wlh_port_join_peers(struct wlh_port *port, struct wlh_failure *failure);
/* Unbinds this member, and wakes all others, so that they notice its end. */
void wlh_port_leave_peers(struct wlh_port *port);

/* Returns whether a connection has ended: the process has died, or is no longer that member. */
bool wlh_port_is_over(const struct wlh_port *port, int descriptor);

#endif
