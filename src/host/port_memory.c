/* The memory of a bucket: the file, mapped, and what happens when it is cut off. */
#include "port_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

uint64_t wlh_port_size(struct wlh_port *port)
{
  struct stat status;
  return fstat(port->file, &status) == 0 ? (uint64_t)status.st_size : 0;
}

int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  int error;
  do {
    error = posix_fallocate(port->file, 0, (off_t)size);
  } while (error == EINTR);
  return error;
}

/* What the SIGBUS handler looks at. A slot is written under `guards_mutex`; `base` last when it is
 * taken and first when it is given back, so that the handler, which cannot take a mutex, finds a
 * slot whole or empty. Each bucket that is open takes one. */
enum { GUARDS = 4096 };
static struct {
  void *base;
  size_t size;
  uint32_t *lost;
} guards[GUARDS];
static struct wlk_mutex guards_mutex = WLK_MUTEX_INIT;
static struct sigaction former;
static bool guarding; /* guards_mutex */

static void chain(int signal, siginfo_t *info, void *context)
{
  if (former.sa_flags & SA_SIGINFO) {
    former.sa_sigaction(signal, info, context);
  } else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
  } else if (former.sa_handler == SIG_IGN && info->si_code <= 0) {
    return; /* sent by somebody, and ignored before */
  } else {
    /* A fault happens again when we return, and ends the process as it would have without us. */
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    (void)sigaction(signal, &standard, NULL);
    if (info->si_code <= 0) (void)raise(signal);
  }
}

static void on_bus_error(int signal, siginfo_t *info, void *context)
{
  int error = errno;
  uintptr_t address = (uintptr_t)info->si_addr;
  for (size_t i = 0; i < GUARDS && info->si_code > 0; i++) {
    void *base = __atomic_load_n(&guards[i].base, __ATOMIC_ACQUIRE);
    if (!base || address - (uintptr_t)base >= guards[i].size) continue;
    /* Zeros: nobody is inside, and nothing is in the tables. */
    void *zeros = mmap(
        base, guards[i].size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    __atomic_store_n(guards[i].lost, 1, __ATOMIC_RELEASE);
    errno = error;
    return;
  }
  errno = error;
  chain(signal, info, context);
}

static void start_guarding(void)
{
  struct sigaction ours, now;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  (void)sigemptyset(&ours.sa_mask);
  if (sigaction(SIGBUS, NULL, &now) != 0) return;
  bool there = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error;
  /* Where somebody came after us he has us as his former handler, and may call us: then to go in
   * front of him again would make a circle. Where he reset it, we come back. */
  bool reset = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
  if (there || (guarding && !reset)) return;
  former = now;
  guarding = sigaction(SIGBUS, &ours, NULL) == 0;
}

static int guard(struct wlh_port *port, uint32_t *lost)
{
  int error = ENOBUFS;
  wlk_mutex_lock(&guards_mutex);
  start_guarding();
  for (int i = 0; i < GUARDS && error != 0; i++) {
    if (guards[i].base) continue;
    guards[i].size = port->map_size;
    guards[i].lost = lost;
    __atomic_store_n(&guards[i].base, port->map, __ATOMIC_RELEASE);
    port->guard = i;
    error = 0;
  }
  wlk_mutex_unlock(&guards_mutex);
  return error;
}

void wlh_port_unguard(struct wlh_port *port)
{
  if (port->guard < 0) return;
  wlk_mutex_lock(&guards_mutex);
  __atomic_store_n(&guards[port->guard].base, NULL, __ATOMIC_RELEASE);
  wlk_mutex_unlock(&guards_mutex);
  port->guard = -1;
}

int wlh_port_map(struct wlh_port *port, size_t size, uint32_t *lost)
{
  void *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, port->file, 0);
  if (map == MAP_FAILED) return errno;
  wlh_port_keep_private(map, size);
  port->map = map;
  port->map_size = size;
  return guard(port, lost);
}

void *wlh_port_zeros(size_t size)
{
  void *zeros =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return zeros == MAP_FAILED ? NULL : zeros;
}

void wlh_port_free_zeros(void *zeros, size_t size)
{
  if (zeros) (void)munmap(zeros, size);
}
