/* Byte locks, which prove that a member is alive: Windows releases them with the handle. */
#include "parts.h"

#include <string.h>

/* The byte locks are at offsets far after the end of any file. */
#define GATE  (UINT64_C(1) << 40)
#define PROBE (GATE - 1)

enum { SHARED = 0 };

static OVERLAPPED place_of(uint64_t at)
{
  OVERLAPPED place;
  memset(&place, 0, sizeof place);
  place.Offset = (DWORD)at;
  place.OffsetHigh = (DWORD)(at >> 32);
  return place;
}

static bool lock(HANDLE file, DWORD flags, uint64_t at)
{
  OVERLAPPED place = place_of(at);
  return LockFileEx(file, flags, 0, 1, 0, &place) != FALSE;
}

static void unlock(HANDLE file, uint64_t at)
{
  OVERLAPPED place = place_of(at);
  (void)UnlockFileEx(file, 0, 1, 0, &place);
}

/* Locks a byte exclusively. If it is locked, returns false at once. */
static bool take(HANDLE file, uint64_t at)
{
  return lock(file, LOCKFILE_EXCLUSIVE_LOCK | LOCKFILE_FAIL_IMMEDIATELY, at);
}

/* Windows shows that a byte is locked only by refusing a lock, so this takes a lock for a moment.
 * The lock is shared, so that two processes can test a byte at once. If a process wants this number
 * meanwhile, it is refused, and takes another one. */
static bool is_locked(HANDLE file, uint64_t at)
{
  if (!lock(file, SHARED | LOCKFILE_FAIL_IMMEDIATELY, at)) return true;
  unlock(file, at);
  return false;
}

/* Tests whether one handle sees a lock of another one. If another process tests at the same time,
 * the lock is refused, which proves the same. */
bool wlh_port_locks_work(struct wlh_port *port)
{
  HANDLE other = wlh_port_open_file(port, "bucket", OPEN_EXISTING);
  if (other == INVALID_HANDLE_VALUE) return false;
  bool taken = take(other, PROBE);
  bool works = taken ? is_locked(wlh_port_handle(port->file), PROBE)
                     : GetLastError() == ERROR_LOCK_VIOLATION || GetLastError() == ERROR_IO_PENDING;
  DWORD error = GetLastError();
  (void)CloseHandle(other);
  SetLastError(error);
  return works;
}

bool wlh_port_lock_gate(struct wlh_port *port)
{
  return take(wlh_port_handle(port->file), GATE);
}

void wlh_port_unlock_gate(struct wlh_port *port)
{
  unlock(wlh_port_handle(port->file), GATE);
}

bool wlh_port_lock_member(struct wlh_port *port, uint32_t member)
{
  bool taken = take(wlh_port_handle(port->file), GATE + 1 + member);
  if (taken) port->system->taken = 1 + member;
  return taken;
}

void wlh_port_unlock_member(struct wlh_port *port, uint32_t member)
{
  port->system->taken = 0;
  unlock(wlh_port_handle(port->file), GATE + 1 + member);
}

/* Our own byte must not be tested: a handle may lock a byte twice, and releasing the second lock
 * would release the first one, our proof of life. So this returns false for it. */
bool wlh_port_is_alive(struct wlh_port *port, uint32_t member)
{
  if (port->system->taken == 1 + member) return false;
  return is_locked(wlh_port_handle(port->file), GATE + 1 + member);
}

bool wlh_port_is_any_alive(struct wlh_port *port)
{
  /* Each byte is tested by itself, because a test locks what it tests. A lock on all bytes at once
   * would keep a process from joining meanwhile. */
  for (uint32_t i = 0; i < WLH_PORT_MEMBERS; i++) {
    if (wlh_port_is_alive(port, i)) return true;
  }
  return false;
}
