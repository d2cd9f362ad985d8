/* The host scope as one translation unit, which is what the addon is built from. Tests build the
 * modules one by one. It needs 64-bit words that can be swapped without a lock. */
#if defined(__linux__) && __GCC_ATOMIC_LLONG_LOCK_FREE == 2
#include "port_linux.c" /* first: it asks the system's headers for more than C11 */

#include "arena.c"
#include "bell.c"
#include "bucket.c"
#include "calls.c"
#include "errand.c"
#include "helper.c"
#include "later.c"
#include "lists.c"
#include "members.c"
#include "names.c"
#include "news.c"
#include "opening.c"
#include "pool.c"
#include "rebuild.c"
#include "records.c"
#include "requests.c"
#include "turn.c"
#include "verify.c"
#include "view.c"
#else
#include "port_other.c"
#endif
