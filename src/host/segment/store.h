/* How a segment is read and written. Every store must use these functions, so that a test can stop
 * at each store (WLH_STEPS). Another process can overwrite the file at any time, so a read may
 * return any value, and a different one the next time. Therefore:
 *
 * - An index is masked by the private `ncells` where it is used. Index 0 means none, and the kind
 *   of cell 0 is never written.
 * - A size is read once, by wlh_read_length, which rejects an impossible size.
 * - A loop along a chain asks wlh_advance before each step, which counts the steps. Other loops
 *   count to the private `ncells`, to a constant, or to a size from wlh_read_length. */
#ifndef WLH_STORE_H
#define WLH_STORE_H

#include "cells.h"

#if defined(WLH_STEPS)
void wlh_step(volatile void *place, size_t size);
void wlh_step_commit(void);
#define WLH_STEP(place)   wlh_step(&(place), sizeof(place))
#define WLH_STEP_COMMIT() wlh_step_commit()
#else
#define WLH_STEP(place)   ((void)0)
#define WLH_STEP_COMMIT() ((void)0)
#endif

/* Tests change the segment here: before each access to a cell, and after each read of a number. */
#if defined(WLH_LOOKS)
void wlh_look(const void *place, size_t size);
#define WLH_LOOK(place) wlh_look(&(place), sizeof(place))
#else
#define WLH_LOOK(place) ((void)0)
#endif

/* Stores between two commits may become visible in any order. */
#define WLH_PUT(place, value) (WLH_STEP(place), (void)((place) = (value)))

/* Stores a 32-bit word after all earlier stores and before all later ones. A dead process has
 * executed a prefix of its instructions, and all their stores are visible to living processes, so
 * only the compiler needs a fence. */
static inline void wlh_commit(uint32_t *place, uint32_t value)
{
  WLH_STEP(*place);
  atomic_signal_fence(memory_order_seq_cst);
  *(volatile uint32_t *)place = value;
  atomic_signal_fence(memory_order_seq_cst);
  WLH_STEP_COMMIT();
}

/* Works as wlh_commit does, but with a 64-bit word, in a single store on every machine. */
static inline void wlh_commit_wide(uint64_t *place, uint64_t value)
{
  WLH_STEP(*place);
  atomic_signal_fence(memory_order_seq_cst);
  __atomic_store_n(place, value, __ATOMIC_RELAXED);
  atomic_signal_fence(memory_order_seq_cst);
  WLH_STEP_COMMIT();
}

/* Raises a counter of the header in a single store on every machine, before all later stores. */
static inline void wlh_raise_count(uint64_t *count, uint64_t value)
{
  WLH_STEP(*count);
  __atomic_store_n(count, value, __ATOMIC_RELAXED);
  atomic_signal_fence(memory_order_seq_cst);
  WLH_STEP_COMMIT();
}

/* Records damage. To a reader outside, half of a change can look like damage, so for it only its
 * own view counts as damaged. */
static inline void wlh_note_damage(struct wlh_arena *arena)
{
  arena->poisoned = true;
  if (!arena->outside) atomic_store(&arena->segment->header.poisoned, 1);
}

static inline struct wlh_header *wlh_header_of(const struct wlh_arena *arena)
{
  return &arena->segment->header;
}

static inline struct wlh_member *wlh_member_at(const struct wlh_arena *arena, uint32_t member)
{
  return &arena->segment->members[member & (WLH_MEMBERS - 1)];
}

static inline union wlh_cell *wlh_cell_at(const struct wlh_arena *arena, uint32_t cell)
{
  union wlh_cell *place = &arena->segment->cells[cell & (arena->ncells - 1)];
  WLH_LOOK(*place);
  return place;
}

static inline uint32_t wlh_kind_of(const struct wlh_arena *arena, uint32_t cell)
{
  return wlh_cell_at(arena, cell)->kind;
}

static inline struct wlh_request_cell *wlh_request_at(const struct wlh_arena *arena, uint32_t cell)
{
  return &wlh_cell_at(arena, cell)->request;
}

static inline struct wlh_resource_cell *wlh_resource_at(
    const struct wlh_arena *arena, uint32_t cell)
{
  return &wlh_cell_at(arena, cell)->resource;
}

