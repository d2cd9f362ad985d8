/* The lock state of an operating system process. */
#ifndef WLK_PROCESS_H
#define WLK_PROCESS_H

#include "records.h"

/* Initialises, once, the fields that a static initialiser cannot initialise. Returns WLK_OK or
 * WLK_NO_RANDOM. Threads: any. */
enum wlk_status wlk_process_init_once(struct wlk_process *process) WLK_EXCLUDES(process->mutex);

#endif
