#include "names.h"

#include "../../core/hash.h"
#include "pool.h"

#include <string.h>

static uint32_t inline_part(uint32_t units)
{
  return units < WLH_NAME_INLINE ? units : WLH_NAME_INLINE;
}

static uint32_t text_part(uint32_t units)
{
  return units < WLH_TEXT_UNITS ? units : WLH_TEXT_UNITS;
}

/* A long name is hashed part by part: the hash of each part is mixed into the key for the next. */
static uint64_t hash_part(
    const struct wlh_arena *arena, uint64_t before, const uint16_t *part, uint32_t units)
{
  const uint64_t *key = wlh_header_of(arena)->hash_key;
  uint64_t keys[2] = {key[0] ^ before, key[1]};
  return wlk_hash(keys, part, units);
}

uint32_t wlh_name_hash(const struct wlh_arena *arena, const uint16_t *name, uint32_t units)
{
  uint32_t part = inline_part(units);
  uint64_t hash = hash_part(arena, 0, name, part);
  while (part < units) {
    uint32_t more = text_part(units - part);
    hash = hash_part(arena, hash, name + part, more);
    part += more;
  }
  return (uint32_t)hash;
}

static uint64_t hash_of(
    const struct wlh_arena *arena, const struct wlh_resource_cell *resource, uint32_t units)
{
  uint32_t part = inline_part(units), text = resource->text;
  uint64_t hash = hash_part(arena, 0, resource->name, part);
  for (units -= part; units > 0; units -= part) {
    const struct wlh_text_cell *cell = &wlh_cell_at(arena, text)->text;
    part = text_part(units);
    hash = hash_part(arena, hash, cell->text, part);
    text = cell->next;
  }
  return hash;
}

static bool has_name(
    struct wlh_arena *arena, const struct wlh_resource_cell *resource, const uint16_t *name,
    uint32_t units)
{
  uint32_t part = inline_part(units);
  if (part > 0 && memcmp(resource->name, name, part * sizeof *name) != 0) return false;
  return part == units || wlh_text_equals(arena, resource->text, name + part, units - part);
}

/* Returns 0 at the end of a chain. A link that is 0 itself is damage. */
static uint32_t read_link(struct wlh_arena *arena, const uint32_t *place)
{
  uint32_t resource = wlh_read(place);
  if (resource == 0) wlh_note_damage(arena);
  return resource == WLH_NO_NAME ? 0 : resource;
}

uint32_t wlh_name_find(struct wlh_arena *arena, const uint16_t *name, uint32_t units, uint32_t hash)
{
  uint32_t steps = 0;
  uint32_t resource = read_link(arena, wlh_bucket_at(arena, hash));
  while (wlh_advance(arena, resource, &steps)) {
    if (!wlh_expect(arena, resource, WLH_KIND_RESOURCE)) return 0;
    const struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
    if (cell->hash == hash && cell->units == units && has_name(arena, cell, name, units))
      return resource;
    resource = read_link(arena, &cell->chain);
  }
  return 0;
}

bool wlh_name_is_listed(const struct wlh_arena *arena, uint32_t resource)
{
  if (wlh_kind_of(arena, resource) != WLH_KIND_RESOURCE) return false;
  uint32_t there = wlh_read(wlh_bucket_at(arena, wlh_resource_at(arena, resource)->hash));
  for (uint32_t steps = 0; there != resource; steps++) {
    if (there == WLH_NO_NAME || steps == arena->ncells) return false;
    there = wlh_read(&wlh_resource_at(arena, there)->chain);
  }
  return true;
}

static void enter_bucket(struct wlh_arena *arena, uint32_t resource, uint32_t hash)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t *bucket = wlh_bucket_at(arena, hash);
  WLH_PUT(cell->hash, hash);
  WLH_PUT(cell->chain, *bucket);
  WLH_PUT(*bucket, resource);
}

uint32_t wlh_name_cell_count(uint32_t units)
{
  return 1 + wlh_text_cell_count(units - inline_part(units));
}

uint32_t wlh_name_add(struct wlh_arena *arena, const uint16_t *name, uint32_t units, uint32_t hash)
{
  uint32_t part = inline_part(units);
  uint32_t text = part < units ? wlh_text_write(arena, name + part, units - part) : 0;
  uint32_t resource = wlh_pool_take(arena);
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  WLH_PUT(cell->units, units);
  WLH_PUT(cell->text, text);
  WLH_PUT(cell->limit, WLH_LIMIT_UNSET);
  WLH_PUT(cell->queue, (struct wlh_list){0});
  WLH_PUT(cell->held, (struct wlh_list){0});
  WLH_PUT(cell->levels, (struct wlh_list){0});
  WLH_PUT(cell->pending, 0);
  WLH_PUT(cell->weight, 0);
  WLH_PUT(cell->marked, 0);
  WLH_STEP(cell->name);
  if (part > 0) memcpy(cell->name, name, part * sizeof *name);
  wlh_commit_kind(arena, resource, WLH_KIND_RESOURCE);
  enter_bucket(arena, resource, hash);
  return resource;
}

