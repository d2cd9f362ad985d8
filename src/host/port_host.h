/* What the host scope needs of the operating system: the files of a bucket, proof of life, mapped
 * memory, wake-ups, news of death, and what can happen to them. One implementation a platform:
 * that of Linux and macOS, in the parts that port_parts.h lists; elsewhere port_other.c, which is
 * the whole scope and answers WLH_UNSUPPORTED. port_failures.c is for all.
 *
 * Nothing here blocks but wlh_port_wait, wlh_port_sleep and wlh_port_widen. */
#ifndef WLH_PORT_HOST_H
#define WLH_PORT_HOST_H

#include "../core/port.h"
#include "host.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Members of a bucket: numbers from 0. */
enum { WLH_PORT_MEMBERS = 256, WLH_PATH_SIZE = 1024, WLH_FAILURE_SIZE = 1900 };

/* A failure: a status, and a sentence that names the path and the cause, without a full stop. If it
 * says what to do, too, it has one at its end. */
struct wlh_failure {
  enum wlh_status status;
  char text[WLH_FAILURE_SIZE];
};

/* Sets `failure` as printf does, and returns `status`. */
enum wlh_status wlh_fail(
    struct wlh_failure *failure, enum wlh_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What the system says of its `error`; until the thread's next call. */
const char *wlh_port_error_text(int error);

/* Says what to do about the system's `error`: a sentence behind ". ", a constant, or "". */
const char *wlh_port_remedy(int error);

/* How to find out who has files open: a sentence, a constant. */
const char *wlh_port_who(void);

/* What a failure for the system's `error` is: WLH_FULL if something is short that there may be more
 * of later (room, descriptors, memory), else WLH_UNSUPPORTED. */
enum wlh_status wlh_port_status_of(int error);

/* The files of one bucket, as one member of it has them. Where a field is a descriptor, it is -1
 * while there is none. */
struct wlh_port {
  char path[WLH_PATH_SIZE]; /* of the bucket's directory */
  int base;                 /* the directory of all buckets */
  int directory;            /* that of this bucket, with a shared flock */
  int file;                 /* the segment, and the byte locks */
  int copy;                 /* a duplicate of `file`, against a stray close() of it */
  int stream;               /* listener: its hang-up is the news of our death */
  int datagram;             /* wake-ups come and go through it */
  int watch;                /* tells of deletion; -1 also if the system gives none */
  uint64_t device;          /* of `file`, noted when it was opened */
  uint64_t inode;
  uint64_t stream_inode; /* of the path that `stream` is bound to; 0 for none */
  uint64_t datagram_inode;
  bool group;   /* whether members of the directory's group may take part */
  uint32_t gid; /* of that group */
  void *map;    /* `map_size` bytes of addresses; NULL if not mapped */
  size_t map_size;
  int guard;                 /* slot in the table of those whose file may be cut off; -1 for none */
  struct wlh_system *system; /* what only one system needs; NULL where that is nothing */
};

/* How messages name the segment, by `path`. */
#if defined(_WIN32)
#define WLH_PORT_FILE "%s\\bucket"
#else
#define WLH_PORT_FILE "%s/bucket"
#endif

/* What tells one boot from another, as messages name it. */
#if defined(__APPLE__)
#define WLH_PORT_BOOT "the system's kern.bootsessionuuid"
#else
#define WLH_PORT_BOOT "/proc/sys/kernel/random/boot_id"
#endif

/* Makes `port` an empty one: nothing is open. */
void wlh_port_init(struct wlh_port *port);

/* Writes the directory that holds for `directory` (NULL: the platform's) to `path`, WLH_PATH_SIZE
 * bytes.
 *   standard out: whether it is the platform's
 *   returns  WLH_OK, or WLH_UNSUPPORTED: the path is too long or not absolute, or this platform has
 *            no host scope */
enum wlh_status wlh_port_directory(
    const char *directory, char *path, bool *standard, struct wlh_failure *failure);

/* Opens the files of a bucket, without a look at what is in them; makes them if need be.
 *   base      from wlh_port_directory
 *   standard  whether it is the default directory: then it must be ours alone
 *   bucket    name of the bucket's directory in it
 *   returns   WLH_OK, or with nothing left open WLH_UNSUPPORTED, WLH_FULL, or WLH_LOST: somebody
 *             took them away meanwhile */
enum wlh_status wlh_port_open(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure);

/* Leaves the bucket's name in a file `name` beside the segment, for those who list buckets. If that
 * cannot be done, they see the bucket without a name.
 *   name  `units` code units; NULL: nothing is to be done */
void wlh_port_note_name(const struct wlh_port *port, const uint16_t *name, uint32_t units);

/* Makes the process's table of descriptors so large that all that others see our death by can have
 * numbers above all watches: then the death of a process with several buckets is seen sooner. The
 * kernel takes some 10 ms for it, once a process. */
void wlh_port_widen(const struct wlh_port *port);

/* Gives those descriptors such numbers, if the table is so large; and another one, whose number it
 * returns. */
void wlh_port_raise(struct wlh_port *port);
int wlh_port_move_high(const struct wlh_port *port, int descriptor);

/* Closes all that is open. Locks of ours are dropped by it. */
void wlh_port_close(struct wlh_port *port);

/* Closes the descriptors, in a child that has them by fork; async-signal-safe. */
void wlh_port_forget(struct wlh_port *port);

/* Keeps the system from deleting the file as one that nobody uses, where it does that to files that
 * are open. Returns after how many ns that is to be done again; WLH_PORT_FOREVER: never. */
uint64_t wlh_port_refresh(struct wlh_port *port);

/* Looks whether the file is what the path leads to, and has at least `size` bytes. Returns NULL, or
 * what happened to it: the end of a sentence, a constant. */
const char *wlh_port_harm(struct wlh_port *port, uint64_t size);

/* ---- proof of life: byte locks ---- */

/* Takes the gate, false if somebody has it; and gives it back. */
bool wlh_port_gate(struct wlh_port *port);
void wlh_port_leave_gate(struct wlh_port *port);

/* Takes the lock of a member; false if somebody has it. */
bool wlh_port_take(struct wlh_port *port, uint32_t member);
void wlh_port_drop(struct wlh_port *port, uint32_t member);

/* Whether another open description holds the lock of this member, or that of any. One call that
 * needs no descriptor; on any error the answer is yes. */
bool wlh_port_alive(struct wlh_port *port, uint32_t member);
bool wlh_port_any_alive(struct wlh_port *port);

/* ---- memory ---- */

/* Size of the file in bytes; 0 if the system fails. */
uint64_t wlh_port_size(struct wlh_port *port);

/* Has the file hold at least `size` bytes, with room for all of them.
 *   returns  0, or the system's error */
int wlh_port_grow(struct wlh_port *port, uint64_t size);

/* Gives the room behind the first `size` bytes of the file back to the system, where that can be.
 * Its length stays, as others have it mapped: who uses the room again calls wlh_port_grow first. */
void wlh_port_give_back(struct wlh_port *port, uint64_t size);

/* Makes the file shorter, where that can be; nobody has a byte behind `size` in use. */
void wlh_port_cut(struct wlh_port *port, uint64_t size);

/* Maps `size` bytes of addresses, whatever the file has, not inherited by a child; or, where a map
 * cannot be larger than its file, as many as that has: see wlh_port_reach.
 *   lost    set to 1 when the file is found cut off; then zeros are mapped there
 *   returns 0, or the system's error; ENOBUFS: as many are mapped as a process can have */
int wlh_port_map(struct wlh_port *port, size_t size, uint32_t *lost);

/* How many bytes of the file can be reached in `map`. Where a map cannot be larger than its file,
 * it is made anew if the file has grown, at another address. To be called by who alone uses it.
 *   error  out: 0, or why the system does not map all of the file */
uint64_t wlh_port_reach(struct wlh_port *port, int *error);

/* Gives `size` bytes of zeros, of which only those take memory that are written; NULL when out of
 * memory. And takes them back; NULL is allowed. */
void *wlh_port_zeros(size_t size);
void wlh_port_free_zeros(void *zeros, size_t size);

/* Gives the memory of all whole pages from byte `used` back to the system, where that can be. They
 * must be zeros already, and stay so. */
void wlh_port_trim_zeros(void *zeros, size_t used, size_t size);

/* A number of this boot of the machine; 0, and errno, if the system does not tell;
 * WLH_PORT_ANY_BOOT where boots have no numbers. */
#define WLH_PORT_ANY_BOOT UINT64_MAX
uint64_t wlh_port_boot(void);

/* ---- wake-ups and news of death ---- */

/* Binds the sockets of a member, and sends itself a wake-up to see that it comes.
 *   returns  0, or the system's error */
int wlh_port_bind(struct wlh_port *port, uint32_t member);

/* Whether what is found by the paths of this member's sockets is what we have bound there. It can
 * be another process's, that had the file which was there before and did not know so yet. */
bool wlh_port_bound(struct wlh_port *port, uint32_t member);

/* Removes the sockets' paths. */
void wlh_port_unbind(struct wlh_port *port, uint32_t member);

/* That nobody is there proves nothing: macOS also says so of one whom too many have connected to
 * that it has not accepted. */
enum wlh_sent { WLH_SENT, WLH_NOBODY, WLH_NOT_NOW };

/* Sends a wake-up to a member. Does not block. */
enum wlh_sent wlh_port_send(struct wlh_port *port, uint32_t member);

/* Takes all wake-ups that have come. */
void wlh_port_receive(struct wlh_port *port);

/* Connects to a member, whose death then hangs up.
 *   descriptor  out, if WLH_SENT: to be closed */
enum wlh_sent wlh_port_connect(struct wlh_port *port, uint32_t member, int *descriptor);

/* Ends a connection. */
void wlh_port_disconnect(struct wlh_port *port, int descriptor);

/* Has a member look at the tables, as if something was sent; by who may not be a member yet. */
void wlh_port_rouse(struct wlh_port *port, uint32_t member);

/* Accepts a connection; -1 if there is none or no descriptor is left, which `full` tells. */
int wlh_port_accept(struct wlh_port *port, bool *full);

/* Has `watch` become readable when something happens to our files. To be called again after each
 * wlh_port_watched, which takes what it said. */
void wlh_port_watch(struct wlh_port *port, uint32_t member);
void wlh_port_watched(struct wlh_port *port);

/* ---- threads ---- */

/* What one thread waits for and others poke: the descriptor that becomes readable, and the one that
 * makes it so, which can be the same. Both are -1 while there is none. */
struct wlh_port_alarm {
  int rings;
  int pokes;
};

/* Makes one; false, and errno, if there is none to be had. Then pokes it, takes all pokes, and
 * closes it, which is async-signal-safe, as is wlh_port_shut of one descriptor. */
bool wlh_port_alarm(struct wlh_port_alarm *alarm);
void wlh_port_poke(struct wlh_port_alarm alarm);
void wlh_port_poked(struct wlh_port_alarm alarm);
void wlh_port_shut_alarm(struct wlh_port_alarm alarm);
void wlh_port_shut(int descriptor);

/* What to wait for. */
struct wlh_wait_item {
  int descriptor; /* -1: ignored */
  bool reads;     /* in: whether to wait for something to read, too; else it is a connection */
  bool ready;     /* out: something to read, or hung up */
  bool hung_up;   /* out */
};

#define WLH_PORT_FOREVER UINT64_MAX

/* Waits until one of `count` items (at most WLH_PORT_WAIT_MOST) is ready, or for so many ns. */
enum { WLH_PORT_WAIT_MOST = 1024 };
void wlh_port_wait(
    struct wlh_port *port, struct wlh_wait_item *items, size_t count, uint64_t nanoseconds);

/* Sleeps. */
void wlh_port_sleep(uint64_t nanoseconds);

/* Nanoseconds of the exact monotonic clock, which all processes of the machine have in common. */
uint64_t wlh_port_time(void);

/* Microseconds since 1970, by the clock that can be set. */
uint64_t wlh_port_wall_time(void);

/* Takes `mutex` if it is free. */
bool wlh_port_try(struct wlk_mutex *mutex) WLK_ANNOTATION(try_acquire_capability(true, *mutex));

/* Makes mutexes and conditions usable again in a forked child, where they were left as they were.
 */
void wlh_port_renew(struct wlk_mutex *mutex);

/* Starts a thread on which no signal is handled, and which nobody waits for. 0, or the system's
 * error. */
int wlh_port_start(void (*run)(void *), void *data);

/* Has `child` called in every child that is forked from now on; false when out of memory. To be
 * called once. */
bool wlh_port_at_fork(void (*child)(void));

/* The process, in its own namespace; to show. */
uint32_t wlh_port_pid(void);

#endif
