/* When the command line ends, ends the processes that it has started: `web-locks run` must not
 * leave its command running without the lock. This file also notes which signal ended a child. */
#ifndef WEB_LOCKS_PROCESS_GROUP_H
#define WEB_LOCKS_PROCESS_GROUP_H

/* Makes a group of this process and the processes that it starts from now on. On Windows (a job
 * object) their descendants belong to the group as well, and a second call applies to the whole
 * group. On Linux only children that the calling thread forks later belong to it; with
 * `ends_with_us`, children do not inherit the files that are open now, except the standard streams.
 * Elsewhere, and if the system refuses, nothing happens.
 *   ends_with_us  whether the group ends when this process (on Linux: the calling thread) ends, in
 *                 whatever way
 *   threads       one */
void keep_process_group(bool ends_with_us);

/* On Linux, notes the signal that ends a child, because Node.js reports a signal that it has no
 * name for (a real-time signal) as the exit status 0. Elsewhere nothing happens.
 *   child    a child of this process that nobody has reaped yet; it replaces the one before
 *   threads  one, which runs the event loop that reaps the child */
void watch_child(int child);

/* Returns the signal that ended the watched child; 0 if the child ended otherwise or still runs. */
int signal_that_ended_child();

/* On Windows, ends all other processes of the group and waits for them. Elsewhere does nothing. */
void end_process_group();

#endif
