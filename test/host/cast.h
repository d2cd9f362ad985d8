/* Leads actors (actor.c), each a process of its own. What is not heard within 20 s is a failure, and
 * ends the test program: nothing waits for a time. */
#ifndef CAST_H
#define CAST_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct played {
  pid_t pid;
  int in;
  int out;
  unsigned member; /* its number in the tables, of those who entered */
  char text[8192]; /* what it said and nobody has asked for */
  size_t length;
};

/* The directory that this test has to itself; made by begin_play and removed by end_play. */
extern char directory[128];

void begin_play(const char *program);
void end_play(void);

/* Starts a process, which opens the bucket "b" in `directory`. */
void enter(struct played *actor);

/* Starts a process that has not opened anything. */
void start(struct played *actor);

/* Starts a process that was built with another layout of the tables, as version 99.0.0. */
void start_next(struct played *actor);

/* Sends a line. */
void tell(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the actor says this line, and takes it; other lines stay. */
void hear(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the actor says a line that begins so; takes it, the rest into `rest`. */
void hear_rest(struct played *actor, const char *beginning, char *rest, size_t size);

/* As tell, then hear. */
void ask_for(struct played *actor, const char *line, const char *answer);

/* Waits for the answer to `tag`: at once, or by an event, as it is when the tables were in use. */
void hear_either(struct played *actor, int tag, const char *answer, const char *event);

/* Sends "ask TAG …", and hears that it is granted, or not available. */
void is_granted(struct played *actor, const char *line);
void is_not_available(struct played *actor, const char *line);

/* Has a lock released. */
void releases(struct played *actor, int tag);

/* Whether the actor has said it already, without waiting. */
bool has_said(struct played *actor, const char *line);

/* Waits until the helper of an actor says that it looks after the files ("yes"), or that it does not:
 * then it has done all there was. */
void hear_minded(struct played *actor, const char *answer);

/* Kills, stops and continues a process; kill_it and stop_it wait until it is so. Who is stopped stands
 * outside of the tables: inside, it would keep all others waiting. */
void kill_it(struct played *actor);
void stop_it(struct played *actor);
void wait_stopped(struct played *actor);
void go_on(struct played *actor);

/* Closes its standard input, at which it ends if it has not yet; waits, and gives its wait status. */
void has_ended(struct played *actor, int *status);

/* The path of a file in the directory of the bucket. */
const char *bucket_path(const char *file);

#endif
