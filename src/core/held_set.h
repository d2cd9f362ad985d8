/* The grant rule of one name, for the core and the host scope: which requests a set of held locks
 * admits. Without a limit, units and limit are 0.
 *
 * Section 2.5: https://www.w3.org/TR/2023/WD-web-locks-20230105/#lock-request-grantable */
#ifndef WLK_HELD_SET_H
#define WLK_HELD_SET_H

#include <stdbool.h>
#include <stdint.h>

struct wlk_held_set {
  bool any;       /* whether there is a lock */
  bool exclusive; /* whether one of the locks is exclusive */
  uint64_t units; /* the sum of their weights */
};

static inline void wlk_held_set_add(struct wlk_held_set *set, bool exclusive, uint32_t weight)
{
  set->any = true;
  set->exclusive = set->exclusive || exclusive;
  set->units += weight;
}

static inline bool wlk_held_set_admits(
    struct wlk_held_set set, bool exclusive, uint32_t weight, uint32_t limit)
{
  if (!set.any) return true;
  return !set.exclusive && !exclusive && set.units + weight <= limit;
}

#endif
