#include "section.h"

#include "../segment/arena.h"
#include "../segment/members.h"
#include "../segment/rebuild.h"
#include "events.h"
#include "mailbox.h"
#include "wake_up.h"

enum {
  TRIES = 48,  /* how many times an event loop tries, each with a pause */
  BURST = 64,  /* how many times the helper tries at the beginning of each round */
  ROUNDS = 20, /* after this many rounds the helper sleeps longer */
  /* how many deferred operations an event loop does, at most, before its own */
  DEFERRED_AT_ONCE = WLK_CAPACITY(256, 1)
};

#define SHORT_SLEEP  UINT64_C(50000)
#define LONG_SLEEP   UINT64_C(5000000)
#define LEAVE_WITHIN UINT64_C(2000000)

static void pause_processor(void)
{
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__) || defined(__arm__)
  __asm__ volatile("yield");
#endif
}

/* If the word is `from`, replaces it by ours, which takes the mutex, and returns true. */
static bool swap_word(struct wlh_bucket *bucket, uint64_t from)
{
  return atomic_compare_exchange_strong_explicit(
      &bucket->arena.segment->header.word, &from, bucket->me, memory_order_acquire,
      memory_order_relaxed);
}

/* Tries to take the tables' mutex, with a pause after each attempt. */
static bool try_word(struct wlh_bucket *bucket, int tries)
{
  _Atomic uint64_t *word = &bucket->arena.segment->header.word;
  for (int i = 0; i < tries; i++) {
    if (atomic_load_explicit(word, memory_order_relaxed) == 0 && swap_word(bucket, 0)) return true;
    pause_processor();
  }
  return false;
}

/* `word` is 0, or the word of a dead owner, which is restored. */
static void leave_word(struct wlh_bucket *bucket, uint64_t word)
{
  atomic_store_explicit(&bucket->arena.segment->header.word, word, memory_order_release);
}

int wlh_extend_tables(struct wlh_bucket *bucket)
{
  int error;
  wlh_hide_tables(bucket);
  uint64_t bytes = wlh_port_extend_map(&bucket->port, &error);
  /* After a failure, what was readable before still is. */
  if (error == 0 || bytes > bucket->arena.bytes) bucket->arena.bytes = bytes;
  bucket->arena.segment = bucket->port.map;
  wlh_show_tables(bucket);
  return error;
}

/* Returns false if the file is lost. */
static bool begin_section(struct wlh_bucket *bucket)
{
  static const char unmapped[] = "has grown, and the system cannot map all of it into this process";
  uint64_t now = wlk_port_now(false);
  int error = 0;
  enum wlh_cells_status status = wlh_cells_begin(&bucket->arena, now);
  if (status == WLH_CELLS_GREW) {
    error = wlh_extend_tables(bucket);
    status = wlh_cells_begin(&bucket->arena, now);
  }
  if (status == WLH_CELLS_GREW) wlh_set_lost(bucket, error ? unmapped : "was truncated");
  return !wlh_note_loss(bucket, status);
}

/* An owner with our own number, or with an impossible one, counts as dead. */
static bool is_owner_dead(struct wlh_bucket *bucket, uint64_t owner)
{
  uint64_t member = (owner & 0xffff) - 1;
  if (member >= WLH_MEMBERS || member == bucket->arena.member) return true;
  return !wlh_port_is_alive(&bucket->port, (uint32_t)member);
}

static uint64_t sleep_of_round(unsigned round)
{
  uint64_t sleep = SHORT_SLEEP;
  for (unsigned i = ROUNDS; i < round && sleep < LONG_SLEEP; i++) sleep *= 2;
  return sleep < LONG_SLEEP ? sleep : LONG_SLEEP;
}

/* Sets `*dead` to the word of the dead owner from whom the mutex was taken over, or to 0. */
static enum wlh_way wait_for_word(struct wlh_bucket *bucket, uint64_t *dead)
{
  uint64_t stop_at = 0;
  *dead = 0;
  for (unsigned round = 0;; round++) {
    if (wlh_is_lost(bucket)) return WLH_TORN;
    if (try_word(bucket, BURST)) return WLH_IN;
    uint64_t owner = atomic_load(&bucket->arena.segment->header.word);
    if (owner != 0 && is_owner_dead(bucket, owner) && swap_word(bucket, owner)) {
      *dead = owner;
      return WLH_IN;
    }
    if (wlh_is_stopping(bucket)) {
      uint64_t now = wlh_port_time();
      if (stop_at == 0) stop_at = now + LEAVE_WITHIN;
      if (now >= stop_at) return WLH_SHUT;
    }
    const char *harm = round > ROUNDS ? wlh_port_find_harm(&bucket->port, 0) : NULL;
    if (harm) wlh_set_lost(bucket, harm);
    wlh_port_sleep(sleep_of_round(round));
  }
}

