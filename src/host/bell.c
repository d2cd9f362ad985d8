#include "bell.h"

enum { QUIET = 0, OWED = 1, SENT = 2, BELL_STATE = 3 };

static void ring(struct wlh_segment *segment, uint32_t member)
{
  uint32_t bell = atomic_load_explicit(&segment->members[member].bell, memory_order_relaxed);
  if ((bell & BELL_STATE) != QUIET) return;
  atomic_fetch_or_explicit(
      &segment->header.owed[member / 64], UINT64_C(1) << (member % 64), memory_order_relaxed);
  uint32_t owed = (bell & ~(uint32_t)BELL_STATE) | OWED;
  atomic_store_explicit(&segment->members[member].bell, owed, memory_order_release);
}

void wlh_bell_hush(struct wlh_bucket *bucket)
{
  _Atomic uint32_t *mine = &bucket->arena.segment->members[bucket->arena.member].bell;
  uint32_t bell = atomic_load_explicit(mine, memory_order_acquire);
  while ((bell & BELL_STATE) != QUIET &&
         !atomic_compare_exchange_weak(mine, &bell, ((bell >> 2) + 1) << 2)) {
  }
}

bool wlh_bell_ring(struct wlh_bucket *bucket, uint64_t *owed)
{
  struct wlh_segment *segment = bucket->arena.segment;
  uint64_t any = 0;
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = bucket->arena.rung[i]; bits; bits &= bits - 1) {
      uint32_t member = i * 64 + (uint32_t)__builtin_ctzll(bits);
      if (member != bucket->arena.member) ring(segment, member);
    }
    bucket->arena.rung[i] = 0;
    uint64_t all = atomic_load_explicit(&segment->header.owed[i], memory_order_relaxed);
    owed[i] = all;
    for (uint64_t bits = all; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      uint32_t bell =
          atomic_load_explicit(&segment->members[i * 64 + bit].bell, memory_order_acquire);
      if ((bell & BELL_STATE) != OWED || i * 64 + bit == bucket->arena.member) {
        owed[i] &= ~(UINT64_C(1) << bit);
      }
    }
    if (owed[i] != all) {
      atomic_store_explicit(&segment->header.owed[i], owed[i], memory_order_relaxed);
    }
    any |= owed[i];
  }
  return any != 0;
}

/* Sends a wake-up if it is still owed. Returns false if it must be tried again. */
static bool pay(struct wlh_bucket *bucket, uint32_t member)
{
  _Atomic uint32_t *theirs = &bucket->arena.segment->members[member].bell;
  uint32_t bell = atomic_load_explicit(theirs, memory_order_acquire);
  if ((bell & BELL_STATE) != OWED) return true;
  enum wlh_sent sent = wlh_port_send(&bucket->port, member);
  if (sent == WLH_NOT_NOW) return false;
  /* If nobody answers, the member is dead, or binds its socket again and then enters by itself. */
  uint32_t paid = (bell & ~(uint32_t)BELL_STATE) | SENT;
  (void)atomic_compare_exchange_strong(theirs, &bell, paid);
  if (sent == WLH_NOBODY) {
    bucket->suspects[member / 64] |= UINT64_C(1) << (member % 64);
    wlh_alarm(bucket);
  }
  return true;
}

void wlh_bell_pay(struct wlh_bucket *bucket, const uint64_t *owed)
{
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = owed[i]; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      if (pay(bucket, i * 64 + bit)) continue;
      bucket->debts[i] |= UINT64_C(1) << bit;
      wlh_alarm(bucket);
    }
  }
}

bool wlh_bell_pay_debts(struct wlh_bucket *bucket)
{
  bool left = false;
  for (uint32_t i = 0; i < WLH_MEMBERS / 64; i++) {
    for (uint64_t bits = bucket->debts[i]; bits; bits &= bits - 1) {
      uint32_t bit = (uint32_t)__builtin_ctzll(bits);
      if (pay(bucket, i * 64 + bit))
        bucket->debts[i] &= ~(UINT64_C(1) << bit);
      else
        left = true;
    }
  }
  return !left;
}
