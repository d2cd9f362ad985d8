/* Deadlocks among requests that declare what waits for them (`reject_deadlock` in weblocks.h).
 *
 * The wait-for graph: a pending request waits for every lock held on its resource, since the queue
 * is served in order; a lock waits for every pending declared request that was made inside it. All
 * of them have to come to an end for the one that waits to go on, so each cycle is a deadlock. Only
 * a new pending request adds a way out of a lock that others wait for already: a lock that is
 * granted has no requests inside it yet. So looking for a cycle through each new request finds all.
 *
 * What requests that declare nothing pay for it: a look at an empty list when they end. */
#ifndef WLK_DEADLOCK_H
#define WLK_DEADLOCK_H

#include "agent.h"

/* What a request carries beyond its record, in one block with the label's code units behind.
 *
 * Lock key: (m) process->mutex  (c) constant */
struct wlk_declaration {
  struct wlk_request *request;     /* (c) */
  struct wlk_link by_agent;        /* (m) in agent->declared while it declares and is pending */
  struct wlk_declaration *found;   /* (m) during a search: found next after this one */
  struct wlk_declaration *waiting; /* (m) during a search: whose way led here */
  struct wlk_request *through;     /* (m) during a search: the lock that way went through */
  uint64_t search;                 /* (m) the last search that found it */
  uint32_t label_length;           /* (c) code units; 0 for none */
  uint32_t inside_count;           /* (c) */
  bool declares;                   /* (c) */
  struct wlk_request *inside[];    /* (m) locks it was made inside of; NULL where one has ended */
};

/* Makes the declaration of a request. Returns NULL when out of memory. Threads: any, no mutex. */
struct wlk_declaration *wlk_declaration_new(
    struct wlk_request *request, const struct wlk_extra *extra);

/* The code units in the label of a request; 0 if it has none. */
uint32_t wlk_label_length(const struct wlk_request *request);

/* The code units of the label. */
const uint16_t *wlk_declaration_label(const struct wlk_declaration *declaration);

/* Looks for a cycle that `asker`, whose request has its resource but is in no list yet, would close
 * by waiting. Returns the last request of the cycle, from which `waiting` leads back to `asker`,
 * and in `*last` the lock that this one waits for and that the asker was made inside of; NULL if
 * there is no cycle. cost O(pending declared requests of the agents involved, for each lock that is
 * reached) */
struct wlk_declaration *wlk_find_deadlock(
    struct wlk_process *process, struct wlk_declaration *asker, struct wlk_request **last)
    WLK_REQUIRES(process->mutex);

/* Takes the declaration of a request, if it has one, out of its agent's list: it pends no more. */
void wlk_withdraw_declaration(struct wlk_request *request);

/* Forgets a lock that ends in all declarations. */
void wlk_forget_lock(struct wlk_request *lock);

#endif
