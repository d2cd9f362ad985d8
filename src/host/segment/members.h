/* Members, with their agents and their mail. */
#ifndef WLH_MEMBERS_H
#define WLH_MEMBERS_H

#include "cells.h"

/* Joins with the arena's own number, whose byte lock the caller must hold. Removes dead members,
 * and puts the waiting members into `to_notify`, because they must watch the new member.
 *   id       random, not 0; for client ids
 *   version  of the package, ASCII, truncated to 15 bytes */
enum wlh_cells_status wlh_cells_join(
    struct wlh_arena *arena, uint64_t id, uint32_t pid, const char *version);

/* Removes the arena's own member with its requests and agents, as if it had died, and rebuilds. */
enum wlh_cells_status wlh_cells_drop_member(struct wlh_arena *arena);

/* Leaves, and rebuilds if the segment can shrink. All agents must have been terminated. */
enum wlh_cells_status wlh_cells_leave(struct wlh_arena *arena);

/* Returns how many of our requests wait. While requests wait, we must watch all members. */
uint32_t wlh_cells_pending_count(const struct wlh_arena *arena);

/* `thread` is the same for all agents of a thread, and `number` grows with each agent of the
 * process. The thread's name is copied, and truncated to WLH_THREAD_NAME_UNITS. Returns
 * WLH_CELLS_OK, FULL, LOST, POISONED. */
enum wlh_cells_status wlh_cells_add_agent(
    struct wlh_arena *arena, uint32_t thread, uint32_t number, const uint16_t *name, uint32_t units,
    uint32_t *agent);

/* Terminates an agent of ours with its locks, requests and mail. Returns WLH_CELLS_OK, LOST,
 * POISONED. Section 2.6: https://www.w3.org/TR/2023/WD-web-locks-20230105/#termination-of-locks */
enum wlh_cells_status wlh_cells_terminate_agent(struct wlh_arena *arena, uint32_t agent);

/* This function may be called outside, see wlh_cells_has_member. */
bool wlh_cells_has_agent(const struct wlh_arena *arena, uint32_t agent);

enum {
  WLH_REPORTED_GRANTED = 1,
  WLH_REPORTED_STOLEN = 2,
  WLH_REPORTED_PASSED = 4
}; /* the values of enum wlk_news */

struct wlh_message {
  uint64_t cookie;
  uint64_t token;         /* if granted */
  struct wlh_thief thief; /* if stolen */
  uint32_t request;
  uint32_t agent; /* `number` of wlh_cells_add_agent */
  uint32_t news;  /* WLH_REPORTED_ bits; with STOLEN or PASSED the request has ended */
  bool marked;    /* if granted, and not stolen since: whether the name is marked */
};

/* Takes our mail, oldest first. Returns the number of messages; if it is `capacity`, call again. */
uint32_t wlh_cells_take_messages(
    struct wlh_arena *arena, struct wlh_message *messages, uint32_t capacity);

#endif