static void leave_bucket(struct wlh_arena *arena, uint32_t resource)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t *place = wlh_bucket_at(arena, cell->hash);
  uint32_t there, steps = 0;
  while ((there = read_link(arena, place)) != resource) {
    if (!wlh_advance(arena, there, &steps)) wlh_note_damage(arena);
    if (arena->poisoned || !wlh_expect(arena, there, WLH_KIND_RESOURCE)) return;
    place = &wlh_resource_at(arena, there)->chain;
  }
  WLH_PUT(*place, cell->chain);
}

uint32_t wlh_name_length(struct wlh_arena *arena, uint32_t resource)
{
  return wlh_read_length(arena, &wlh_resource_at(arena, resource)->units, WLH_NAME_MOST);
}

void wlh_name_remove(struct wlh_arena *arena, uint32_t resource)
{
  uint32_t units = wlh_name_length(arena, resource);
  uint32_t text = wlh_resource_at(arena, resource)->text;
  leave_bucket(arena, resource);
  wlh_pool_free(arena, resource);
  wlh_text_free(arena, text, units - inline_part(units));
}

void wlh_name_copy(struct wlh_arena *arena, uint32_t resource, uint16_t *to, uint32_t units)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t part = inline_part(units);
  if (part > 0) memcpy(to, cell->name, part * sizeof *to);
  wlh_text_copy(arena, cell->text, to + part, units - part);
}

bool wlh_name_is_same(
    struct wlh_arena *arena, const struct wlh_resource_cell *a, const struct wlh_resource_cell *b)
{
  uint32_t units = wlh_read_length(arena, &a->units, WLH_NAME_MOST);
  if (units != wlh_read(&b->units)) return false;
  uint32_t part = inline_part(units), text_a = a->text, text_b = b->text;
  if (memcmp(a->name, b->name, part * sizeof *a->name) != 0) return false;
  for (units -= part; units > 0; units -= part) {
    const struct wlh_text_cell *cell_a = &wlh_cell_at(arena, text_a)->text;
    const struct wlh_text_cell *cell_b = &wlh_cell_at(arena, text_b)->text;
    part = text_part(units);
    if (memcmp(cell_a->text, cell_b->text, part * sizeof *cell_a->text) != 0) return false;
    text_a = cell_a->next;
    text_b = cell_b->next;
  }
  return true;
}

void wlh_name_restore(struct wlh_arena *arena, uint32_t resource)
{
  struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  uint32_t units = wlh_name_length(arena, resource), steps = 0;
  wlh_text_keep(arena, cell->text, units - inline_part(units));
  if (arena->poisoned) return;
  uint32_t hash = (uint32_t)hash_of(arena, cell, units);
  uint32_t other = read_link(arena, wlh_bucket_at(arena, hash));
  while (wlh_advance(arena, other, &steps)) {
    const struct wlh_resource_cell *there = wlh_resource_at(arena, other);
    if (there->hash == hash && wlh_name_is_same(arena, there, cell)) wlh_note_damage(arena);
    other = read_link(arena, &there->chain);
  }
  enter_bucket(arena, resource, hash);
}

uint64_t wlh_name_full_hash(struct wlh_arena *arena, uint32_t resource)
{
  return hash_of(arena, wlh_resource_at(arena, resource), wlh_name_length(arena, resource));
}

bool wlh_name_is_whole(const struct wlh_arena *arena, uint32_t resource)
{
  const struct wlh_resource_cell *cell = wlh_resource_at(arena, resource);
  if (cell->units > WLH_NAME_MOST) return false;
  uint32_t text = cell->text;
  for (uint32_t i = wlh_name_cell_count(cell->units); i > 1; i--) {
    uint32_t kind = wlh_kind_of(arena, text);
    if (kind != WLH_KIND_TEXT && kind != WLH_KIND_KEPT) return false;
    text = wlh_cell_at(arena, text)->text.next;
  }
  return text == 0;
}

void wlh_names_clear(struct wlh_arena *arena)
{
  for (uint32_t i = 0; i < arena->ncells; i++)
    if (*wlh_bucket_at(arena, i) != WLH_NO_NAME) WLH_PUT(*wlh_bucket_at(arena, i), WLH_NO_NAME);
}
