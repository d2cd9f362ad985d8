/* SipHash-1-3 (Aumasson and Bernstein) over UTF-16 code units. The users of a service can choose
 * names; the secret key prevents them from choosing names that collide. Rust, Python and Ruby use
 * the same number of rounds for their tables. */
#ifndef WLK_HASH_H
#define WLK_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hashes a name. Threads: any.
 *   key      128 secret bits, the same for all names of a table
 *   name     `length` code units; may be NULL if `length` is 0 */
uint64_t wlk_hash(const uint64_t key[2], const uint16_t *name, size_t length);

#endif
