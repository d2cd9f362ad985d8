/* The port of the host scope to the operating system. This head says what the host scope requires
 * of the system, and why; the rest of this header declares the functions.
 *
 * The problem. The end of a process ends its locks, so if a living process is taken for dead, a
 * lock gets two holders. A pid proves nothing: the system reuses it, and another container has
 * different pids. A time limit proves nothing either: a process can be stopped for longer. The
 * answer must be available at once after a kill, even if the process that asks has no descriptor
 * left. And any program of the user may delete, move or truncate the files.
 *
 * The solution uses four features of the kernel:
 *   proof of life  a byte lock that each member holds on its own byte of the file. The kernel drops
 *                  the lock with the process. On any error the answer is "alive"
 *   death notice   the hang-up of a connection to the member's socket (on Windows the end of its
 *                  process). It proves nothing; it only says when to check the byte lock
 *   wake-up        one datagram to the member's other socket (on Windows an event). It requires
 *                  neither a connection nor a descriptor for each member
 *   the tables     a mapped file. Space for all its bytes is allocated before they are used, so
 *                  that on a full disk a call fails, and not a store
 *
 * Sharing. A bucket is a directory, and only processes that may write it take part:
 *   bucket    the segment, and far after its end the byte locks: the gate, then one for each member
 *   s1, w1    the sockets of member 1: for connections, and for wake-ups. A file `peers` on Windows
 *   name      the bucket's name, for programs that list buckets
 * The holder of the gate may format the file. `struct wlh_port` has the files, locks and sockets of
 * one member, and `mu` of its bucket guards it.
 *
 * A member calls wlh_port_open, wlh_port_map, wlh_port_lock_gate (only if the file must be
 * formatted), wlh_port_lock_member, wlh_port_bind, wlh_port_watch, wlh_port_wait repeatedly,
 * wlh_port_unbind and wlh_port_close, in this order.
 *
 * Crashes: the state that each leaves, and who repairs it.
 *   a kill                 the paths of sockets that nobody answers. The next member with that
 *                          number replaces them. The kernel closes sockets a little before it drops
 *                          the lock, so the lock is checked again until it proves the death
 *   a kill with the gate   a free gate, because the gate is a byte lock as well
 *   while files are made   an empty file, which is formatted; or, if a group shares the bucket, an
 *                          incomplete file or directory, which the user's next process completes
 *   a reboot               a file with another boot's number, which the next member recreates
 *   a truncated file       a signal at the next access. The handler maps zeros there and sets
 *                          `lost`
 *   a file that was moved  a report on `watch`, or wlh_port_find_harm, shows this to each member,
 *                          which then gives the file up
 *   sockets deleted        wlh_port_is_bound notices it, and the member binds again. Until then
 *                          wake-ups fail, and deaths are found by checks only
 *   a stray close()        a descriptor that may now belong to another file. `copy` keeps our open
 *                          file description, and with it the byte lock. wlh_port_repair_file puts
 *                          `copy` in the place of `file`
 *
 * Callers. wlh_port_is_alive needs neither the tables nor a free descriptor. A signal handler and a
 * forked child may call only functions whose comment says so. No function blocks except
 * wlh_port_wait, wlh_port_sleep and wlh_port_enlarge_table.
 *
 * posix/ implements the port for Linux and macOS, windows/ for Windows. Elsewhere
 * none/unavailable.c is the whole scope and returns WLH_UNSUPPORTED. */
#ifndef WLH_PORT_HOST_H
#define WLH_PORT_HOST_H

#include "../../core/port.h"
#include "../host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WLH_PORT_MEMBERS = 256, WLH_PATH_SIZE = 1024, WLH_FAILURE_SIZE = 1900 };

/* `text` names the path and the cause; it ends with a full stop only if it also says what to do. */
struct wlh_failure {
  enum wlh_status status;
  char text[WLH_FAILURE_SIZE];
};

