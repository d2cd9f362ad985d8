/* What the parts of the port to Windows have in common with each other, and with nobody else. A
 * part is a file: port_windows_failures, _access, _files, _locks, _memory, _peers, _threads and
 * _paths.
 *
 * How it differs from POSIX, where port_host.h speaks of descriptors and sockets:
 *   - A descriptor is a handle, whose value has 32 bits also where pointers have 64. That of a
 *     connection to another member is the number of that member.
 *   - `errno`, where a function of port_host.h leaves it, has what GetLastError tells, and so has
 *     an `int` that is the system's error.
 *   - There are no sockets, listeners and accepted connections: `stream` is -1 for ever. What they
 *     are for is done by a second file of the bucket, `peers`; see port_windows_peers.c.
 *   - A process cannot be forked.
 *
 * Two other ways were tried and left out (docs/internals/architecture.md, "On Windows").
 *
 * To be included first: it asks the system's headers for Windows 10. */
#ifndef WLH_PORT_WINDOWS_PARTS_H
#define WLH_PORT_WINDOWS_PARTS_H

#undef _WIN32_WINNT
#define _WIN32_WINNT 0x0A00

#include "port_host.h"

#define WLH_GIVEN     "with the option 'directory' or in WEB_LOCKS_DIRECTORY"
#define WLH_ELSEWHERE "give another one " WLH_GIVEN

/* What a member tells the others of itself: record `member` of the file `peers`. Only the
 * holder of the member's byte writes it: `life` 0 first, and last of all what it will be. */
struct wlh_peer_record {
  _Atomic uint64_t life; /* random, never used again: the name of its event; 0: nobody */
  uint32_t pid;
  uint32_t zero;
  uint64_t born; /* when that process was created: with `pid` this means one process for ever */
  uint64_t zeros;
};

/* Another member as we watch it. Of the helper alone, but for `died`. */
struct wlh_peer {
  uint64_t life;  /* that of its record when we connected; 0: not connected */
  HANDLE process; /* waited for by the thread pool */
  HANDLE wait;    /* by this */
  HANDLE news;    /* what the thread pool signals: that of the bucket */
  LONG died;      /* 1: the process ended. Written by the thread pool, atomic */
};

/* What only Windows needs of a bucket that is open. */
struct wlh_system {
  FILE_ID_INFO id;                 /* of the file */
  FILE_ID_INFO peers_id;           /* of the file `peers` */
  struct wlh_peer_record *records; /* WLH_PORT_MEMBERS of them: that file, mapped */
  uint32_t member;                 /* ours, if `life` is not 0 */
  uint32_t taken;                  /* 1 and the number of the member whose byte is ours; 0: none */
  uint64_t life;                   /* ours, while we are bound; else 0 */
  HANDLE news;                     /* signalled when one of `peers` died */
  struct wlh_peer peers[WLH_PORT_MEMBERS];
};

static inline HANDLE wlh_port_handle(int descriptor)
{
  return (HANDLE)(LONG_PTR)descriptor;
}

/* -1 for both values that mean none. */
static inline int wlh_port_descriptor(HANDLE handle)
{
  return handle ? (int)(LONG_PTR)handle : -1;
}

/* ---- port_windows_failures ---- */

/* Sets `failure` by GetLastError, of what was done with a path, and returns its status. */
enum wlh_status wlh_port_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* The same, of what was there: if it is not there any more, somebody took it away. */
enum wlh_status wlh_port_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what);

/* ---- port_windows_access ---- */

/* What is made for this user alone: with the system and the administrators, who have all anyway. */
struct wlh_private {
  SECURITY_ATTRIBUTES attributes;
  SECURITY_DESCRIPTOR descriptor;
  union {
    ACL acl;
    char bytes[512];
  } list;
};

/* Makes such attributes, of a directory or of something else; false, and GetLastError. They point
 * into `security`, which stays where it is. */
bool wlh_port_private(struct wlh_private *security, bool directory);

/* Whether nobody else can write there, nor, of a file, lock it, which takes the right to read it.
 *   returns WLH_OK or WLH_UNSUPPORTED */
enum wlh_status wlh_port_check_access(
    HANDLE handle, const char *path, bool directory, struct wlh_failure *failure);

/* ---- port_windows_files ---- */

enum { WLH_PORT_WIDE_SIZE = WLH_PATH_SIZE + 32 };

#define WLH_PORT_SHARE        (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define WLH_PORT_NO_FOLLOWING FILE_FLAG_OPEN_REPARSE_POINT

/* Writes a path as the system takes it, however long it is, to `wide`, WLH_PORT_WIDE_SIZE units.
 * False if it is not UTF-8. */
bool wlh_port_wide_path(const char *path, WCHAR *wide);

/* Writes the path of a file of the bucket in the same way. `name` "" is the bucket's directory. */
bool wlh_port_wide(const struct wlh_port *port, const char *name, WCHAR *wide);

/* Opens a file of the bucket with all rights to share; INVALID_HANDLE_VALUE, and GetLastError. */
HANDLE wlh_port_open_file(const struct wlh_port *port, const char *name, DWORD disposition);

/* Looks whether the path of a file of the bucket leads to the one with this id. Returns NULL, or
 * what happened to it: the end of a sentence, a constant. */
const char *wlh_port_moved(const struct wlh_port *port, const char *name, const FILE_ID_INFO *id);

/* ---- port_windows_locks ---- */

/* Whether byte locks do what they are for on this file; GetLastError, if they cannot be tried. */
bool wlh_port_locks_work(struct wlh_port *port);

/* ---- port_windows_memory ---- */

/* Maps `size` bytes of a file; NULL, and GetLastError. */
void *wlh_port_map_file(HANDLE file, uint64_t size);

/* ---- port_windows_peers ---- */

/* Opens the file `peers`, and leaves it. */
enum wlh_status wlh_port_open_peers(struct wlh_port *port, struct wlh_failure *failure);
void wlh_port_close_peers(struct wlh_port *port);

/* Whether a connection is over: the process died, or is not that member any more. */
bool wlh_port_is_over(const struct wlh_port *port, int descriptor);

#endif
