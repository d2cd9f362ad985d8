/* The names of a segment: a hash table of RESOURCE cells. A long name goes on in TEXT cells. */
#ifndef WLH_NAMES_H
#define WLH_NAMES_H

#include "store.h"

uint32_t wlh_name_hash(const struct wlh_arena *arena, const uint16_t *name, uint32_t units);

/* Returns the RESOURCE cell of a name of at most WLH_NAME_MOST units, or 0 if there is none. */
uint32_t wlh_name_find(
    struct wlh_arena *arena, const uint16_t *name, uint32_t units, uint32_t hash);

/* Whether a cell is a RESOURCE and in the chain of its hash. The function may be called outside. */
bool wlh_name_is_listed(const struct wlh_arena *arena, uint32_t resource);

uint32_t wlh_name_cell_count(uint32_t units);

/* Adds a new name. The caller must have checked that enough cells are free. */
uint32_t wlh_name_add(struct wlh_arena *arena, const uint16_t *name, uint32_t units, uint32_t hash);

/* Removes a name. No request may hold it or wait for it. */
void wlh_name_remove(struct wlh_arena *arena, uint32_t resource);

/* Returns the length of a name in code units, or 0 if it is damaged. */
uint32_t wlh_name_length(struct wlh_arena *arena, uint32_t resource);

/* Copies a name. `units` must be the result of wlh_name_length. */
void wlh_name_copy(struct wlh_arena *arena, uint32_t resource, uint16_t *to, uint32_t units);

bool wlh_name_is_same(
    struct wlh_arena *arena, const struct wlh_resource_cell *a, const struct wlh_resource_cell *b);

/* For a rebuild: puts a RESOURCE cell into the chain of its hash, and makes its text KEPT. If the
 * chain already contains the name, notes damage. */
void wlh_name_restore(struct wlh_arena *arena, uint32_t resource);

uint64_t wlh_name_full_hash(struct wlh_arena *arena, uint32_t resource);

/* Whether the segment has the whole text of a name. A missing part is not noted as damage, because
 * a power failure may have caused it, in a file of another boot. */
bool wlh_name_is_whole(const struct wlh_arena *arena, uint32_t resource);

/* For a rebuild: empties all chains. The RESOURCE cells stay. */
void wlh_names_clear(struct wlh_arena *arena);

#endif
