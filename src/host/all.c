/* The host scope as one translation unit. It needs Linux, macOS or Windows, and a lock-free 64-bit
 * compare-and-swap. Elsewhere, every call fails. */
#if (defined(__linux__) || defined(__APPLE__) || defined(_WIN32)) &&                               \
    __GCC_ATOMIC_LLONG_LOCK_FREE == 2

/* The files of the port must be first: their header parts.h defines macros that the system's
 * headers need. */
#if defined(_WIN32)
#include "port/windows/failures.c"

#include "port/windows/access.c"
#include "port/windows/files.c"
#include "port/windows/locks.c"
#include "port/windows/memory.c"
#include "port/windows/paths.c"
#include "port/windows/peers.c"
#include "port/windows/threads.c"
#else
#include "port/posix/failures.c"

#if defined(__APPLE__)
#include "port/posix/darwin.c"
#else
#include "port/posix/linux.c"
#endif

#if defined(__APPLE__) || defined(WLH_PLAIN)
#include "port/posix/plain_calls.c"
#else
#include "port/posix/linux_calls.c"
#endif

#include "port/posix/descriptors.c"
#include "port/posix/forks.c"
#include "port/posix/locks.c"
#include "port/posix/memory.c"
#include "port/posix/paths.c"
#include "port/posix/sockets.c"
#include "port/posix/threads.c"
#endif

#include "port/failures.c"

#include "segment/arena.c"
#include "segment/lists.c"
#include "segment/marks.c"
#include "segment/members.c"
#include "segment/names.c"
#include "segment/pool.c"
#include "segment/queue.c"
#include "segment/rebuild.c"
#include "segment/requests.c"
#include "segment/verify.c"
#include "segment/view.c"

#include "member/agent_release.c"
#include "member/agent_request.c"
#include "member/agent_wait.c"
#include "member/agents.c"
#include "member/bucket.c"
#include "member/deferred.c"
#include "member/events.c"
#include "member/helper.c"
#include "member/job.c"
#include "member/mailbox.c"
#include "member/membership.c"
#include "member/records.c"
#include "member/section.c"
#include "member/self_check.c"
#include "member/wake_up.c"
#else
#include "port/none/unavailable.c"
#endif
