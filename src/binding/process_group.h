/* Ends the processes that the command line has started when the command line itself ends:
 * `web-locks run` must not leave its command running without the lock. */
#ifndef WEB_LOCKS_PROCESS_GROUP_H
#define WEB_LOCKS_PROCESS_GROUP_H

/* Makes this process and the processes that it starts from now on a group. On Windows (a job
 * object) all their descendants belong to the group as well, and a second call applies to the whole
 * group. On Linux only children that the calling thread forks later belong to the group. Elsewhere,
 * and if the system refuses, nothing happens.
 *   ends_with_us  whether the group ends when this process (on Linux: the calling thread) ends, in
 *                 whatever way
 *   threads       one */
void keep_process_group(bool ends_with_us);

/* On Windows, ends the group except this process, and waits for it; elsewhere does nothing. */
void end_process_group();

#endif
