/* Starts and directs actors (actor.c), each a process of its own, and plays stories with them. A
 * test never waits for a time: if an expected answer does not come, the test fails and ends. */
#ifndef CAST_H
#define CAST_H

#include "../../src/host/host.h"

#include <sys/types.h>

struct played {
  pid_t pid;
  int in;
  int out;
  unsigned member; /* index in the member table, once it has entered */
  char text[8192]; /* output that no `hear` has consumed yet */
  size_t length;
};

/* The test's own directory: begin_play makes it, end_play removes it. */
extern char directory[128];

void begin_play(void);
void end_play(void);

/* ---- stories ---- */

/* Printed if an expected answer does not come. */
extern const char *current_step;

/* The actors of stories. */
extern struct played a, b, c;

/* Its steps are separated by "; ". Each is one of these, or one of the test's own:
 *
 *   ab enters          each of the two does it; `act` in cast.c lists the verbs
 *   a gets 1 n         requests the lock "n" with tag 1, and is granted it
 *   b hears 2 granted  waits for that event
 *   a: close = close   sends a line, and waits for the answer if there is one */
struct story {
  const char *title;
  const char *steps;
};

/* `more` runs the steps that begin with no actor. */
void run_stories(const struct story *stories, size_t count, void (*more)(const char *step));

/* Runs steps after begin_play; `more_steps` runs those that begin with no actor. */
void play(const char *steps);
extern void (*more_steps)(const char *step);

/* ---- actors ---- */

/* Starts a process; `enter` also makes it open the bucket "b" in `directory`. */
void start(struct played *actor);
void enter(struct played *actor);

/* Sends a line. */
void tell(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the actor prints this line, and consumes it; other lines stay. hear_rest waits for a
 * line with this beginning, and copies what follows into `rest`. */
void hear(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hear_rest(struct played *actor, const char *beginning, char *rest, size_t size);

/* Sends a line and waits for the answer. */
void ask_for(struct played *actor, const char *line, const char *answer);

/* Waits for the answer to `tag`, which is an event if the tables were busy. */
void hear_either(struct played *actor, int tag, const char *answer, const char *event);

/* Requests with "ask TAG …" and waits for the grant; releases a lock. */
void acquire(struct played *actor, const char *line);
void release(struct played *actor, int tag);

/* Requests a lock and expects it to fail with this status and a reason that contains `text`. */
void expect_failure(struct played *actor, const char *status, const char *text);

/* Kills, stops and continues a process; the first two wait until that has happened. A process is
 * only stopped outside the mutex: inside, it would block all others. */
void kill_it(struct played *actor);
void stop_it(struct played *actor);
void go_on(struct played *actor);

/* Whether a process that does not run owns the mutex. */
bool is_inside(const struct played *actor);

/* The path of a file in the directory of the bucket. */
const char *bucket_path(const char *file);

/* ---- this process as a member ---- */

extern struct wlh_bucket *bucket;
extern struct wlh_agent *agent;

/* Opens a bucket in `directory` and adds an agent; closes both. */
void begin_member(const char *name);
void end_member(void);

/* The wake function of this process's agents. */
void wake(void *unused);

/* Waits for the agent's next event. */
struct wlk_event next_event(struct wlh_agent *whose);

int count_in(const char *path);
long now_ms(void);

#endif
