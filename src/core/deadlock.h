/* Deadlocks among requests that declare what waits for them (`reject_deadlock` in weblocks.h).
 *
 * Only declared requests are part of it, while they are pending and as locks: any other may go away
 * without being granted, and what a lock waits for that never declared is not known. The wait-for
 * graph:
 *
 * - A pending declared request waits for a lock held on its resource if the two cannot be held
 *   together (one is exclusive, or their weights exceed the limit), or if that is so for a declared
 *   request ahead of it in the queue. So a shared request without a weight waits for shared locks
 *   only behind a declared exclusive one: those of the queue that did not declare may be gone when
 *   it is its turn.
 * - A new request with a weight waits for the locks of its resource that it was made inside of, if
 *   all of them together leave it no room.
 * - A lock waits for every pending declared request that was made inside it.
 *
 * With a limit, then, a request waits for each lock without whose end it cannot be granted. Where
 * any one of several locks could make room, it waits for none of them: that all of them wait for
 * each other (two hold one of two units each, and each wants one more) is not found. What is found
 * is a deadlock.
 *
 * What waits can only go on when all that it waits for has come to an end, so each cycle is a
 * deadlock. Only a new pending request adds a way out of a lock that others wait for already: what
 * a pending request waits for later and not from its beginning is a lock that is granted after it
 * was made, and that has no requests inside it yet. So looking for a cycle through each new request
 * finds all.
 *
 * What it costs. A lock knows the requests inside it, a request the locks it is inside of: each end
 * of such a pair is found and undone in O(1), so a lock's end costs O(requests inside it), a
 * request's O(locks it was made inside of). The search visits each request and each lock it reaches
 * once, over O(1) each of the ways that lead there, which is O(locks held) for each request that is
 * reached; where there is a limit, the declared requests ahead of it come in addition. Requests
 * that declare nothing pay nothing. */
#ifndef WLK_DEADLOCK_H
#define WLK_DEADLOCK_H

#include "agent.h"

/* That a declared request was made inside of a declared lock.
 *
 * Lock key: (m) process->mutex  (c) constant */
struct wlk_nesting {
  struct wlk_link by_lock;       /* (m) in outer->inner while that is held and the request pends */
  struct wlk_declaration *inner; /* (c) the request */
  struct wlk_declaration *outer; /* (c) the lock; void once the request is not pending any more, or
                                    `by_lock` is alone */
};

/* What a request carries beyond its record, in one block with the label's code units behind.
 *
 * Lock key: (m) process->mutex  (c) constant */
struct wlk_declaration {
  struct wlk_request *request; /* (c) */
  bool declares;               /* (c) */
  bool pending;                /* (m) whether it declares and is pending */
  uint32_t label_length;       /* (c) code units; 0 for none */
  uint64_t order;              /* (m) while pending: smaller is ahead in the queue */
  struct wlk_link by_writer;   /* (m) while pending, if exclusive or with a weight: a ring of its
                                  like on its resource, in the queue's order, see
                                  resource->writer */
  struct wlk_link inner;       /* (m) of struct wlk_nesting.by_lock: what is pending inside it */

  /* During a search. */
  uint64_t search;                 /* (m) the last one that found it, pending or held */
  uint64_t goal;                   /* (m) the last one that looked for a way to it */
  struct wlk_declaration *found;   /* (m) pending: found next after this one */
  struct wlk_declaration *waiting; /* (m) pending: whose way led here */
  struct wlk_request *through;     /* (m) pending: the lock that way went through */

  uint32_t nesting_count;       /* (c) */
  struct wlk_nesting nesting[]; /* each as it says */
};

/* Makes the declaration of a request. Returns NULL when out of memory. Threads: any, no mutex. */
struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra);

/* The code units in the label of a request; 0 if it has none. */
uint32_t wlk_label_length(const struct wlk_request *request);

/* The code units of the label. */
const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration);

/* Notes that a request, which may have a declaration, is pending: the last of its queue.
 *   cost O(locks it was made inside of) */
void wlk_declare(struct wlk_process *process, struct wlk_request *request)
    WLK_REQUIRES(process->mutex);

/* Notes that a request, if it is declared, is pending no more. Its resource is still known.
 *   cost O(locks it was made inside of) */
void wlk_withdraw_declaration(struct wlk_request *request);

/* Notes, for the requests inside of it, that a lock has ended.
 *   cost O(those requests) */
void wlk_forget_lock(struct wlk_request *lock);

/* Looks for a cycle that `asker`, whose request has its resource but is in no list yet, would close
 * by waiting. Returns the last request of the cycle, from which `waiting` leads back to `asker`,
 * and in `*last` the lock that this one waits for and that the asker was made inside of; NULL if
 * there is no cycle. Cost: above. */
struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
    WLK_REQUIRES(process->mutex);

#endif
