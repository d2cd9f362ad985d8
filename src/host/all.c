/* The host scope as one translation unit, for the addon; tests build the modules one by one. It
 * needs lock-free 64-bit compare-and-swap. */
#if (defined(__linux__) || defined(__APPLE__) || defined(_WIN32)) &&                               \
    __GCC_ATOMIC_LLONG_LOCK_FREE == 2

/* These must be first: they ask the system's headers for more than C11. */
#if defined(_WIN32)
#include "port_windows_failures.c"

#include "port_windows_access.c"
#include "port_windows_files.c"
#include "port_windows_locks.c"
#include "port_windows_memory.c"
#include "port_windows_paths.c"
#include "port_windows_peers.c"
#include "port_windows_threads.c"
#else
#include "port_posix_failures.c"

#if defined(__APPLE__)
#include "port_darwin.c"
#else
#include "port_linux.c"
#endif

#if defined(__APPLE__) || defined(WLH_PLAIN)
#include "port_plain_calls.c"
#else
#include "port_linux_calls.c"
#endif

#include "port_posix_descriptors.c"
#include "port_posix_locks.c"
#include "port_posix_memory.c"
#include "port_posix_paths.c"
#include "port_posix_sockets.c"
#include "port_posix_threads.c"
#endif

#include "port_failures.c"

#include "agents.c"
#include "arena.c"
#include "asking.c"
#include "bell.c"
#include "bucket.c"
#include "ending.c"
#include "errand.c"
#include "helper.c"
#include "later.c"
#include "lists.c"
#include "mail.c"
#include "members.c"
#include "names.c"
#include "news.c"
#include "opening.c"
#include "own.c"
#include "pool.c"
#include "queue.c"
#include "rebuild.c"
#include "records.c"
#include "requests.c"
#include "turn.c"
#include "verify.c"
#include "view.c"
#include "waiting.c"
#else
#include "port_other.c"
#endif
