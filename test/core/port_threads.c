/* Runs the threads of chosen_test.c as system threads, for sanitizers: the system schedules them.
 * At times an allocation fails, in any thread. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1
#endif
#include "harness.h"
#include "port_chosen.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAITS_FOR_EVER = 300 }; /* seconds */

static struct thread {
  pthread_t native;
  void (*run)(void *data);
  void *data;
  const char *_Atomic doing;
  unsigned random;
} threads[1 + CHOSEN_THREADS];

static int thread_count;
static _Thread_local int self;

char chosen_repeat[200];
const int chosen_scale = 5;

/* A run that hangs because of a lost wake-up ends here. */
static void handle_alarm(int number)
{
  (void)number;
  for (int i = 1; i <= thread_count; i++)
    (void)fprintf(stderr, "  thread %d %s\n", i, threads[i].doing);
  chosen_fail("a thread waits for ever");
}

void chosen_begin(const struct chosen_schedule *schedule)
{
  thread_count = 0;
  for (int i = 0; i <= CHOSEN_THREADS; i++)
    threads[i].random = (unsigned)schedule->seed * 8 + (unsigned)i;
  (void)signal(SIGALRM, handle_alarm);
  (void)alarm(WAITS_FOR_EVER);
}

void chosen_add_thread(void (*run)(void *data), void *data)
{
  struct thread *t = &threads[++thread_count];
  t->doing = "begins";
  t->run = run;
  t->data = data;
}

static void *run_thread(void *thread)
{
  struct thread *t = thread;
  self = (int)(t - threads);
  t->run(t->data);
  return NULL;
}

uint64_t chosen_run(void)
{
  for (int i = 1; i <= thread_count; i++)
    if (pthread_create(&threads[i].native, NULL, run_thread, &threads[i]) != 0) abort();
  for (int i = 1; i <= thread_count; i++) (void)pthread_join(threads[i].native, NULL);
  (void)fail_allocation(0);
  return 1;
}

int chosen_self(void)
{
  return self;
}

void chosen_rest(void)
{
  int dice = rand_r(&threads[self].random);
  if (dice % 8 == 0) (void)fail_allocation(1 + dice / 8 % 3);
  (void)sched_yield();
}

void chosen_must_have_no_mutex(void) {}

void chosen_note(const char *doing)
{
  threads[self].doing = doing;
}

void chosen_fail(const char *wrong)
{
  (void)fprintf(stderr, "%s\nrepeat: %s\n", wrong, chosen_repeat);
  abort();
}

long chosen_live_blocks(void)
{
  return live_blocks();
}
