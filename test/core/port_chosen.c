#include "port_chosen.h"

#include "../../src/core/alloc.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK = 256 << 10, ARENA = 8 << 20, MOST_HELD = 40, STEPS_MOST = 2000000 };

/* A thread waits for at most one mutex or condition. */
struct thread {
  void (*run)(void *data);
  void *data;
  const char *doing;
  int priority;
  bool ended, rests;
  const struct wlk_mutex *wanted;          /* what it locks, or will after its wait */
  const struct wlk_condition *awaited;     /* NULL once it is signalled */
  uint64_t until;                          /* when its wait times out */
  const struct wlk_mutex *held[MOST_HELD]; /* in the order of locking */
  int held_count;
  ucontext_t context;
  _Alignas(16) char stack[STACK];
};

char chosen_repeat[200];
const int chosen_scale = 1;

/* Thread 0 is the program itself, which runs before and after the others. */
static struct thread threads[1 + CHOSEN_THREADS];
static int thread_count;
static struct thread *current = threads;

static struct chosen_schedule schedule;
static uint64_t steps, changes[CHOSEN_CHANGES], next_change, now, random_state;
static bool spurious; /* whether waits may end without a signal */

/* The memory of the core. `is_poisoned` has an entry for each byte, and `users` one for each 8
 * bytes: the only thread that has accessed them, or SEVERAL. */
enum { SEVERAL = UINT8_MAX };
static _Alignas(64) char arena[ARENA];
static bool is_poisoned[ARENA];
static uint8_t users[ARENA / 8];
static size_t arena_used;
static long blocks;

static uint64_t draw(uint64_t limit)
{
  random_state += UINT64_C(0x9e3779b97f4a7c15);
  uint64_t z = random_state;
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (z ^ (z >> 31)) % limit;
}

/* ---- failures ---- */

static int holder_of(const struct wlk_mutex *mutex)
{
  for (int i = 0; i <= thread_count; i++)
    for (int k = 0; k < threads[i].held_count; k++)
      if (threads[i].held[k] == mutex) return i;
  return -1;
}

static void print_thread(int i)
{
  const struct thread *t = &threads[i];
  (void)fprintf(stderr, "  thread %d (%s): ", i, t->doing ? t->doing : "begins");
  int holder = t->wanted ? holder_of(t->wanted) : -1;
  if (t->ended)
    (void)fprintf(stderr, "ended\n");
  else if (t->awaited)
    (void)fprintf(stderr, "waits for a signal, with %s\n", chosen_name_of(t->wanted));
  else if (holder >= 0)
    (void)fprintf(stderr, "waits for %s of thread %d\n", chosen_name_of(t->wanted), holder);
  else
    (void)fprintf(stderr, t == current ? "runs\n" : "can run\n");
}

void chosen_fail(const char *wrong)
{
  (void)fprintf(stderr, "%s, after %llu steps\n", wrong, (unsigned long long)steps);
  for (int i = 1; i <= thread_count; i++) print_thread(i);
  (void)fprintf(stderr, "repeat: %s\n", chosen_repeat);
  _exit(1);
}

/* An invariant of the core is broken, or a pointer is invalid. */
static void handle_signal(int number)
{
  chosen_fail(number == SIGABRT ? "the core has aborted" : "an access to memory that is not there");
}

void chosen_must_have_no_mutex(void)
{
  if (current->held_count > 0) chosen_fail("the caller has a mutex");
}

int chosen_self(void)
{
  return (int)(current - threads);
}

void chosen_note(const char *doing)
{
  current->doing = doing;
}

/* ---- the schedule ---- */

static bool can_run(const struct thread *t)
{
  return !t->ended && !t->rests && !t->awaited && (!t->wanted || holder_of(t->wanted) < 0);
}

static struct thread *choose(void)
{
  struct thread *best = NULL;
  for (struct thread *t = threads + 1; t <= threads + thread_count; t++)
    if (can_run(t) && (!best || t->priority > best->priority)) best = t;
  return best;
}

/* Ends the rest of all threads, or else the wait that times out first. Returns false if none. */
static bool let_time_pass(void)
{
  struct thread *first = NULL;
  bool rested = false;
  for (struct thread *t = threads + 1; t <= threads + thread_count; t++) {
    rested = rested || t->rests;
    t->rests = false;
  }
  if (rested) return true;
  for (struct thread *t = threads + 1; t <= threads + thread_count; t++)
    if (t->awaited && t->until < UINT64_MAX && (!first || t->until < first->until)) first = t;
  if (!first) return false;
  if (first->until > now) now = first->until;
  first->awaited = NULL;
  return true;
}

static bool all_have_ended(void)
{
  for (int i = 1; i <= thread_count; i++)
    if (!threads[i].ended) return false;
  return true;
}

static void switch_to_chosen(void)
{
  struct thread *self = current, *next;
  while (!(next = choose())) {
    if (all_have_ended()) {
      next = threads;
      break;
    }
    if (!let_time_pass()) chosen_fail("nobody can run");
  }
  if (next == self) return;
  current = next;
  (void)swapcontext(&self->context, &next->context);
}

