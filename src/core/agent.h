/* Agents: who requests and holds, and how they are told. Public part in weblocks.h. */
#ifndef WLK_AGENT_H
#define WLK_AGENT_H

#include "process.h"

enum { WLK_CLIENT_ID_SIZE = 64 };

struct wlk_resource;

/* Lock key: (m) process->mutex  (c) constant  (t) the agent's own thread */
struct wlk_agent {
  struct wlk_process *process;        /* (c) */
  char client_id[WLK_CLIENT_ID_SIZE]; /* (c) */
  wlk_wake_function *wake;            /* (c) */
  void *wake_data;                    /* (c) */
  struct wlk_link by_process;         /* (m) in process->agents */
  struct wlk_link by_wake;            /* (m) in process->to_wake, or alone */
  struct wlk_link requests;           /* (m) of by_agent: every request that has not ended */
  struct wlk_link events;             /* (m) of by_event: requests with news, oldest first */
  bool woken;                         /* (m) from entering `to_wake` until it takes its events */
  bool terminating;                   /* (m) */
  uint32_t snapshot_index;            /* (m) of its client id in the snapshot being made */
  uint32_t number;                    /* (c) the end of its client id */
  uint32_t thread_id;                 /* (c) */
  uint32_t thread_name_length;        /* (c) */
  uint16_t thread_name[WLK_THREAD_NAME_MOST]; /* (c) */
  struct wlk_request *awaited;       /* (m) what its thread blocks for; NULL while it does not */
  struct wlk_condition unblocked;    /* (m) signalled when `awaited` got news */
  unsigned pins;                     /* (m) threads inside, or about to call, `wake` */
  struct wlk_resource *spare;        /* (t) made for the next name; NULL, or in no manager */
  struct wlk_request *spare_request; /* (t) made for the next request; NULL, or in no list */
};

struct wlk_request;

/* Sees to it that the agent, which has an event, is woken. */
void wlk_agent_wake(struct wlk_turn *turn, struct wlk_agent *agent)
    WLK_REQUIRES(turn->process->mutex);

/* Adds `news` to what the request's agent will be told, and sees to it that the agent is woken
 * unless it is the caller. */
void wlk_agent_tell(struct wlk_turn *turn, struct wlk_request *request, enum wlk_news news)
    WLK_REQUIRES(turn->process->mutex);

/* Moves events of the calling agent to `events`; a request whose event says that it was stolen ends
 * with it. */
void wlk_turn_take_events(struct wlk_turn *turn, struct wlk_events *events)
    WLK_REQUIRES(turn->process->mutex);

#endif