enum wlh_way wlh_enter(struct wlh_bucket *bucket)
{
  uint64_t dead;
  enum wlh_way way = wait_for_word(bucket, &dead);
  if (way != WLH_IN) return way;
  bool good = begin_section(bucket);
  if (good && dead != 0) good = !wlh_note_loss(bucket, wlh_cells_rebuild(&bucket->arena));
  if (good) return WLH_IN;
  /* The tables may be lost only to us. So if the mutex was a dead owner's, the dead owner's word is
   * restored: the next process takes the mutex over, and rebuilds what the dead owner left half
   * changed. */
  leave_word(bucket, dead);
  return WLH_TORN;
}

bool wlh_try_enter(struct wlh_bucket *bucket, struct wlh_agent *caller) WLK_UNCHECKED
{
  bool mine = false;
  for (int i = 0; i < TRIES && !mine; i++) {
    mine = wlh_port_try_lock(&bucket->mu);
    if (!mine) pause_processor();
  }
  if (!mine) return false;
  if (!bucket->open || wlh_is_lost(bucket) || !try_word(bucket, TRIES)) {
    wlk_mutex_unlock(&bucket->mu);
    return false;
  }
  bucket->caller = caller;
  bucket->used = true;
  bool done =
      begin_section(bucket) && (__atomic_load_n(&bucket->deferred_count, __ATOMIC_RELAXED) == 0 ||
                                wlh_do_deferred(bucket, DEFERRED_AT_ONCE) == WLH_DONE_ALL);
  if (!done) wlh_leave(bucket);
  return done;
}

/* After we have left, other processes may use the space, so it must be given back inside. */
static void give_back(struct wlh_bucket *bucket)
{
  if (wlh_is_lost(bucket) || !wlh_cells_begin_give_back(&bucket->arena)) return;
  wlh_port_give_back(&bucket->port, wlh_segment_bytes(bucket->arena.ncells));
  wlh_cells_end_give_back(&bucket->arena);
}

/* The caller must have mu. */
static void trim_by_cell(struct wlh_bucket *bucket)
{
  uint32_t ncells = bucket->arena.ncells;
  if (ncells < bucket->by_cell_used) {
    wlh_port_trim_zeros(
        (void *)bucket->by_cell, ncells * sizeof *bucket->by_cell,
        WLH_CELLS_MOST * sizeof *bucket->by_cell);
  }
  bucket->by_cell_used = ncells;
}

void wlh_leave_tables(struct wlh_bucket *bucket)
{
  uint64_t due[WLH_MEMBERS / 64];
  /* If the tables are lost to us, the mailbox may belong to the next member with our number. */
  if (!wlh_is_lost(bucket)) wlh_mailbox_drain(bucket);
  uint32_t own = bucket->arena.member;
  bool look = (bucket->arena.to_notify[own / 64] >> (own % 64)) & 1;
  (void)wlh_note_loss(bucket, bucket->arena.poisoned ? WLH_CELLS_POISONED : WLH_CELLS_OK);
  /* A member that joins wakes only the members that wait by then. If we have begun to wait since,
   * the helper must look for new members. */
  bool seen = bucket->watching && bucket->joins == bucket->arena.segment->header.joins;
  bool watch = (look || !seen) && wlh_cells_pending_count(&bucket->arena) > 0;
  bool any = wlh_wake_up_mark(bucket, due);
  /* The victims of a theft do not watch the thief. If this process died after leaving, they might
   * stay unaware of the theft for long, so they are woken before it leaves. */
  if (any && bucket->stealing) wlh_wake_up_send(bucket, due);
  bucket->stealing = false;
  give_back(bucket);
  leave_word(bucket, 0);
  trim_by_cell(bucket);
  if (any) wlh_wake_up_send(bucket, due);
  if (watch || !bucket->is_checked) wlh_wake_helper(bucket);
  bucket->caller = NULL;
}

void wlh_leave(struct wlh_bucket *bucket)
{
  struct wlh_agent *caller = bucket->caller;
  wlh_leave_tables(bucket);
  if (caller) {
    wlk_mutex_lock(&bucket->qmu);
    wlh_wake_caller(bucket, caller);
    wlk_mutex_unlock(&bucket->qmu);
  }
  wlh_unlock_bucket(bucket, true);
}

void wlh_unlock_bucket(struct wlh_bucket *bucket, bool wakes) WLK_UNCHECKED
{
  wlh_empty_trash(bucket);
  if (wlh_is_lost(bucket)) wlh_wake_helper(bucket);
  wlk_mutex_unlock(&bucket->mu);
  if (wakes) wlh_wake_agents(bucket);
}
