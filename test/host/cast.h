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

void begin_play(void);
void end_play(void);

/* ---- stories ---- */

/* Those who play them. */
extern struct played a, b, c;

/* Its steps are separated by "; ". Each is one of these, or one of the test's own:
 *
 *   ab enters          each of them does it; see `act` in cast.c for what can be done
 *   a gets 1 n         asks for the lock "n" with tag 1, and is granted it
 *   b hears 2 granted  waits for that event
 *   a: close = close   sends a line, and waits for the answer if there is one */
struct story {
  const char *title;
  const char *steps;
};

/* Plays each of them. `more` takes the steps that begin with no actor. */
void run_stories(const struct story *stories, size_t count, void (*more)(const char *step));

/* The steps, in a play that has begun. */
void play(const char *steps);

/* ---- actors ---- */

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

/* Asks for a lock and hears that it fails, with a reason that has `text` in it. */
void fails(struct played *actor, const char *status, const char *text);

/* Whether the two see each other's locks. */
void share_locks(struct played *one, struct played *other);

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
