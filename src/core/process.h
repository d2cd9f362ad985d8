/* The lock state of an operating system process, and the turn: what a public call does between
 * taking the mutex and having told everybody.
 *
 * Locking. One mutex, `process->mutex`, guards everything that more than one thread can reach. It
 * is the only lock of the core: no order to keep. It is held for a bounded number of pointer
 * operations (a termination: in proportion to the agent's requests; a snapshot or a resize: to the
 * manager's; a search for deadlocks: to the declared requests); no memory is allocated or freed, no
 * system call made and no wake function called under it. The one exception: a thread that blocks in
 * wlk_wait_for_the_lock is signalled under it.
 *
 * Waking. A grant to another agent puts that agent into `to_wake`, under the mutex. Before a turn
 * ends, it takes agents out of there one by one: pins the agent, unlocks, wakes, locks, unpins. A
 * termination takes its agent out of `to_wake` and waits until it has no pins, so an agent's memory
 * and whatever its wake function uses outlive every wake. The waker needs nothing that the
 * terminating thread holds, so this wait ends.
 *
 * Resizing. A table that wants another size is put into `unfit`, under the mutex. At its end a turn
 * resizes what is there, one table after the other. The memory for one is made without the mutex,
 * so all is looked at again when it is taken: another turn can have resized the table, or closed
 * its manager, which takes it out of `unfit`.
 *
 * Freeing. What a turn unlinks (requests, resources, an agent, a manager) belongs to that turn:
 * nobody else can reach it. The turn frees it after unlocking. */
#ifndef WLK_PROCESS_H
#define WLK_PROCESS_H

#include "list.h"
#include "port.h"
#include "table.h"
#include "weblocks.h"

/* Raise with any change to a struct of the core, to what a field means, or to what is guarded how:
 * copies of the package with the same number work on the same memory. */
#if !defined(WLK_ABI)
#define WLK_ABI UINT32_C(4)
#endif

/* Lock key: (m) process->mutex  (c) constant */
struct wlk_process {
  char magic[16];                /* (c) WLK_MAGIC: this and `abi` stay in place in every version */
  uint32_t abi;                  /* (c) WLK_ABI */
  bool started;                  /* (m) whether the fields below are set up */
  struct wlk_mutex mutex;        /* the mutex */
  struct wlk_condition unpinned; /* (m) broadcast when a terminating agent lost its last pin */
  uint64_t hash_key[2];          /* (m) written once, before the first agent or manager; then (c) */
  uint32_t agents_created;       /* (m) */
  struct wlk_link agents;        /* (m) of struct wlk_agent.by_process */
  size_t agent_count;            /* (m) of `agents` */
  struct wlk_link to_wake;       /* (m) of struct wlk_agent.by_wake: have an event, to be woken */
  struct wlk_link unfit;         /* (m) of struct wlk_table.by_unfit: tables to be resized */
  struct wlk_table managers;     /* (m) of struct wlk_manager.entry, by bucket name */
  uint64_t searches;             /* (m) for deadlocks, so far; see struct wlk_declaration */
  uint64_t declared;             /* (m) requests that were pending and declared, so far */
  uint64_t grants; /* (m) so far: the token of the last lock. Of the process and not of
                                    each manager: those go when nobody has them open */
};

#define WLK_MAGIC "web-locks core"
#define WLK_PROCESS_INIT                                                                           \
  {                                                                                                \
    .magic = WLK_MAGIC, .abi = WLK_ABI, .mutex = WLK_MUTEX_INIT, .unpinned = WLK_CONDITION_INIT    \
  }

/* One public call, on its thread's stack. */
struct wlk_turn {
  struct wlk_process *process;
  struct wlk_agent *caller;    /* whose thread this is; NULL if none. Its events need no wake */
  struct wlk_link *requests;   /* unlinked requests, by `by_agent.next`: the turn's to free */
  struct wlk_entry *resources; /* unlinked resources, by `next`: the turn's to free */
};

/* Sets up what a static initialiser cannot, once. Returns WLK_OK, WLK_NO_RANDOM. */
enum wlk_status wlk_process_start(struct wlk_process *process) WLK_EXCLUDES(process->mutex);

/* Takes the mutex. */
void wlk_turn_begin(struct wlk_turn *turn, struct wlk_process *process, struct wlk_agent *caller)
    WLK_ACQUIRES(turn->process->mutex);

/* Inserts into, removes from a table, and notes if it then wants to be resized. */
void wlk_turn_insert(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(turn->process->mutex);
void wlk_turn_remove(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(turn->process->mutex);

/* Wakes whom there is to wake, gives the mutex back, frees what the turn unlinked, resizes the
 * tables that want it. */
void wlk_turn_end(struct wlk_turn *turn) WLK_RELEASES(turn->process->mutex);

#endif
