/* Wake-ups and notification of deaths. Each member has a record in the file `peers`: the name of
 * its event, the id of its process, and the time when the process was created. Other members signal
 * the event, and let the thread pool wait for the end of the process, because one thread cannot
 * wait for 255 processes.
 *
 * A member may leave, or be expelled, while its process keeps running. It then clears its record,
 * frees its byte and wakes the others. They see that the record is empty or belongs to a newer
 * process, and check the byte.
 *
 * If the file is moved, new members make a new file, and the members that use the old file change
 * over to it. Until then, members with different files treat each other as members that refuse
 * connections.
 *
 * The event's name is global, so that services in other sessions find the event. Only users who can
 * read the file know the name, so no other user can create the event first. */
#include "parts.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define PEERS_BYTES (WLH_PORT_MEMBERS * sizeof(struct wlh_peer_record))
_Static_assert(sizeof(struct wlh_peer_record) == 32, "the size of a record");

enum { NAME_SIZE = 48 };

static void event_name(uint64_t life, WCHAR *name)
{
  static const WCHAR digits[] = L"0123456789abcdef";
  static const WCHAR start[] = L"Global\\web-locks-";
  size_t length = sizeof start / sizeof *start - 1;
  memcpy(name, start, sizeof start);
  for (int shift = 60; shift >= 0; shift -= 4) name[length++] = digits[(life >> shift) & 15];
  name[length] = L'\0';
}

static uint64_t life_of(const struct wlh_port *port, uint32_t member)
{
  return atomic_load_explicit(&port->system->records[member].life, memory_order_acquire);
}

/* If the file was replaced and cannot be mapped again, the old map stays. */
static enum wlh_status map_peers(struct wlh_port *port, struct wlh_failure *failure)
{
  static const char what[] = "cannot open the file 'peers'";
  struct wlh_system *system = port->system;
  FILE_ID_INFO id;
  struct wlh_peer_record *records = NULL;
  HANDLE file = wlh_port_open_file(port, "peers", OPEN_ALWAYS);
  if (file == INVALID_HANDLE_VALUE) {
    return wlh_port_fail_vanished_or_unsupported(failure, port->path, what);
  }
  enum wlh_status status = wlh_port_check_access(file, port->path, false, failure);
  if (status == WLH_OK) {
    bool known = GetFileInformationByHandleEx(file, FileIdInfo, &id, sizeof id) != FALSE;
    if (known) records = wlh_port_map_file(file, PEERS_BYTES);
    if (!records) status = wlh_port_fail_unsupported(failure, port->path, what);
  }
  (void)CloseHandle(file);
  if (!records) return status;
  if (system->records) (void)UnmapViewOfFile(system->records);
  system->records = records;
  system->peers_id = id;
  return WLH_OK;
}

enum wlh_status wlh_port_join_peers(struct wlh_port *port, struct wlh_failure *failure)
{
  enum wlh_status status = map_peers(port, failure);
  if (status != WLH_OK) return status;
  port->system->news = CreateEventW(NULL, FALSE, FALSE, NULL);
  if (port->system->news) return WLH_OK;
  return wlh_port_fail_unsupported(failure, port->path, "cannot create an event");
}

static uint64_t born_of(HANDLE process)
{
  FILETIME created, ended, kernel, user;
  if (!GetProcessTimes(process, &created, &ended, &kernel, &user)) return 0;
  return (uint64_t)created.dwHighDateTime << 32 | created.dwLowDateTime;
}

/* A `life` of 0 clears the record. */
static void write_record(struct wlh_port *port, uint32_t member, uint64_t life)
{
  struct wlh_peer_record *record = &port->system->records[member];
  atomic_store_explicit(&record->life, 0, memory_order_relaxed);
  atomic_thread_fence(memory_order_release);
  record->pid = life ? GetCurrentProcessId() : 0;
  record->born = life ? born_of(GetCurrentProcess()) : 0;
  atomic_store_explicit(&record->life, life, memory_order_release);
}

/* The event becomes `datagram`. Returns 0, or the system's error. */
static int make_event(struct wlh_port *port, uint64_t life)
{
  WCHAR name[NAME_SIZE];
  struct wlh_private security;
  if (!wlh_port_make_private(&security, false)) return (int)GetLastError();
  event_name(life, name);
  HANDLE event = CreateEventW(&security.attributes, FALSE, FALSE, name);
  if (!event) return (int)GetLastError();
  port->datagram = wlh_port_descriptor(event);
  return 0;
}

static bool were_peers_moved(const struct wlh_port *port)
{
  return wlh_port_find_move(port, "peers", &port->system->peers_id) != NULL;
}

int wlh_port_bind(struct wlh_port *port, uint32_t member)
{
  struct wlh_failure failure;
  uint64_t life;
  wlh_port_close_descriptor(port->datagram);
  port->datagram = -1;
  if (!wlk_port_random(&life, sizeof life)) return ERROR_NOT_READY;
  life |= life == 0;
  int error = make_event(port, life);
  if (error != 0) return error;
  /* Other members may still use this file, even if it was moved. */
  write_record(port, member, life);
  port->system->member = member;
  port->system->life = life;
  if (were_peers_moved(port)) {
    if (map_peers(port, &failure) != WLH_OK) return ERROR_FILE_NOT_FOUND;
    write_record(port, member, life);
  }
  if (wlh_port_send_wake_up(port, member) != WLH_SENT) return (int)GetLastError();
  HANDLE event = wlh_port_handle(port->datagram);
  return WaitForSingleObject(event, 0) == WAIT_OBJECT_0 ? 0 : ERROR_NOT_SUPPORTED;
}