/* Returns whether the running thread has lost its priority. */
static bool count_step(void)
{
  if (++steps < next_change) return false;
  if (steps > STEPS_MOST) chosen_fail("this goes on for ever");
  bool changed = false;
  next_change = STEPS_MOST + 1;
  for (int i = 0; i < schedule.changes; i++) {
    if (changes[i] == steps) {
      current->priority = i;
      changed = true;
    } else if (changes[i] > steps && changes[i] < next_change) {
      next_change = changes[i];
    }
  }
  return changed;
}

void chosen_yield(void)
{
  if (current == threads) return;
  (void)count_step();
  switch_to_chosen();
}

void chosen_rest(void)
{
  current->rests = true;
  chosen_yield();
}

static void run_thread(void)
{
  current->run(current->data);
  if (current->held_count > 0) chosen_fail("a thread has ended with a mutex");
  current->ended = true;
  switch_to_chosen();
}

void chosen_begin(const struct chosen_schedule *chosen)
{
  (void)signal(SIGABRT, handle_signal);
  (void)signal(SIGSEGV, handle_signal);
  schedule = *chosen;
  random_state = chosen->seed;
  thread_count = 0;
  steps = now = 0;
  next_change = STEPS_MOST + 1;
  for (int i = 0; i < schedule.changes; i++) {
    changes[i] = 1 + draw(schedule.steps);
    if (changes[i] < next_change) next_change = changes[i];
  }
  spurious = draw(4) == 0;
  memset(is_poisoned, 0, arena_used);
  memset(users, 0, arena_used / 8 + 1);
  arena_used = 0;
  blocks = 0;
}

void chosen_add_thread(void (*run)(void *data), void *data)
{
  struct thread *t = &threads[++thread_count];
  t->run = run;
  t->data = data;
  t->doing = NULL;
  t->ended = t->rests = false;
  t->wanted = NULL;
  t->awaited = NULL;
  t->held_count = 0;
  (void)getcontext(&t->context);
  t->context.uc_stack.ss_sp = t->stack;
  t->context.uc_stack.ss_size = sizeof t->stack;
  makecontext(&t->context, run_thread, 0);
}

uint64_t chosen_run(void)
{
  for (int i = 1; i <= thread_count; i++) threads[i].priority = CHOSEN_CHANGES + i;
  for (int i = thread_count; i > 1; i--) {
    int other = 1 + (int)draw((uint64_t)i), priority = threads[i].priority;
    threads[i].priority = threads[other].priority;
    threads[other].priority = priority;
  }
  switch_to_chosen();
  return steps;
}

/* ---- memory ---- */

static void set_poison(const volatile void *memory, size_t size, bool poisoned)
{
  size_t at = (size_t)((const volatile char *)memory - arena);
  if (at < ARENA) memset(is_poisoned + at, poisoned, size);
}

static void check_memory(const volatile void *memory, size_t size)
{
  size_t at = (size_t)((const volatile char *)memory - arena);
  if (at < ARENA && (is_poisoned[at] || is_poisoned[at + size - 1]))
    chosen_fail("memory that was freed is used");
}

/* Memory is not reused within a run, so that every access to freed memory is noticed. */
void *__wrap_wlk_alloc(size_t size)
{
  if (arena_used + size + 64 > ARENA) chosen_fail("too little memory for a run");
  char *block = arena + arena_used;
  *(size_t *)(void *)block = size;
  arena_used += (16 + size + 15) & ~(size_t)15;
  memset(block + 16, 0xa5, size);
  set_poison(block, 16, true);
  blocks++;
  return block + 16;
}

void __wrap_wlk_free(void *memory)
{
  if (!memory) return;
  check_memory(memory, 1);
  size_t size = *(size_t *)(void *)((char *)memory - 16);
  memset(memory, 0x5a, size);
  set_poison(memory, size, true);
  blocks--;
}

long chosen_live_blocks(void)
{
  return blocks;
}

/* ---- the port ---- */

static void hold(const struct wlk_mutex *mutex)
{
  if (current->held_count == MOST_HELD) chosen_fail("a thread has too many mutexes");
  current->held[current->held_count++] = mutex;
}

static void let_go(const struct wlk_mutex *mutex)
{
  int i = current->held_count - 1;
  while (i >= 0 && current->held[i] != mutex) i--;
  if (i < 0) chosen_fail("a mutex is unlocked, or waited with, by a thread that does not have it");
  current->held[i] = current->held[--current->held_count];
}

/* Yields only with the first mutex: a thread that locks all shards would make too many steps. */
static void yield_with_a_mutex(void)
{
  if (current->held_count < 2) chosen_yield();
  if (current->wanted && holder_of(current->wanted) >= 0) switch_to_chosen();
}

void wlk_mutex_lock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  check_memory(mutex, sizeof *mutex);
  current->wanted = mutex;
  yield_with_a_mutex();
  check_memory(mutex, sizeof *mutex);
  current->wanted = NULL;
  hold(mutex);
}

void wlk_mutex_unlock(struct wlk_mutex *mutex) WLK_UNCHECKED
{
  check_memory(mutex, sizeof *mutex);
  let_go(mutex);
  yield_with_a_mutex();
}

