/* SipHash-1-3 (Aumasson and Bernstein) over UTF-16 code units.
 *
 * Names come from users of services; with a key nobody knows they cannot be chosen to collide. One
 * compression and three finalisation rounds are what Rust, Python and Ruby use for their tables. */
#ifndef WLK_HASH_H
#define WLK_HASH_H

#include <stddef.h>
#include <stdint.h>

/*   key     128 secret bits, the same for all names of a table
 *   name    `length` UTF-16 code units; may be NULL when `length` is 0
 *   returns 64 bits; equal names give equal ones
 *   threads any; touches nothing else
 *   cost    O(length) */
uint64_t wlk_hash(const uint64_t key[2], const uint16_t *name, size_t length);

#endif
