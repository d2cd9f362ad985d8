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

#include "agent_release.c"
#include "agent_request.c"
#include "agent_wait.c"
#include "agents.c"
#include "arena.c"
#include "bucket.c"
#include "deferred.c"
#include "events.c"
#include "helper.c"
#include "job.c"
#include "lists.c"
#include "mailbox.c"
#include "members.c"
#include "membership.c"
#include "names.c"
#include "pool.c"
#include "queue.c"
#include "rebuild.c"
#include "records.c"
#include "requests.c"
#include "section.c"
#include "self_check.c"
#include "verify.c"
#include "view.c"
#include "wake_up.c"
#else
#include "port_other.c"
#endif
