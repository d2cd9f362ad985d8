#include "parts.h"

#include <errno.h>
#include <stdlib.h>

#if !defined(CREATE_WAITABLE_TIMER_HIGH_RESOLUTION)
#define CREATE_WAITABLE_TIMER_HIGH_RESOLUTION 0x00000002
#endif

/* In nanoseconds. The ordinary time limits of the system are no more accurate than this. */
#define COARSE UINT64_C(16000000)

/* Milliseconds to sleep if the system refuses to wait, so that a caller does not spin. */
#define REFUSED_WAIT 10

enum { HANDLES_MOST = 8 };

/* Returns NULL if the system has no exact timers, as before Windows 10 1803. */
static HANDLE set_timer(uint64_t nanoseconds)
{
  LARGE_INTEGER due;
  due.QuadPart = -(LONGLONG)(nanoseconds / 100);
  HANDLE timer =
      CreateWaitableTimerExW(NULL, NULL, CREATE_WAITABLE_TIMER_HIGH_RESOLUTION, TIMER_ALL_ACCESS);
  if (!timer || SetWaitableTimer(timer, &due, 0, NULL, NULL, FALSE)) return timer;
  (void)CloseHandle(timer);
  return NULL;
}

/* Rounds up to milliseconds. */
static DWORD limit_of(uint64_t nanoseconds)
{
  uint64_t time = nanoseconds / 1000000 + (nanoseconds % 1000000 != 0);
  return time < INFINITE ? (DWORD)time : INFINITE;
}

void wlh_port_sleep(uint64_t nanoseconds)
{
  HANDLE timer = nanoseconds < COARSE ? set_timer(nanoseconds) : NULL;
  if (!timer) {
    Sleep(limit_of(nanoseconds));
    return;
  }
  (void)WaitForSingleObject(timer, INFINITE);
  (void)CloseHandle(timer);
}

bool wlh_port_make_alarm(struct wlh_port_alarm *alarm)
{
  HANDLE event = CreateEventW(NULL, FALSE, FALSE, NULL);
  if (!event) errno = (int)GetLastError();
  alarm->rings = alarm->pokes = wlh_port_descriptor(event);
  return event != NULL;
}

void wlh_port_poke(struct wlh_port_alarm alarm)
{
  (void)SetEvent(wlh_port_handle(alarm.pokes));
}

/* The wait has reset the event already. */
void wlh_port_take_pokes(struct wlh_port_alarm alarm)
{
  (void)alarm;
}

void wlh_port_close_alarm(struct wlh_port_alarm alarm)
{
  wlh_port_close_descriptor(alarm.rings);
}

/* Returns the index of a signalled handle, or `count`. `handles` must have room for one more. */
static DWORD wait_for_any(HANDLE *handles, DWORD count, uint64_t nanoseconds)
{
  HANDLE timer = nanoseconds < COARSE && nanoseconds > 0 ? set_timer(nanoseconds) : NULL;
  handles[count] = timer;
  DWORD limit = timer ? INFINITE : limit_of(nanoseconds);
  DWORD got = WaitForMultipleObjects(timer ? count + 1 : count, handles, FALSE, limit);
  if (timer) (void)CloseHandle(timer);
  if (got == WAIT_FAILED) Sleep(REFUSED_WAIT);
  return got - WAIT_OBJECT_0 < count ? got - WAIT_OBJECT_0 : count;
}

void wlh_port_wait(
    struct wlh_port *port, struct wlh_wait_item *items, size_t count, uint64_t nanoseconds)
{
  HANDLE handles[HANDLES_MOST];
  size_t places[HANDLES_MOST];
  DWORD used = 0;
  for (size_t i = 0; i < count; i++) {
    items[i].ready = items[i].hung_up = false;
    if (items[i].descriptor < 0 || !items[i].reads || used == HANDLES_MOST - 2) continue;
    places[used] = i;
    handles[used++] = wlh_port_handle(items[i].descriptor);
  }
  handles[used] = port->system->news;
  DWORD got = wait_for_any(handles, used + 1, nanoseconds);
  for (DWORD i = 0; i < used; i++) {
    items[places[i]].ready = i == got || WaitForSingleObject(handles[i], 0) == WAIT_OBJECT_0;
  }
  /* The check must come after the waits, which reset `news`: a later death signals it again. */
  for (size_t i = 0; i < count; i++) {
    if (items[i].descriptor < 0 || items[i].reads) continue;
    items[i].ready = items[i].hung_up = wlh_port_is_over(port, items[i].descriptor);
  }
}

uint64_t wlh_port_time(void)
{
  LARGE_INTEGER now, each;
  (void)QueryPerformanceCounter(&now);
  (void)QueryPerformanceFrequency(&each);
  uint64_t ticks = (uint64_t)now.QuadPart, second = (uint64_t)each.QuadPart;
  return ticks / second * 1000000000 + ticks % second * 1000000000 / second;
}

uint64_t wlh_port_wall_time(void)
{
  static const uint64_t until_1970 = UINT64_C(116444736000000000);
  FILETIME now;
  GetSystemTimePreciseAsFileTime(&now);
  uint64_t time = (uint64_t)now.dwHighDateTime << 32 | now.dwLowDateTime;
  return time < until_1970 ? 0 : (time - until_1970) / 10;
}

bool wlh_port_try_lock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  return TryAcquireSRWLockExclusive(&mutex->native) != FALSE;
}

void wlh_port_reset_mutex(struct wlk_mutex *mutex)
{
  struct wlk_mutex fresh = WLK_MUTEX_INIT;
  *mutex = fresh;
}

struct start {
  void (*run)(void *);
  void *data;
};

static DWORD WINAPI run_thread(LPVOID data)
{
  struct start start = *(struct start *)data;
  free(data);
  start.run(start.data);
  return 0;
}

int wlh_port_start_thread(void (*run)(void *), void *data)
{
  struct start *start = malloc(sizeof *start);
  if (!start) return ERROR_NOT_ENOUGH_MEMORY;
  start->run = run;
  start->data = data;
  HANDLE thread = CreateThread(
      NULL, (SIZE_T)256 << 10, run_thread, start, STACK_SIZE_PARAM_IS_A_RESERVATION, NULL);
  if (thread) {
    (void)CloseHandle(thread);
    return 0;
  }
  DWORD error = GetLastError();
  free(start);
  return (int)error;
}

bool wlh_port_at_fork(void (*child)(void))
{
  (void)child;
  return true;
}

void wlh_port_prevent_forks(void) {}

void wlh_port_permit_forks(void) {}

uint32_t wlh_port_pid(void)
{
  return GetCurrentProcessId();
}
