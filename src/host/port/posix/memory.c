/* The memory of a bucket. If the mapped file is truncated, an access raises a signal. */
#include "parts.h"

#include "../../../core/hash.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

uint64_t wlh_port_size(struct wlh_port *port)
{
  struct stat status;
  return fstat(port->file, &status) == 0 ? (uint64_t)status.st_size : 0;
}

void wlh_port_truncate(struct wlh_port *port, uint64_t size)
{
  int done = wlh_port_repair_file(port) ? 0 : -1;
  while (wlh_port_size(port) > size && done == 0) done = ftruncate(port->file, (off_t)size);
}

/* The map has its largest size from the beginning, so it need not be extended. */
uint64_t wlh_port_extend_map(struct wlh_port *port, int *error)
{
  struct stat status;
  *error = fstat(port->file, &status) == 0 ? 0 : errno;
  return *error == 0 ? (uint64_t)status.st_size : 0;
}

/* One entry for each open bucket, which the signal handler reads. `guards_mutex` guards writing.
 * The handler cannot take it, so `base` is written last when an entry is taken, and first when it
 * is given back: the handler finds an entry complete or empty. */
enum { GUARDS = 4096 };
static struct {
  void *base;
  size_t size;
  uint32_t *lost;
} guards[GUARDS];
static struct wlk_mutex guards_mutex = WLK_MUTEX_INIT;

/* Entry i belongs to wlh_port_cut_off_signals[i]. `former` is written under guards_mutex, before
 * on_bus_error, which reads it, is installed. */
enum { SIGNALS = 2 };
static struct {
  struct sigaction former;
  bool guarding; /* whether on_bus_error is installed; guarded by guards_mutex */
} handlers[SIGNALS];

/* Whether the code of a signal distinguishes a fault from a sent signal. On macOS it does not: a
 * sent SIGBUS has the code of a fault, and the SIGSEGV of a fault can have the code 0. The address
 * of a sent signal is that of the last fault: if that is in a map, the bucket is taken for lost. */
#if defined(__APPLE__)
enum { TELLS_FAULTS = 0 };
#else
enum { TELLS_FAULTS = 1 };
#endif

static bool is_fault(const siginfo_t *info)
{
  return info->si_code > 0 && info->si_code <= 0x10000;
}

/* Without a former handler, the signal ends the process as it would have without us. */
static void call_former_handler(int signal, siginfo_t *info, void *context)
{
  const struct sigaction *former = &handlers[signal == wlh_port_cut_off_signals[0] ? 0 : 1].former;
  if (former->sa_flags & SA_SIGINFO) {
    former->sa_sigaction(signal, info, context);
  } else if (former->sa_handler != SIG_DFL && former->sa_handler != SIG_IGN) {
    former->sa_handler(signal);
  } else if (former->sa_handler == SIG_IGN && TELLS_FAULTS && !is_fault(info)) {
    return; /* The signal was sent, and was ignored before. */
  } else {
    /* When the handler returns, a fault happens again, and ends the process as it would have
     * without us. A signal that may have been sent is sent again. */
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    (void)sigaction(signal, &standard, NULL);
    if (!TELLS_FAULTS || !is_fault(info)) (void)raise(signal);
  }
}

/* If a guarded map has the address, replaces it by zeros and sets `lost`. Otherwise calls the
 * former handler. */
static void on_bus_error(int signal, siginfo_t *info, void *context)
{
  int error = errno;
  uintptr_t address = (uintptr_t)info->si_addr;
  for (size_t i = 0; i < GUARDS && is_fault(info); i++) {
    void *base = __atomic_load_n(&guards[i].base, __ATOMIC_ACQUIRE);
    if (!base || address - (uintptr_t)base >= guards[i].size) continue;
    /* Zeros mean that no process is inside, and are recognized as damage. */
    void *zeros = mmap(
        base, guards[i].size, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED) break;
    __atomic_store_n(guards[i].lost, 1, __ATOMIC_RELEASE);
    errno = error;
    return;
  }
  errno = error;
  call_former_handler(signal, info, context);
}

/* Installs on_bus_error for the signal at `place`, unless another handler has replaced it since. */
static void start_guarding(int place)
{
  int signal = wlh_port_cut_off_signals[place];
  struct sigaction ours, now;
  memset(&ours, 0, sizeof ours);
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
  (void)sigemptyset(&ours.sa_mask);
  if (sigaction(signal, NULL, &now) != 0) return;
  bool there = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error;
  /* A handler that was installed after ours may call ours as its former one. If ours were installed
   * again, the two would call each other for ever. So ours is installed again only if the signal
   * was reset to its default action. */
  bool reset = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_DFL;
  if (there || (handlers[place].guarding && !reset)) return;
  handlers[place].former = now;
  handlers[place].guarding = sigaction(signal, &ours, NULL) == 0;
}

/* Installs the signal handlers, if need be. Returns 0, or ENOBUFS if no entry is free. */
static int add_guard(struct wlh_port *port, uint32_t *lost)
{
  int error = ENOBUFS;
  wlk_mutex_lock(&guards_mutex);
  for (int i = 0; i < SIGNALS && wlh_port_cut_off_signals[i] != 0; i++) start_guarding(i);
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

static void remove_guard(struct wlh_port *port)
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
  return add_guard(port, lost);
}

void wlh_port_unmap(struct wlh_port *port)
{
  remove_guard(port);
  if (port->map) (void)munmap(port->map, port->map_size);
  port->map = NULL;
}

void *wlh_port_alloc_zeros(size_t size)
{
  void *zeros =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return zeros == MAP_FAILED ? NULL : zeros;
}

void wlh_port_free_zeros(void *zeros, size_t size)
{
  if (zeros) (void)munmap(zeros, size);
}

void wlh_port_trim_zeros(void *zeros, size_t used, size_t size)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t from = (used + page - 1) / page * page;
  if (from < size) (void)madvise((char *)zeros + from, size - from, MADV_DONTNEED);
}

uint64_t wlh_port_boot_number(void)
{
  static const uint64_t key[2] = {UINT64_C(0x7765622d6c6f636b), UINT64_C(0x626f6f742d69642e)};
  char name[64];
  uint16_t text[64];
  size_t length = wlh_port_boot_name(name, sizeof name);
  for (size_t i = 0; i < length; i++) text[i] = (unsigned char)name[i];
  return length ? wlk_hash(key, text, (uint32_t)length) | 1 : WLH_PORT_ANY_BOOT;
}