void wlk_condition_wait_for(
    struct wlk_condition *condition, struct wlk_mutex *mutex, uint64_t timeout) WLK_UNCHECKED
{
  check_memory(condition, sizeof *condition);
  let_go(mutex);
  current->wanted = mutex;
  current->awaited = condition;
  current->until = timeout < UINT64_MAX / 2 ? now + timeout : UINT64_MAX;
  if (spurious && draw(4) == 0) current->awaited = NULL;
  if (current->until < UINT64_MAX && draw(4) == 0) { /* the other threads are slow */
    now = current->until;
    current->awaited = NULL;
  }
  chosen_yield();
  check_memory(condition, sizeof *condition);
  current->wanted = NULL;
  hold(mutex);
}

void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
{
  wlk_condition_wait_for(condition, mutex, UINT64_MAX);
}

void wlk_condition_broadcast(struct wlk_condition *condition)
{
  check_memory(condition, sizeof *condition);
  for (struct thread *t = threads + 1; t <= threads + thread_count; t++)
    if (t->awaited == condition) t->awaited = NULL;
  chosen_yield();
}

bool wlk_condition_init(struct wlk_condition *condition)
{
  (void)condition;
  return true;
}

void wlk_condition_destroy(struct wlk_condition *condition)
{
  for (struct thread *t = threads + 1; t <= threads + thread_count; t++)
    if (t->awaited == condition) chosen_fail("a condition is destroyed that somebody waits for");
}

uint64_t wlk_port_now(bool exact)
{
  (void)exact;
  return 1000 + now;
}

double wlk_port_continuous_now(void)
{
  return (double)now;
}

bool wlk_port_random(void *bytes, size_t size)
{
  for (size_t i = 0; i < size; i++) ((unsigned char *)bytes)[i] = (unsigned char)draw(256);
  return true;
}

void wlk_port_trim(void) {}

void *wlk_port_find_first_shared(void *own, const char *symbol)
{
  (void)symbol;
  return own;
}

void wlk_port_module_path(const void *address, char *path, size_t size)
{
  (void)address;
  (void)snprintf(path, size, "%s", "");
}

/* ---- what the compiler calls ----
 *
 * -fsanitize=thread makes every access to memory, atomic or not, a call. Here these calls are steps
 * instead of ThreadSanitizer's; pool.c poisons memory as for AddressSanitizer. */

/* Accesses to memory that only one thread has used so far make no difference to others. */
static bool is_shared(const volatile void *memory)
{
  size_t at = (size_t)((const volatile char *)memory - arena);
  if (at >= ARENA) return true;
  uint8_t *user = &users[at / 8], self = (uint8_t)chosen_self();
  if (*user == 0) *user = self;
  if (*user != self) *user = SEVERAL;
  return *user == SEVERAL;
}

static void note_access(const volatile void *memory, size_t size)
{
  check_memory(memory, size);
  if (!schedule.accesses || current == threads) return;
  if (is_shared(memory) && count_step()) switch_to_chosen();
}

#define ACCESS(size)                                                                               \
  void __tsan_read##size(void *memory)                                                             \
  {                                                                                                \
    note_access(memory, size);                                                                     \
  }                                                                                                \
  void __tsan_write##size(void *memory)                                                            \
  {                                                                                                \
    note_access(memory, size);                                                                     \
  }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)

void __tsan_read_range(void *memory, size_t size)
{
  if (size > 0) note_access(memory, size);
}

void __tsan_write_range(void *memory, size_t size)
{
  if (size > 0) note_access(memory, size);
}

#define ATOMIC(bits, operation, statement)                                                         \
  uint##bits##_t __tsan_atomic##bits##_##operation(                                                \
      volatile uint##bits##_t *memory, uint##bits##_t value, int order)                            \
  {                                                                                                \
    (void)order;                                                                                   \
    check_memory(memory, bits / 8);                                                                \
    chosen_yield();                                                                                \
    uint##bits##_t former = *memory;                                                               \
    statement;                                                                                     \
    return former;                                                                                 \
  }
#define ATOMICS(bits)                                                                              \
  ATOMIC(bits, store, *memory = value)                                                             \
  ATOMIC(bits, exchange, *memory = value)                                                          \
  ATOMIC(bits, fetch_add, *memory += value)                                                        \
  ATOMIC(bits, fetch_sub, *memory -= value)                                                        \
  uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *memory, int order)      \
  {                                                                                                \
    (void)order;                                                                                   \
    check_memory(memory, bits / 8);                                                                \
    chosen_yield();                                                                                \
    return *memory;                                                                                \
  }
ATOMICS(8)
ATOMICS(32)
ATOMICS(64)

void __tsan_init(void) {}

void __tsan_func_entry(void *caller)
{
  (void)caller;
}

void __tsan_func_exit(void) {}

void __asan_poison_memory_region(const volatile void *memory, size_t size)
{
  set_poison(memory, size, true);
}

void __asan_unpoison_memory_region(const volatile void *memory, size_t size)
{
  set_poison(memory, size, false);
}
