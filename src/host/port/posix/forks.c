/* Keeps other threads from forking while a descriptor is not recorded (port.h). */
#include "parts.h"

#include <pthread.h>

static struct wlk_mutex forks = WLK_MUTEX_INIT;
static void (*call_in_child)(void); /* It is set once, before the first fork that needs it. */

void wlh_port_prevent_forks(void) WLK_UNCHECKED
{
  wlk_mutex_lock(&forks);
}

void wlh_port_permit_forks(void) WLK_UNCHECKED
{
  wlk_mutex_unlock(&forks);
}

/* Only the thread of the parent could unlock the mutex, so the child initialises it anew. */
static void after_fork_in_child(void)
{
  struct wlk_mutex fresh = WLK_MUTEX_INIT;
  forks = fresh;
  call_in_child();
}

bool wlh_port_at_fork(void (*child)(void))
{
  call_in_child = child;
  return pthread_atfork(wlh_port_prevent_forks, wlh_port_permit_forks, after_fork_in_child) == 0;
}
