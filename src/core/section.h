/* The critical section: the part of a public call from taking the mutex of a shard until every
 * agent is notified. It corresponds to a task on the specification's lock task queue: for each
 * name, at most one runs at a time.
 *
 * Locking. A shard's mutex guards the names that hash to it. `process->mutex` guards the data that
 * belongs to no name (managers, agents, declarations), and an agent's mutex its events. They must
 * be taken in this order. A section takes the mutex of one shard, or of all shards in their order.
 * A snapshot or a search for deadlocks must see several names at one moment, so it takes the
 * mutexes of all shards and of the process. Under a mutex the core only changes and follows
 * pointers; weblocks.h says how many (for a resize, as many as the table has entries). It allocates
 * and frees nothing, calls no wake function and, unless it signals a thread that blocks in
 * wlk_wait_for_the_lock, makes no system call. A thread needs no mutex for the requests and the
 * memory of its own agent.
 *
 * Waking. A section that posts an event to another agent pins it, under the agent's mutex, unless a
 * wake-up is under way. At its end, without a mutex, the section wakes and unpins the agent. A
 * termination waits until its agent has no pins, so the agent, and everything that its wake
 * function uses, outlive every wake-up.
 *
 * Resizing. At its end the section resizes a table that it left in the wrong size. It allocates
 * without the mutex, so it checks the size again after taking the mutex.
 *
 * Freeing. Requests and resources that a section unlinks belong to it, because no other thread can
 * reach them. It frees them after unlocking. */
#ifndef WLK_SECTION_H
#define WLK_SECTION_H

#include "records.h"

struct wlk_section {
  struct wlk_process *process;
  struct wlk_shard *shard;
  struct wlk_agent *caller;        /* the agent of this thread, which needs no wake-up */
  bool whole;                      /* whether it has the mutexes of all shards and of the process */
  struct wlk_link granted;         /* the caller's requests that were granted, by `by_event` */
  struct wlk_agent *to_wake;       /* agents that it has pinned, by `next_wake` */
  struct wlk_agent **last_to_wake; /* the end of that chain */
  struct wlk_link *requests;       /* unlinked requests to free, by `by_agent.next` */
  struct wlk_entry *resources;     /* unlinked resources to free, by `next` */
  struct wlk_table *unfit;         /* a table of the shard to resize, or NULL */
};

void wlk_enter(struct wlk_section *section, struct wlk_agent *caller, uint8_t shard)
    WLK_ACQUIRES(section->shard->mutex);

/* Takes the mutexes of all shards and of the process. */
void wlk_enter_whole(struct wlk_section *section, struct wlk_agent *caller, uint8_t shard)
    WLK_ACQUIRES(section->shard->mutex);

/* For clang's analysis: the section has all mutexes. */
void wlk_section_assert_whole(const struct wlk_section *section)
    WLK_ASSERTS(section->process->mutex);

/* These do nothing if the section has all mutexes. */
void wlk_section_lock_process(struct wlk_section *section) WLK_ACQUIRES(section->process->mutex);
void wlk_section_unlock_process(struct wlk_section *section) WLK_RELEASES(section->process->mutex);

/* wlk_leave resizes the table afterwards if necessary. */
void wlk_section_insert(
    struct wlk_section *section, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(section->shard->mutex);
void wlk_section_remove(
    struct wlk_section *section, struct wlk_table *table, struct wlk_entry *entry)
    WLK_REQUIRES(section->shard->mutex);

/* The caller's agent receives the event from its call, other agents after a wake-up. */
void wlk_section_post_event(
    struct wlk_section *section, struct wlk_request *request, enum wlk_news news)
    WLK_REQUIRES(section->shard->mutex);

/* The request must be the caller's, in no queue and not held; the section frees it at its end. If
 * it has an event that was not taken, the caller must have the mutex of its shard. */
void wlk_section_end_request(struct wlk_section *section, struct wlk_request *request);

/* Takes the events of the caller's agent, and ends the stolen requests among them. */
void wlk_section_take_events(struct wlk_section *section, struct wlk_events *events)
    WLK_REQUIRES(section->shard->mutex);

/* Leaves the events of the calling agent in its queue. If there are any, wakes the agent. */
void wlk_section_leave_events(struct wlk_section *section) WLK_REQUIRES(section->shard->mutex);

/* Unlocks, wakes the pinned agents, frees the unlinked requests and resources, and resizes a table
 * if necessary. */
void wlk_leave(struct wlk_section *section) WLK_RELEASES(section->shard->mutex);

/* These take and release the mutexes of all shards and of the process. */
void wlk_lock_everything(struct wlk_process *process) WLK_ACQUIRES(process->mutex);
void wlk_unlock_everything(struct wlk_process *process) WLK_RELEASES(process->mutex);

/* Resizes a table if it needs another size and memory is available. `mutex` guards the table, which
 * must exist until this returns. */
void wlk_table_resize(struct wlk_table *table, struct wlk_mutex *mutex) WLK_EXCLUDES(*mutex);

#endif