static inline struct wlh_agent_cell *wlh_agent_at(const struct wlh_arena *arena, uint32_t cell)
{
  return &wlh_cell_at(arena, cell)->agent;
}

static inline uint32_t *wlh_bucket_at(const struct wlh_arena *arena, uint32_t hash)
{
  uint32_t *heads = (uint32_t *)(void *)&arena->segment->cells[arena->ncells];
  return &heads[hash & (arena->ncells - 1)];
}

static inline bool wlh_is_held(uint32_t kind)
{
  return kind == WLH_KIND_HELD || kind == WLH_KIND_NEWS_HELD;
}

static inline bool wlh_is_news(uint32_t kind)
{
  return kind == WLH_KIND_NEWS_HELD || kind == WLH_KIND_NEWS_BROKEN;
}

static inline bool wlh_is_request(uint32_t kind)
{
  return kind >= WLH_KIND_PENDING && kind <= WLH_KIND_NEWS_BROKEN;
}

/* Notes damage for cell 0, whose kind is never written. */
static inline void wlh_commit_kind(struct wlh_arena *arena, uint32_t cell, enum wlh_kind kind)
{
  if ((cell & (arena->ncells - 1)) == 0)
    wlh_note_damage(arena);
  else
    wlh_commit(&wlh_cell_at(arena, cell)->kind, kind);
}

/* Returns whether `cell` is in the segment and of `kind`. If not, notes damage. */
static inline bool wlh_expect(struct wlh_arena *arena, uint32_t cell, enum wlh_kind kind)
{
  bool is = cell > 0 && cell < arena->ncells && wlh_kind_of(arena, cell) == kind;
  if (!is) wlh_note_damage(arena);
  return is;
}

/* Works as wlh_expect does, for any kind of request. */
static inline bool wlh_expect_request(struct wlh_arena *arena, uint32_t cell)
{
  bool is = cell > 0 && cell < arena->ncells && wlh_is_request(wlh_kind_of(arena, cell));
  if (!is) wlh_note_damage(arena);
  return is;
}

/* Reads a number exactly once, because other processes may change it. */
static inline uint32_t wlh_read(const uint32_t *place)
{
  uint32_t number = *(const volatile uint32_t *)place;
  WLH_LOOK(*place);
  return number;
}

/* If the length exceeds `most`, notes damage and returns 0. */
static inline uint32_t wlh_read_length(
    struct wlh_arena *arena, const uint32_t *place, uint32_t most)
{
  uint32_t units = wlh_read(place);
  if (units <= most) return units;
  wlh_note_damage(arena);
  return 0;
}

/* Returns whether a walk along a chain goes on at `cell`. The walk ends at cell 0 and after damage;
 * more steps than cells are damage. The caller must set `*steps` to 0 before the first step. */
static inline bool wlh_advance(struct wlh_arena *arena, uint32_t cell, uint32_t *steps)
{
  if (cell == 0 || arena->poisoned) return false;
  if ((*steps)++ < arena->ncells) return true;
  wlh_note_damage(arena);
  return false;
}

static inline bool wlh_is_alive(const struct wlh_arena *arena, uint32_t member)
{
  return member == arena->member || arena->alive(arena->data, member);
}

static inline enum wlh_cells_status wlh_status_or_poisoned(
    const struct wlh_arena *arena, enum wlh_cells_status status)
{
  return arena->poisoned ? WLH_CELLS_POISONED : status;
}

/* Returns whether the cell is an agent of ours. */
static inline bool wlh_is_agent(const struct wlh_arena *arena, uint32_t agent)
{
  return agent < arena->ncells && wlh_kind_of(arena, agent) == WLH_KIND_AGENT &&
         wlh_agent_at(arena, agent)->member == arena->member;
}

/* Returns WLH_CELLS_OK, LOST if we have no such agent, or POISONED. */
static inline enum wlh_cells_status wlh_find_agent(const struct wlh_arena *arena, uint32_t agent)
{
  return wlh_status_or_poisoned(arena, wlh_is_agent(arena, agent) ? WLH_CELLS_OK : WLH_CELLS_LOST);
}

#endif
