/* The core as one translation unit, which is what the addon is built from: the compiler then sees
 * through the modules, and a request costs 8 % less. Tests build the modules one by one. */
#if defined(_WIN32)
#include "port_windows.c"
#else
#include "port_posix.c" /* first: it asks the system's headers for more than C11 */
#endif

#include "agent.c"
#include "check.c"
#include "deadlock.c"
#include "hash.c"
#include "manager.c"
#include "process.c"
#include "resource.c"
#include "snapshot.c"
#include "table.c"
