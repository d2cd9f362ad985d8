#include "parts.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

void wlh_port_sleep(uint64_t nanoseconds)
{
  struct timespec time = {(time_t)(nanoseconds / 1000000000), (long)(nanoseconds % 1000000000)};
  (void)nanosleep(&time, NULL);
}

uint64_t wlh_port_time(void)
{
  struct timespec now;
  (void)clock_gettime(WLK_CLOCK, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t wlh_port_wall_time(void)
{
  struct timespec now;
  (void)clock_gettime(CLOCK_REALTIME, &now);
  return now.tv_sec < 0 ? 0 : (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

bool wlh_port_try_lock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  return pthread_mutex_trylock(&mutex->native) == 0;
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

static void *run_thread(void *data)
{
  struct start start = *(struct start *)data;
  free(data);
  start.run(start.data);
  return NULL;
}

int wlh_port_start_thread(void (*run)(void *), void *data)
{
  struct start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  start->run = run;
  start->data = data;
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) {
    free(start);
    return error;
  }
  (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  (void)pthread_attr_setstacksize(&attributes, (size_t)256 << 10);
  sigset_t all, before;
  (void)sigfillset(&all);
  const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGABRT};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) (void)sigdelset(&all, faults[i]);
  (void)pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t native;
  error = pthread_create(&native, &attributes, run_thread, start);
  (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
  (void)pthread_attr_destroy(&attributes);
  if (error != 0) free(start);
  return error;
}

void wlh_port_close_alarm(struct wlh_port_alarm alarm)
{
  wlh_port_close_descriptor(alarm.rings);
  if (alarm.pokes != alarm.rings) wlh_port_close_descriptor(alarm.pokes);
}

uint32_t wlh_port_pid(void)
{
  return (uint32_t)getpid();
}
