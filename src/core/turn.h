/* The turn: what a public call does between taking the mutex of a shard and having told everybody.
 * It is the specification's task on the lock task queue: of one name there is one at a time.
 *
 * Locking. All names that hash to a shard are guarded by its mutex; `process->mutex` guards what
 * has no name: managers, agents, declarations; an agent's mutex guards its events. They are taken
 * in this order, of shards only one, or all in theirs. Each is held for a bounded number of pointer
 * operations (a snapshot or a resize: in proportion to the manager's requests; a search for
 * deadlocks: to the declared requests); no memory is allocated or freed, no system call made and no
 * wake function called under one. The one exception: a thread that blocks in wlk_wait_for_the_lock
 * is signalled under one.
 *
 * What is a thread's own needs no mutex: the list of its agent's requests, the memory that it has.
 *
 * Turns with everything. Who has to see several names at one moment (a snapshot, a search for
 * deadlocks, what is told of one) takes the mutexes of all shards and that of the process.
 *
 * Waking. A turn that tells another agent of something pins it, under the agent's mutex, unless
 * somebody is about to wake it. At its end, without a mutex, it wakes those it pinned, and unpins
 * them. A termination waits until its agent has no pins, so an agent's memory and whatever its wake
 * function uses outlive every wake. The waker needs nothing that the terminating thread holds, so
 * this wait ends.
 *
 * Resizing. A table that a turn left in the wrong size is resized at its end. The memory is made
 * without the mutex, so all is looked at again when it is taken.
 *
 * Freeing. What a turn unlinks (requests, resources) belongs to that turn: nobody else can reach
 * it. The turn frees it after unlocking. */
#ifndef WLK_TURN_H
#define WLK_TURN_H

#include "records.h"

/* One public call, on its thread's stack. */
struct wlk_turn {
  struct wlk_process *process;
  struct wlk_shard *shard;
  struct wlk_agent *caller;  /* whose thread this is. Its events need no wake */
  bool whole;                /* whether it has the mutexes of all shards and of the process */
  struct wlk_link granted;   /* of by_event: requests of the caller that the turn granted */
  struct wlk_agent *to_wake; /* pinned, by `next_wake`: the turn's to wake, first told first */
  struct wlk_agent **last_to_wake; /* where the next one goes */
  struct wlk_link *requests;       /* unlinked requests, by `by_agent.next`: the turn's to free */
  struct wlk_entry *resources;     /* unlinked resources, by `next`: the turn's to free */
  struct wlk_table *unfit;         /* the table of the shard that wants another size; or NULL */
};

/* Takes the mutex of a shard, by its number. */
void wlk_turn_begin(struct wlk_turn *turn, struct wlk_agent *caller, uint8_t shard)
    WLK_ACQUIRES(turn->shard->mutex);

/* The same for a turn with everything. */
void wlk_turn_begin_whole(struct wlk_turn *turn, struct wlk_agent *caller, uint8_t shard)
    WLK_ACQUIRES(turn->shard->mutex);

/* Says that a turn has everything. */
void wlk_turn_is_whole(const struct wlk_turn *turn) WLK_ASSERTS(turn->process->mutex);

/* Takes the process's mutex in addition, and gives it back; nothing if the turn has it. */
void wlk_turn_lock_process(struct wlk_turn *turn) WLK_ACQUIRES(turn->process->mutex);
void wlk_turn_unlock_process(struct wlk_turn *turn) WLK_RELEASES(turn->process->mutex);

/* Inserts into, removes from the shard's table of resources, and notes if it then wants to be
 * resized. */
void wlk_turn_insert(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(turn->shard->mutex);
void wlk_turn_remove(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(turn->shard->mutex);

/* Tells a request's agent of news: the caller at the end of its turn, others by waking them. */
void wlk_turn_post_event(struct wlk_turn *turn, struct wlk_request *request, enum wlk_news news)
    WLK_REQUIRES(turn->shard->mutex);

/* Takes a request of the caller that is in no queue and not held off it; the turn will free it.
 * With the mutex of its shard, unless it was stolen and told so. */
void wlk_turn_end_request(struct wlk_turn *turn, struct wlk_request *request);

/* Moves events of the calling agent to `events`; a request whose event says that it was stolen ends
 * with it. */
void wlk_turn_take_events(struct wlk_turn *turn, struct wlk_events *events)
    WLK_REQUIRES(turn->shard->mutex);

/* Leaves the events of the calling agent to be taken later, and sees to it that it is woken. */
void wlk_turn_leave_events(struct wlk_turn *turn) WLK_REQUIRES(turn->shard->mutex);

/* Gives the mutex back, wakes whom there is to wake, frees what the turn unlinked, resizes the
 * table that wants it. */
void wlk_turn_end(struct wlk_turn *turn) WLK_RELEASES(turn->shard->mutex);

/* Takes, and gives back, the mutexes of all shards and of the process. */
void wlk_lock_everything(struct wlk_process *process) WLK_ACQUIRES(process->mutex);
void wlk_unlock_everything(struct wlk_process *process) WLK_RELEASES(process->mutex);

/* Gives a table the size it wants, if there is memory; if not it stays slower, nothing worse.
 *   mutex   guards the table, which exists until this returns */
void wlk_table_fit(struct wlk_table *table, struct wlk_mutex *mutex) WLK_EXCLUDES(*mutex);

#endif
