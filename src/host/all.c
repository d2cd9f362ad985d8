/* The host scope as one translation unit, which is what the addon is built from. Tests build the
 * modules one by one. It needs 64-bit words that can be swapped without a lock. */
#if defined(__linux__) && __GCC_ATOMIC_LLONG_LOCK_FREE == 2
/* First: what they include asks the system's headers for more than C11. */
#include "port_failures.c"

#include "port_descriptors.c"
#include "port_linux.c"
#include "port_locks.c"
#include "port_memory.c"
#include "port_paths.c"
#include "port_sockets.c"
#include "port_threads.c"

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
