/* Resources and requests: the records the manager works on.
 *
 * A resource is what the manager knows of a resource name: the lock request queue (2.5) and the
 * part of the held lock set (2.4) that has that name. It exists only while one of the two is not
 * empty. */
#ifndef WLK_RESOURCE_H
#define WLK_RESOURCE_H

#include "agent.h"
#include "deadlock.h"
#include "manager.h"

/* Lock key: (m) process->mutex  (c) constant while it is in a manager */
struct wlk_resource {
  struct wlk_entry entry;      /* in manager->resources; its name is `name` */
  struct wlk_manager *manager; /* (c) */
  struct wlk_link held;        /* (m) of by_resource: locks; one exclusive, or any number shared */
  struct wlk_link queue;       /* (m) of by_resource: pending requests, first come first */
  struct wlk_declaration *writer; /* (m) of the first request in the queue that is declared and not
                                     held together with just any shared lock (it is exclusive, or
                                     has a weight), from which by_writer leads to the others; NULL
                                     if there is none */
  size_t pending;                 /* (m) requests in `queue` */
  uint32_t limit;                 /* (m) how many units may be held; 0 if there is no limit */
  uint32_t units;                 /* (m) how many are held: the weights of the shared locks */
  bool limit_is_set;              /* (m) whether a shared request has said what the limit is */
  uint32_t capacity;              /* (c) code units that fit into `name` */
  uint16_t name[];                /* (c) */
};

enum wlk_state {
  WLK_STATE_PENDING, /* in resource->queue */
  WLK_STATE_HELD,    /* in resource->held */
  WLK_STATE_STOLEN   /* in neither, until its agent took the event or released */
};

/* Lock key: (m) process->mutex  (c) constant  (t) its agent's own thread */
struct wlk_request {
  struct wlk_link by_resource; /* (m) in the resource's queue or held list, as `state` says */
  struct wlk_link by_agent;    /* (m) in agent->requests; once ended, in the turn's chain */
  struct wlk_link by_event;    /* (m) in agent->events while `news` is not 0, else alone */
  struct wlk_agent *agent;     /* (c) */
  union {
    struct wlk_resource *resource; /* (m) unless stolen */
    struct {
      uint32_t thread, number; /* (m) if stolen: of the agent that stole it */
    } thief;
  };
  struct wlk_declaration *declaration; /* (c) its label, what waits for it; NULL for neither */
  uint64_t since;  /* (m) wlk_port_now() when it was made, then when it was granted */
  uint64_t token;  /* (m) once granted: what process->grants was then */
  uint32_t tag;    /* (c) */
  uint32_t weight; /* (c) units it takes; 0 if it is exclusive or has no limit */
  uint8_t mode;    /* (c) enum wlk_mode */
  uint8_t state;   /* (m) enum wlk_state */
  uint8_t news;    /* (m) bits of enum wlk_news that the agent was not told yet */
  bool blocked;    /* (t) whether its agent's thread has blocked for it */
};

#define WLK_REQUEST_OF(link, member) WLK_ITEM(link, struct wlk_request, member)

/* Puts a name into the agent's spare resource, made or enlarged as needed. The agent keeps it.
 *   returns NULL when out of memory
 *   threads the agent's own; without the mutex */
struct wlk_resource *wlk_resource_prepare(
    struct wlk_agent *agent, const uint16_t *name, uint32_t length);

/* Returns the manager's resource with the name of the caller's spare. If there is none, the spare
 * becomes it, empty. */
struct wlk_resource *wlk_resource_get(struct wlk_turn *turn, struct wlk_manager *manager)
    WLK_REQUIRES(turn->process->mutex);

/* Takes a resource that nobody holds or waits for off its manager; the turn will free it. */
void wlk_resource_drop_if_unused(struct wlk_turn *turn, struct wlk_resource *resource)
    WLK_REQUIRES(turn->process->mutex);

/* Gives the memory of a resource that is in no manager back, or keeps it as the agent's spare. NULL
 * as agent: back. Threads: the agent's own. */
void wlk_resource_recycle(struct wlk_agent *agent, struct wlk_resource *resource);

/* Gives the agent's spare back if it is too long to be kept. Threads: the agent's own. */
void wlk_resource_trim_spare(struct wlk_agent *agent);

/* Makes a pending request that is in no list yet. `extra` may be NULL. Returns NULL when out of
 * memory. Threads: the agent's own, without the mutex. */
struct wlk_request *wlk_request_new(
    struct wlk_agent *agent, enum wlk_mode mode, uint32_t tag, const struct wlk_extra *extra);

/* Gives the memory of a request that is in no list back, or keeps it for the agent's next. NULL as
 * agent: back. Threads: the agent's own. */
void wlk_request_recycle(struct wlk_agent *agent, struct wlk_request *request);

/* Takes a request that is in no queue and not held off its agent; the turn will free it. */
void wlk_request_end(struct wlk_turn *turn, struct wlk_request *request)
    WLK_REQUIRES(turn->process->mutex);

#endif
