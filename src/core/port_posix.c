/* See port.h. dladdr and RTLD_DEFAULT are in every libc we build for, but not in POSIX. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif

#include "port.h"

#include <dlfcn.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

void wlk_mutex_lock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  (void)pthread_mutex_lock(&mutex->native);
}

void wlk_mutex_unlock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  (void)pthread_mutex_unlock(&mutex->native);
}

void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
{
  (void)pthread_cond_wait(&condition->native, &mutex->native);
}

void wlk_condition_broadcast(struct wlk_condition *condition)
{
  (void)pthread_cond_broadcast(&condition->native);
}

bool wlk_port_random(void *bytes, size_t size)
{
  return getentropy(bytes, size) == 0;
}

/* Node loads addons with RTLD_LOCAL, so two copies do not see each other. Each copy first puts
 * itself into the global scope and then asks that scope for the symbol. The scope is only ever
 * appended to (RTLD_NODELETE keeps what is in it) and the loader serialises both steps, so
 * whichever copy was appended first is what every copy finds, whatever the interleaving.
 *
 * It also means that a copy's reference to the exported variable leads to the first copy's: `own`
 * must come from elsewhere. */
void *wlk_port_first_shared(void *own, const char *symbol)
{
  Dl_info module;
  if (dladdr(own, &module) == 0) return NULL;
  /* The handle is not closed: it is the reference that keeps the module. */
  if (!dlopen(module.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL | RTLD_NODELETE)) return NULL;
  void **first = dlsym(RTLD_DEFAULT, symbol);
  return first ? *first : NULL;
}

void wlk_port_module_path(const void *address, char *path, size_t size)
{
  Dl_info module;
  bool known = dladdr(address, &module) != 0 && module.dli_fname;
  (void)snprintf(path, size, "%s", known ? module.dli_fname : "");
}
