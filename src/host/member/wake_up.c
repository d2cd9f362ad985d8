#include "wake_up.h"

enum { QUIET = 0, DUE = 1, SENT = 2, WAKE_UP_STATE = 3 };

/* Does nothing unless the wake-up is quiet. */
static void mark_due(struct wlh_segment *segment, uint32_t member)
{
  uint32_t state = atomic_load_explicit(&segment->members[member].wake_up, memory_order_relaxed);
  if ((state & WAKE_UP_STATE) != QUIET) return;
  atomic_fetch_or_explicit(
      &segment->header.due[member / 64], UINT64_C(1) << (member % 64), memory_order_relaxed);
  uint32_t due = (state & ~(uint32_t)WAKE_UP_STATE) | DUE;
  atomic_store_explicit(&segment->members[member].wake_up, due, memory_order_release);
}

void wlh_wake_up_acknowledge(struct wlh_bucket *bucket)
{
  _Atomic uint32_t *mine = &bucket->arena.segment->members[bucket->arena.member].wake_up;
  uint32_t state = atomic_load_explicit(mine, memory_order_acquire);
  while ((state & WAKE_UP_STATE) != QUIET &&
         !atomic_compare_exchange_weak(mine, &state, ((state >> 2) + 1) << 2)) {
  }
}

bool wlh_wake_up_mark(struct wlh_bucket *bucket, uint64_t *due)
{
  struct wlh_segment *segment = bucket->arena.segment;
  uint64_t any = 0;
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = bucket->arena.to_notify[i]; bits; bits &= bits - 1) {
      uint32_t member = i * 64 + (uint32_t)__builtin_ctzll(bits);
      if (member != bucket->arena.member) mark_due(segment, member);
    }
    bucket->arena.to_notify[i] = 0;
    uint64_t all = atomic_load_explicit(&segment->header.due[i], memory_order_relaxed);
    due[i] = all;
    for (uint64_t bits = all; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      uint32_t state =
          atomic_load_explicit(&segment->members[i * 64 + bit].wake_up, memory_order_acquire);
      if ((state & WAKE_UP_STATE) != DUE || i * 64 + bit == bucket->arena.member) {
        due[i] &= ~(UINT64_C(1) << bit);
      }
    }
    if (due[i] != all) {
      atomic_store_explicit(&segment->header.due[i], due[i], memory_order_relaxed);
    }
    any |= due[i];
  }
  return any != 0;
}

/* Returns false if the wake-up must be sent again. */
static bool send_if_due(struct wlh_bucket *bucket, uint32_t member)
{
  _Atomic uint32_t *theirs = &bucket->arena.segment->members[member].wake_up;
  uint32_t state = atomic_load_explicit(theirs, memory_order_acquire);
  if ((state & WAKE_UP_STATE) != DUE) return true;
  enum wlh_sent sent = wlh_port_send_wake_up(&bucket->port, member);
  if (sent == WLH_NOT_NOW) return false;
  /* If no process has the socket, the wake-up need not be sent again: the member is dead, or will
   * bind a socket again, and then enter anyway. */
  uint32_t sent_state = (state & ~(uint32_t)WAKE_UP_STATE) | SENT;
  (void)atomic_compare_exchange_strong(theirs, &state, sent_state);
  if (sent == WLH_NOBODY) {
    bucket->suspects[member / 64] |= UINT64_C(1) << (member % 64);
    wlh_wake_helper(bucket);
  }
  return true;
}

void wlh_wake_up_send(struct wlh_bucket *bucket, const uint64_t *due)
{
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = due[i]; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      uint64_t unsent = UINT64_C(1) << bit;
      if (send_if_due(bucket, i * 64 + bit) || (bucket->unsent[i] & unsent) != 0) continue;
      /* The helper retries at growing intervals. It is woken only for a new entry, because its own
       * sections also send: if a failure there woke it, it would never sleep. */
      bucket->unsent[i] |= unsent;
      wlh_wake_helper(bucket);
    }
  }
}

bool wlh_wake_up_retry(struct wlh_bucket *bucket)
{
  bool left = false;
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = bucket->unsent[i]; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      if (send_if_due(bucket, i * 64 + bit))
        bucket->unsent[i] &= ~(UINT64_C(1) << bit);
      else
        left = true;
    }
  }
  return !left;
}
