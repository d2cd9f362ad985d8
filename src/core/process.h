/* The lock state of an operating system process: finding it, and setting it up. Public part in
 * weblocks.h. */
#ifndef WLK_PROCESS_H
#define WLK_PROCESS_H

#include "records.h"

/* Sets up what a static initialiser cannot, once. Returns WLK_OK, WLK_NO_RANDOM. Threads: any. */
enum wlk_status wlk_process_start(struct wlk_process *process) WLK_EXCLUDES(process->mutex);

#endif
