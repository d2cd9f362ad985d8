/* Byte locks of open file descriptions, which prove that a member is alive. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* Linux has these commands since 3.15 and macOS since 10.11, but not all headers do. */
#if !defined(F_OFD_GETLK) && defined(__APPLE__)
#define F_OFD_GETLK 92
#define F_OFD_SETLK 90
#elif !defined(F_OFD_GETLK)
#define F_OFD_GETLK 36
#define F_OFD_SETLK 37
#endif

/* The byte locks are at offsets far after the end of any file. */
#define GATE  (INT64_C(1) << 40)
#define PROBE (GATE - 1)

/* Runs an fcntl command on a range of bytes. `*lock` is its argument and its answer. */
static bool range_lock(
    int descriptor, int command, short type, int64_t at, int64_t length, struct flock *lock)
{
  int done;
  do {
    memset(lock, 0, sizeof *lock);
    lock->l_type = type;
    lock->l_whence = SEEK_SET;
    lock->l_start = at;
    lock->l_len = length;
    done = fcntl(descriptor, command, lock);
  } while (done != 0 && errno == EINTR);
  return done == 0;
}

static bool byte_lock(int descriptor, int command, short type, int64_t at, struct flock *lock)
{
  return range_lock(descriptor, command, type, at, 1, lock);
}

/* Tests whether one descriptor sees a lock of another one. If another process tests at the same
 * time, the lock is refused, which proves the same. */
bool wlh_port_locks_work(struct wlh_port *port)
{
  struct flock lock;
  wlh_port_prevent_forks();
  int other = wlh_port_reopen(port);
  bool taken = other >= 0 && byte_lock(other, F_OFD_SETLK, F_WRLCK, PROBE, &lock);
  bool works =
      taken ? byte_lock(port->file, F_OFD_GETLK, F_WRLCK, PROBE, &lock) && lock.l_type != F_UNLCK
            : other >= 0 && errno == EAGAIN;
  wlh_port_close_quietly(other);
  wlh_port_permit_forks();
  return works;
}

bool wlh_port_lock_gate(struct wlh_port *port)
{
  struct flock lock;
  return byte_lock(port->file, F_OFD_SETLK, F_WRLCK, GATE, &lock);
}

void wlh_port_unlock_gate(struct wlh_port *port)
{
  struct flock lock;
  (void)byte_lock(port->file, F_OFD_SETLK, F_UNLCK, GATE, &lock);
}

bool wlh_port_lock_member(struct wlh_port *port, uint32_t member)
{
  struct flock lock;
  return byte_lock(port->file, F_OFD_SETLK, F_WRLCK, GATE + 1 + member, &lock);
}

void wlh_port_unlock_member(struct wlh_port *port, uint32_t member)
{
  struct flock lock;
  (void)byte_lock(port->file, F_OFD_SETLK, F_UNLCK, GATE + 1 + member, &lock);
}

/* Returns false only if the bytes are certainly free: the descriptor must still be our file after
 * the query. If it is not, repairs it and asks once more. */
static bool is_locked(struct wlh_port *port, int64_t at, int64_t count)
{
  struct flock lock;
  for (int i = 0; i < 2; i++) {
    int asked = port->file;
    bool answered = range_lock(asked, F_OFD_GETLK, F_WRLCK, at, count, &lock);
    if (answered && lock.l_type != F_UNLCK) return true;
    if (answered && wlh_port_is_ours(port, asked)) return false;
    if (!wlh_port_repair_file(port)) return true;
  }
  return true;
}

bool wlh_port_is_alive(struct wlh_port *port, uint32_t member)
{
  return is_locked(port, GATE + 1 + member, 1);
}

bool wlh_port_is_any_alive(struct wlh_port *port)
{
  return is_locked(port, GATE + 1, WLH_PORT_MEMBERS);
}
