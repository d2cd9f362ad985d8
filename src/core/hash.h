/* SipHash-1-3 (Aumasson and Bernstein) over UTF-16 code units. The secret key prevents the users of
 * a service from choosing names that collide. */
#ifndef WLK_HASH_H
#define WLK_HASH_H

#include <stddef.h>
#include <stdint.h>

/* `key` must be the same for all names of a table; `name` may be NULL if `length` is 0. Threads:
 * any. */
uint64_t wlk_hash(const uint64_t key[2], const uint16_t *name, size_t length);

#endif