bool wlh_port_is_bound(struct wlh_port *port, uint32_t member)
{
  return life_of(port, member) == port->system->life && !were_peers_moved(port);
}

void wlh_port_unbind(struct wlh_port *port, uint32_t member)
{
  if (port->system->life == 0) return;
  port->system->life = 0;
  write_record(port, member, 0);
}

enum wlh_sent wlh_port_send_wake_up(struct wlh_port *port, uint32_t member)
{
  WCHAR name[NAME_SIZE];
  uint64_t life = life_of(port, member);
  if (life == 0) return WLH_NOBODY;
  event_name(life, name);
  HANDLE event = OpenEventW(EVENT_MODIFY_STATE, FALSE, name);
  if (!event) return GetLastError() == ERROR_FILE_NOT_FOUND ? WLH_NOBODY : WLH_NOT_NOW;
  bool sent = SetEvent(event) != FALSE;
  (void)CloseHandle(event);
  return sent ? WLH_SENT : WLH_NOT_NOW;
}

void wlh_port_rouse(struct wlh_port *port, uint32_t member)
{
  (void)wlh_port_send_wake_up(port, member);
}

/* The wait has reset the event already. */
void wlh_port_take_wake_ups(struct wlh_port *port)
{
  (void)port;
}

int wlh_port_duplicate_wake_ups(const struct wlh_port *port)
{
  (void)port;
  return -1;
}

static VOID CALLBACK on_death(PVOID data, BOOLEAN timed_out)
{
  struct wlh_peer *peer = data;
  (void)timed_out;
  (void)InterlockedExchange(&peer->died, 1);
  (void)SetEvent(peer->news);
}

/* On failure, or if another process has this id, returns NULL, with GetLastError set. */
static HANDLE open_process(uint32_t pid, uint64_t born)
{
  HANDLE process = OpenProcess(SYNCHRONIZE | PROCESS_QUERY_LIMITED_INFORMATION, FALSE, pid);
  if (!process || born_of(process) == born) return process;
  (void)CloseHandle(process);
  SetLastError(ERROR_INVALID_PARAMETER); /* This is the error for a process that does not exist. */
  return NULL;
}

enum wlh_sent wlh_port_connect(struct wlh_port *port, uint32_t member, int *descriptor)
{
  struct wlh_peer *peer = &port->system->peers[member];
  const struct wlh_peer_record *record = &port->system->records[member];
  uint64_t life = life_of(port, member);
  if (life == 0) return WLH_NOBODY;
  HANDLE process = open_process(record->pid, record->born);
  if (!process) return GetLastError() == ERROR_INVALID_PARAMETER ? WLH_NOBODY : WLH_NOT_NOW;
  atomic_thread_fence(memory_order_acquire);
  bool same = life_of(port, member) == life;
  *peer = (struct wlh_peer){life, process, NULL, port->system->news, 0};
  bool watched = same && RegisterWaitForSingleObject(
                             &peer->wait, process, on_death, peer, INFINITE,
                             WT_EXECUTEONLYONCE | WT_EXECUTEINWAITTHREAD);
  if (watched) {
    *descriptor = (int)member;
    return WLH_SENT;
  }
  (void)CloseHandle(process);
  peer->life = 0;
  return same ? WLH_NOT_NOW : WLH_NOBODY;
}

void wlh_port_disconnect(struct wlh_port *port, int *descriptor)
{
  if (*descriptor < 0) return;
  struct wlh_peer *peer = &port->system->peers[*descriptor];
  *descriptor = -1;
  (void)UnregisterWaitEx(
      peer->wait, INVALID_HANDLE_VALUE); /* This returns after on_death has returned. */
  (void)CloseHandle(peer->process);
  peer->life = 0;
}

bool wlh_port_is_over(const struct wlh_port *port, int descriptor)
{
  const struct wlh_peer *peer = &port->system->peers[descriptor];
  return __atomic_load_n(&peer->died, __ATOMIC_ACQUIRE) != 0 ||
         life_of(port, (uint32_t)descriptor) != peer->life;
}

bool wlh_port_accept(struct wlh_port *port, int *descriptor, bool *full)
{
  (void)port;
  *descriptor = -1;
  *full = false;
  return false;
}

void wlh_port_leave_peers(struct wlh_port *port)
{
  struct wlh_system *system = port->system;
  bool left = system->life == 0; /* We were not bound, or have left already. */
  if (!left) wlh_port_unbind(port, system->member);
  for (uint32_t i = 0; i < WLH_PORT_MEMBERS && !left; i++) wlh_port_rouse(port, i);
  wlh_port_close_descriptor(port->datagram);
  port->datagram = -1;
  if (system->news) (void)CloseHandle(system->news);
  if (system->records) (void)UnmapViewOfFile(system->records);
  system->records = NULL;
}
