/* A port of the core under which one thread runs at a time, and a seed chooses which: probabilistic
 * concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: "A Randomized Scheduler with
 * Probabilistic Guarantees of Finding Bugs", ASPLOS 2010). Each thread has a random priority, and
 * the one with the highest that can run does. At a few random steps, the running thread gets a
 * lower priority than all others. A step is each lock, unlock, wait, broadcast and atomic access
 * and, if the schedule says so, each access to shared memory by code that was compiled with
 * -fsanitize=thread.
 *
 * The threads are contexts of one system thread, so a seed always gives the same schedule. Time
 * stands still until no thread can run. Freed or pooled memory must not be accessed. */
#ifndef PORT_CHOSEN_H
#define PORT_CHOSEN_H

#include "../../src/core/port.h"

enum { CHOSEN_THREADS = 5, CHOSEN_CHANGES = 16 };

struct chosen_schedule {
  uint64_t seed;
  int changes;    /* how often a running thread loses its priority; at most CHOSEN_CHANGES */
  uint64_t steps; /* the losses are at random ones of the first `steps`; more than 0 */
  bool accesses;  /* whether an access to memory is a step */
};

/* Forgets the threads and all memory of the core. */
void chosen_begin(const struct chosen_schedule *schedule);

void chosen_add_thread(void (*run)(void *data), void *data);

/* Runs the threads until all have ended. Returns the number of steps. */
uint64_t chosen_run(void);

/* The number of the calling thread, from 1; 0 while none runs. */
int chosen_self(void);

void chosen_yield(void);

/* Makes the calling thread continue only once all others rest or wait. Without it, threads would
 * rarely meet: each runs to its end unless it waits or loses its priority. */
void chosen_rest(void);

void chosen_must_have_no_mutex(void);

/* Notes what the calling thread does, for chosen_fail. The text must stay valid. */
void chosen_note(const char *doing);

/* Prints what is wrong, each thread's action and wait, and `chosen_repeat`; ends the program. */
_Noreturn void chosen_fail(const char *wrong);

/* How many times longer stories are than ones whose schedules could all be covered. */
extern const int chosen_scale;

/* The command that repeats the run; set by the program. */
extern char chosen_repeat[200];

/* Defined by the program: the name of a mutex in failure messages. */
const char *chosen_name_of(const struct wlk_mutex *mutex);

/* Blocks that were allocated since chosen_begin and not freed. */
long chosen_live_blocks(void);

#endif
