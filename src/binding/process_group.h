/* The processes that the command line starts, and what becomes of them when it ends. It has nothing
 * to do with locks: `web-locks run` must not leave its command behind without the lock. */
#ifndef WEB_LOCKS_PROCESS_GROUP_H
#define WEB_LOCKS_PROCESS_GROUP_H

/* Makes this process and the processes that it starts from now on a group. On Windows (a job
 * object) the processes that those start belong to it, too, and a second call applies to all of it.
 * On Linux only children that the calling thread forks later belong to it. Elsewhere, and if the
 * system refuses, nothing happens.
 *   ends_with_us  whether the group ends when this process (on Linux: the calling thread) ends, in
 *                 whatever way
 *   threads       one */
void keep_process_group(bool ends_with_us);

/* On Windows, ends the group except this process, and waits for it; elsewhere does nothing. */
void end_process_group();

#endif
