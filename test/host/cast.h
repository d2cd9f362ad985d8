/* Leads actors (actor.c), each a process of its own. If something is waited for in vain, the test
 * program ends: nothing waits for a time. */
#ifndef CAST_H
#define CAST_H

#include "../../src/host/host.h"

#include <sys/types.h>

struct played {
  pid_t pid;
  int in;
  int out;
  unsigned member; /* its number in the tables, if it has entered */
  char text[8192]; /* what it said and nobody has asked for */
  size_t length;
};

/* The directory that this test has to itself; made by begin_play and removed by end_play. */
extern char directory[128];

void begin_play(void);
void end_play(void);

/* ---- stories ---- */

/* What is printed where something is waited for in vain. */
extern const char *current_step;

/* The actors of stories. */
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

/* The steps, in a play that has begun; `more_steps` are those of run_stories. */
void play(const char *steps);
extern void (*more_steps)(const char *step);

/* ---- actors ---- */

/* Starts a process; `enter` has it open the bucket "b" in `directory`. */
void start(struct played *actor);
void enter(struct played *actor);

/* Sends a line. */
void tell(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Waits until the actor says this line, and takes it; other lines stay. hear_rest: a line that begins
 * so, whose rest is put into `rest`. */
void hear(struct played *actor, const char *format, ...) __attribute__((format(printf, 2, 3)));
void hear_rest(struct played *actor, const char *beginning, char *rest, size_t size);

/* As tell, then hear. */
void ask_for(struct played *actor, const char *line, const char *answer);

/* Waits for the answer to `tag`: at once, or by an event if the tables were in use. */
void hear_either(struct played *actor, int tag, const char *answer, const char *event);

/* Sends "ask TAG …", and hears that it is granted; has a lock released. */
void is_granted(struct played *actor, const char *line);
void releases(struct played *actor, int tag);

/* Asks for a lock and hears that it fails, with a reason that has `text` in it. */
void fails(struct played *actor, const char *status, const char *text);

/* Kills, stops and continues a process; the first two wait until it is so. A process that is stopped
 * is outside of the tables: inside, it would keep all others waiting. */
void kill_it(struct played *actor);
void stop_it(struct played *actor);
void go_on(struct played *actor);

/* Whether a process that does not run is inside of the tables. */
bool is_inside(const struct played *actor);

/* The path of a file in the directory of the bucket. */
const char *bucket_path(const char *file);

/* ---- this process as a member ---- */

extern struct wlh_bucket *bucket;
extern struct wlh_agent *agent;

/* Opens a bucket in `directory`, with an agent; closes it. */
void begin_member(const char *name);
void end_member(void);

/* The wake function of this process's agents. */
void wake(void *unused);

/* Waits for an agent's next event that was not taken yet. */
struct wlk_event next_event(struct wlh_agent *whose);

/* How many files a directory has. */
int count_in(const char *path);

#endif