/* Returns `status`. */
enum wlh_status wlh_fail(
    struct wlh_failure *failure, enum wlh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Returns the system's text for `error`, which is valid until the thread's next call. */
const char *wlh_port_error_text(int error);

/* Returns a constant: ". " and a sentence that says what to do about `error`, or "". */
const char *wlh_port_remedy(int error);

/* Returns a constant sentence that says how to find the programs that have a file open. */
const char *wlh_port_open_files_hint(void);

/* Returns WLH_FULL for a passing shortage (space, descriptors, memory), or WLH_UNSUPPORTED. */
enum wlh_status wlh_port_status_of(int error);

/* A descriptor is -1 if there is none. */
struct wlh_port {
  char path[WLH_PATH_SIZE]; /* of the bucket's directory */
  int base;                 /* the directory of all buckets */
  int directory;            /* of this bucket, with a shared flock */
  int file;                 /* the segment, and the byte locks */
  int copy;                 /* a duplicate of `file`, against a stray close() of it */
  int stream;               /* a listener; its connections hang up when we die */
  int datagram;             /* sends and receives wake-ups */
  int watch;                /* reports changes of the files; -1 also if the system has no watches */
  uint64_t device;          /* of `file`, when it was opened */
  uint64_t inode;
  uint64_t stream_inode; /* of the path that `stream` is bound to; 0 for none */
  uint64_t datagram_inode;
  bool group;   /* whether members of the directory's group may take part */
  uint32_t gid; /* of that group */
  void *map;    /* the reserved address space, `map_size` bytes; NULL if none */
  size_t map_size;
  int guard;                 /* index in the table of mapped files; -1 for none */
  struct wlh_system *system; /* the part of one system; NULL if it needs none */
};

/* The path of the segment in messages; the argument is `path`. */
#if defined(_WIN32)
#define WLH_PORT_FILE "%s\\bucket"
#else
#define WLH_PORT_FILE "%s/bucket"
#endif

void wlh_port_init(struct wlh_port *port);

/* Writes the directory of all buckets to `path`, WLH_PATH_SIZE bytes: `directory` or, if that is
 * NULL, the platform's default, and sets `*standard` to whether it is the default. Returns WLH_OK,
 * or WLH_UNSUPPORTED if there is no default, or the path is too long or not absolute. */
enum wlh_status wlh_port_choose_directory(
    const char *directory, char *path, bool *standard, struct wlh_failure *failure);

/* Returns whether two paths from wlh_port_choose_directory lead to the same directory now, perhaps
 * over a link or another mount point. If they do not exist, parent directories and names decide. */
bool wlh_port_is_same_directory(const char *path, const char *other);

/* Opens or creates the files of a bucket, without reading them. Refuses directories and files that
 * others may write, file systems that are not local, and byte locks that do not work.
 *   port      initialised or closed
 *   base      from wlh_port_choose_directory, as is `standard`
 *   bucket    name of the bucket's directory in `base`
 *   returns   WLH_OK; or, with no descriptor left open, WLH_UNSUPPORTED, WLH_FULL, WLH_NO_MEMORY,
 *             or WLH_LOST if the files were deleted meanwhile */
enum wlh_status wlh_port_open(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure);

/* Writes the bucket's name, unless it is NULL, to a file `name` beside the segment, for programs
 * that list buckets. If that fails, they see the bucket without a name. */
void wlh_port_note_name(const struct wlh_port *port, const uint16_t *name, uint32_t units);

/* Enlarges the process's table of descriptors. Then descriptors whose closing reports our death can
 * have greater numbers than all watches, and a kill closes them first (posix/descriptors.c). This
 * takes some 10 ms, once. */
void wlh_port_enlarge_table(const struct wlh_port *port);

/* Move all descriptors whose closing reports our death, or one of them, to high numbers. */
void wlh_port_move_all_high(struct wlh_port *port);
void wlh_port_move_high(const struct wlh_port *port, int *descriptor);

/* Unmaps the file and closes all descriptors, which drops our byte lock. */
void wlh_port_close(struct wlh_port *port);

/* This function is async-signal-safe, so a forked child may call it. */
void wlh_port_close_files(struct wlh_port *port);

/* If the system deletes unused files, prevents it from deleting the open file. Returns the
 * nanoseconds until the next call is necessary, or WLH_PORT_FOREVER. */
uint64_t wlh_port_refresh(struct wlh_port *port);

/* If the path does not lead to the file, or the file has less than `size` bytes, returns what
 * happened: a constant, the end of a sentence about the file. Otherwise returns NULL. */
const char *wlh_port_find_harm(struct wlh_port *port, uint64_t size);

/* ---- proof of life: byte locks ---- */

/* The lock functions return false if another process has the gate or number, or on an error. */
bool wlh_port_lock_gate(struct wlh_port *port);
void wlh_port_unlock_gate(struct wlh_port *port);

bool wlh_port_lock_member(struct wlh_port *port, uint32_t member);
void wlh_port_unlock_member(struct wlh_port *port, uint32_t member);

/* Return whether another open description holds the byte lock; on any error, return true. */
bool wlh_port_is_alive(struct wlh_port *port, uint32_t member);
bool wlh_port_is_any_alive(struct wlh_port *port);

/* ---- memory ---- */

/* Returns the size of the file in bytes; 0 if the system call fails. */
uint64_t wlh_port_size(struct wlh_port *port);

/* Allocates space for at least `size` bytes of the file. Returns 0, or the system's error. */
int wlh_port_grow(struct wlh_port *port, uint64_t size);

/* Gives the space after the first `size` bytes back to the system, if possible. The file keeps its
 * length, because other processes have it mapped; wlh_port_grow makes the space usable again. */
void wlh_port_give_back(struct wlh_port *port, uint64_t size);

/* Makes the file shorter, if possible. No process may use a byte after the first `size` bytes. */
void wlh_port_truncate(struct wlh_port *port, uint64_t size);

/* Maps `size` bytes of addresses, whatever the size of the file (on Windows only the bytes of the
 * file, see wlh_port_extend_map). Children do not inherit the map.
 *   lost    set to 1 when an access finds the file truncated; zeros then replace the map
 *   returns 0, or the system's error; ENOBUFS: this process has as many maps as possible */
int wlh_port_map(struct wlh_port *port, size_t size, uint32_t *lost);

/* Returns how many bytes of the file can be reached in `map`. If a map cannot be larger than its
 * file, and the file has grown, maps it anew at another address. No other thread may use the map.
 *   error  out: 0, or why the system does not give the size of the file, or map all of it */
uint64_t wlh_port_extend_map(struct wlh_port *port, int *error);

/* Only pages that were written occupy memory. Returns NULL if out of memory. */
void *wlh_port_alloc_zeros(size_t size);
void wlh_port_free_zeros(void *zeros, size_t size);

/* Gives the whole pages from byte `used` on back to the system, if possible. They must be zeros. */
void wlh_port_trim_zeros(void *zeros, size_t used, size_t size);

/* Returns a number that identifies this boot of the machine, or WLH_PORT_ANY_BOOT if boots have no
 * numbers, or the number is unknown, as in a container without /proc. */
#define WLH_PORT_ANY_BOOT UINT64_MAX
uint64_t wlh_port_boot_number(void);

/* ---- wake-ups, and notification of deaths ---- */

/* Binds the sockets, and tests a wake-up to oneself. Returns 0, or the system's error. */
int wlh_port_bind(struct wlh_port *port, uint32_t member);

/* Returns whether the paths of our sockets still lead to our sockets. A process that still uses a
 * previous file may have re-bound them. */
bool wlh_port_is_bound(struct wlh_port *port, uint32_t member);

/* Other processes no longer find our sockets, which stay open. */
void wlh_port_unbind(struct wlh_port *port, uint32_t member);

/* WLH_NOBODY does not prove a death: macOS also refuses a connection if too many others wait. */
enum wlh_sent { WLH_SENT, WLH_NOBODY, WLH_NOT_NOW };

/* Sending never blocks. */
enum wlh_sent wlh_port_send_wake_up(struct wlh_port *port, uint32_t member);

/* Discards the wake-ups that have arrived. */
void wlh_port_take_wake_ups(struct wlh_port *port);

/* Returns a duplicate of `datagram`, for an event loop that waits for wake-ups, or -1. A forked
 * child does not close it, but that does not make this process seem alive. */
int wlh_port_duplicate_wake_ups(const struct wlh_port *port);

/* On WLH_SENT, `*descriptor` is a connection that hangs up when the member dies. */
enum wlh_sent wlh_port_connect(struct wlh_port *port, uint32_t member, int *descriptor);

/* Closes a connection, made or accepted, and sets it to -1. Does nothing for -1. */
void wlh_port_disconnect(struct wlh_port *port, int *descriptor);

/* Wakes a member as a wake-up does, but the caller need not be a member. */
void wlh_port_rouse(struct wlh_port *port, uint32_t member);

/* Returns false if there is no connection, or if no descriptor is left, which sets `*full`. */
bool wlh_port_accept(struct wlh_port *port, int *descriptor, bool *full);

/* `watch` becomes readable when our files are changed, moved or deleted. After each call of
 * wlh_port_take_file_reports, wlh_port_watch must be called again. */
void wlh_port_watch(struct wlh_port *port, uint32_t member);
void wlh_port_take_file_reports(struct wlh_port *port);

/* ---- threads ---- */

/* Writing to `pokes` makes `rings` readable. Both can be the same; -1 means that there is none. */
struct wlh_port_alarm {
  int rings;
  int pokes;
};

/* If the first function fails, it returns false and sets errno. Both functions that close are
 * async-signal-safe. wlh_port_take_pokes makes `rings` unreadable again. */
bool wlh_port_make_alarm(struct wlh_port_alarm *alarm);
void wlh_port_poke(struct wlh_port_alarm alarm);
void wlh_port_take_pokes(struct wlh_port_alarm alarm);
void wlh_port_close_alarm(struct wlh_port_alarm alarm);
void wlh_port_close_descriptor(int descriptor);

struct wlh_wait_item {
  int descriptor; /* -1: ignored */
  bool reads;     /* in: whether to wait also for data; false for a connection */
  bool ready;     /* out: it has data, or hung up */
  bool hung_up;   /* out */
};

#define WLH_PORT_FOREVER UINT64_MAX

/* Waits until one of `count` items (at most WLH_PORT_WAIT_MOST) is ready, or for `nanoseconds`. */
enum { WLH_PORT_WAIT_MOST = 1024 };
void wlh_port_wait(
    struct wlh_port *port, struct wlh_wait_item *items, size_t count, uint64_t nanoseconds);

void wlh_port_sleep(uint64_t nanoseconds);

/* Returns nanoseconds of the exact monotonic clock, which all processes of the machine share. */
uint64_t wlh_port_time(void);

/* Returns microseconds since 1970, by the clock that can be set. */
uint64_t wlh_port_wall_time(void);

bool wlh_port_try_lock(struct wlk_mutex *mutex)
    WLK_ANNOTATION(try_acquire_capability(true, *mutex));

/* Makes a mutex usable in a forked child, where a thread of the parent may have locked it. */
void wlh_port_reset_mutex(struct wlk_mutex *mutex);

/* The thread is detached and handles no signals. Returns 0, or the system's error. */
int wlh_port_start_thread(void (*run)(void *), void *data);

/* Every child that is forked from now on calls `child`. Must be called once only. Returns false if
 * out of memory. */
bool wlh_port_at_fork(void (*child)(void));

/* Between these two calls, another thread that is about to fork waits. A child closes the
 * descriptors whose numbers are recorded. Any other descriptor would stay open in the child, and
 * make this process seem alive after its death. So a descriptor is made and recorded, or erased and
 * closed, between these calls. No mutex may be taken there, and the calls cannot be nested. */
void wlh_port_prevent_forks(void);
void wlh_port_permit_forks(void);

/* Returns the process id, as seen in its own PID namespace. For display only. */
uint32_t wlh_port_pid(void);

#endif
