#include "arena.h"

#include "marks.h"
#include "names.h"
#include "rebuild.h"
#include "store.h"

#include <string.h>

/* Returns the token from which a new segment must continue, because tokens never decrease until the
 * machine boots again. Returns 0 if the segment is of another boot, or if its token is damaged. */
static uint64_t last_token(const struct wlh_header *header, uint64_t boot)
{
  return header->boot == boot && header->token < WLH_COUNT_MOST / 2 ? header->token : 0;
}

/* Keeps the member's generation. */
static void format_member(struct wlh_member *member)
{
  uint64_t gen = member->gen;
  memset(member, 0, sizeof *member);
  member->gen = gen;
  member->state = WLH_MEMBER_OUT;
}

static void format_cells(struct wlh_segment *segment, uint32_t ncells)
{
  uint32_t *heads = (uint32_t *)(void *)&segment->cells[ncells];
  memset(segment->cells, 0, (size_t)(wlh_segment_bytes(ncells) - WLH_BYTES_BEFORE_CELLS));
  for (uint32_t i = 0; i < ncells; i++) {
    segment->cells[i].kind = WLH_KIND_FREE;
    heads[i] = WLH_NO_NAME;
  }
}

void wlh_cells_format(
    struct wlh_segment *segment, uint32_t ncells, uint64_t boot, const uint64_t hash_key[2])
{
  struct wlh_header *header = &segment->header;
  uint64_t token = last_token(header, boot);
  header->layout = WLH_LAYOUT;
  header->incompat = 0;
  header->compat = 0;
  header->boot = boot;
  header->ncells = ncells;
  header->nmembers = WLH_MEMBERS;
  header->joins = 0;
  header->high = 1;
  header->ticket = 1;
  header->hash_key[0] = hash_key[0];
  header->hash_key[1] = hash_key[1];
  header->free = 0;
  header->nfree = ncells - 1;
  header->rebuilds = 0;
  header->token = token;
  header->shrinks = 0;
  header->slack = 0;
  header->marks = 0;
  header->booted = 0;
  memset(header->zeros, 0, sizeof header->zeros);
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) format_member(&segment->members[i]);
  format_cells(segment, ncells);
  for (size_t i = 0; i < WLH_MEMBERS / 64; i++) {
    atomic_store(&header->due[i], 0);
    atomic_store(&header->looking[i], 0);
  }
  atomic_store(&header->word, 0);
  atomic_store(&header->poisoned, 0);
}

void wlh_cells_attach(
    struct wlh_arena *arena, struct wlh_segment *segment, uint64_t bytes, uint32_t member,
    bool (*alive)(void *data, uint32_t member), void *data)
{
  memset(arena, 0, sizeof *arena);
  arena->segment = segment;
  arena->bytes = bytes;
  arena->ncells = WLH_CELLS_LEAST;
  arena->member = member;
  arena->alive = alive;
  arena->data = data;
}

/* Whether the header has changed in a way that only damage explains. While there are members, this
 * library neither changes the hash key nor decreases a counter. */
static bool is_impossible(const struct wlh_arena *arena, const struct wlh_header *header)
{
  bool known = (arena->hash_key[0] | arena->hash_key[1]) != 0;
  bool same =
      header->hash_key[0] == arena->hash_key[0] && header->hash_key[1] == arena->hash_key[1];
  return (known && !same) || header->ticket < arena->ticket || header->token < arena->token ||
         header->shrinks < arena->shrinks;
}

/* Records the values that is_impossible compares in the next section. */
static void note_header(struct wlh_arena *arena, const struct wlh_header *header)
{
  arena->ticket = header->ticket;
  arena->token = header->token;
  arena->shrinks = header->shrinks;
  arena->hash_key[0] = header->hash_key[0];
  arena->hash_key[1] = header->hash_key[1];
}

bool wlh_cells_is_formatted(const struct wlh_segment *segment)
{
  return atomic_load(&segment->header.magic) == WLH_MAGIC &&
         segment->cells[0].kind == WLH_KIND_FREE;
}

/* Returns whether our own member is still in the segment. */
static bool is_member(const struct wlh_arena *arena)
{
  const struct wlh_member *member = wlh_member_at(arena, arena->member);
  return member->state == WLH_MEMBER_IN && member->id == arena->id;
}

enum wlh_cells_status wlh_cells_begin(struct wlh_arena *arena, uint64_t now)
{
  const struct wlh_header *header = wlh_header_of(arena);
  uint32_t ncells = wlh_read(&header->ncells);
  arena->now = now;
  arena->mark_now = 0;
  if (atomic_load(&header->poisoned) != 0) arena->poisoned = true;
  bool possible = wlh_is_valid_size(ncells, wlh_read(&header->nmembers)) &&
                  (ncells >= arena->ncells || header->shrinks > arena->shrinks);
  if (!possible || is_impossible(arena, header))
    wlh_note_damage(arena);
  else if (arena->bytes < wlh_segment_bytes(ncells) && !arena->poisoned)
    return WLH_CELLS_GREW;
  if (!arena->poisoned && !wlh_cells_is_formatted(arena->segment)) wlh_note_damage(arena);
  if (arena->poisoned) return WLH_CELLS_POISONED;
  note_header(arena, header);
  arena->ncells = ncells;
  return arena->id == 0 || is_member(arena) ? WLH_CELLS_OK : WLH_CELLS_LOST;
}

bool wlh_cells_has_member(const struct wlh_arena *arena)
{
  return wlh_cells_is_formatted(arena->segment) && is_member(arena) &&
         wlh_read(&wlh_header_of(arena)->ncells) == arena->ncells &&
         atomic_load(&wlh_header_of(arena)->poisoned) == 0;
}

void wlh_cells_poison(struct wlh_arena *arena)
{
  wlh_note_damage(arena);
}

uint32_t wlh_cells_free_count(const struct wlh_arena *arena)
{
  return wlh_header_of(arena)->nfree;
}

void wlh_cells_begin_look(struct wlh_segment *segment, uint32_t member)
{
  (void)atomic_fetch_or(&segment->header.looking[member / 64], UINT64_C(1) << (member % 64));
  /* Either we see the new number of cells, or the process that shrank the segment sees our bit and
   * gives no space back. */
  atomic_thread_fence(memory_order_seq_cst);
}

bool wlh_cells_end_look(struct wlh_segment *segment, uint32_t member)
{
  (void)atomic_fetch_and(&segment->header.looking[member / 64], ~(UINT64_C(1) << (member % 64)));
  /* Either we see the slack, or the process that left it sees that our bit is clear, and gives the
   * space back itself. */
  atomic_thread_fence(memory_order_seq_cst);
  return wlh_read(&segment->header.slack) != 0;
}

static bool is_looked_at(const struct wlh_arena *arena)
{
  atomic_thread_fence(memory_order_seq_cst);
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    uint64_t bits = atomic_load(&wlh_header_of(arena)->looking[i / 64]);
    if (((bits >> (i % 64)) & 1) && wlh_cells_is_member(arena, i)) return true;
  }
  return false;
}

bool wlh_cells_begin_give_back(struct wlh_arena *arena)
{
  struct wlh_header *header = wlh_header_of(arena);
  if (wlh_read(&header->slack) == 0 || arena->poisoned || is_looked_at(arena)) return false;
  arena->shrinks = header->shrinks + 1;
  wlh_raise_count(&header->shrinks, arena->shrinks);
  return true;
}

void wlh_cells_end_give_back(struct wlh_arena *arena)
{
  wlh_commit(&wlh_header_of(arena)->slack, 0);
}

/* The new cells overwrite the former bucket heads, so the caller must rebuild. */
static void double_cells(struct wlh_arena *arena)
{
  uint32_t ncells = arena->ncells * 2;
  for (uint32_t i = arena->ncells; i < ncells; i++) {
    uint32_t *kind = &arena->segment->cells[i].kind;
    if (*kind != WLH_KIND_FREE) WLH_PUT(*kind, WLH_KIND_FREE);
  }
  wlh_commit(&wlh_header_of(arena)->ncells, ncells);
  arena->ncells = ncells;
}

enum wlh_cells_status wlh_cells_grow(struct wlh_arena *arena, uint32_t ncells)
{
  if (arena->poisoned) return WLH_CELLS_POISONED;
  if (ncells <= arena->ncells || ncells > WLH_CELLS_MOST) return WLH_CELLS_OK;
  while (arena->ncells < ncells && arena->bytes >= wlh_segment_bytes(arena->ncells * 2))
    double_cells(arena);
  return wlh_cells_rebuild_without_shrinking(arena);
}

bool wlh_cells_make_room(struct wlh_arena *arena, uint32_t needed)
{
  if (wlh_header_of(arena)->marks == 0) return false;
  if (wlh_cells_rebuild_without_shrinking(arena) != WLH_CELLS_OK) return false;
  uint32_t nfree = wlh_cells_free_count(arena);
  return nfree >= arena->ncells / 4 && nfree - arena->ncells / 4 >= needed;
}

bool wlh_cells_can_reuse(const struct wlh_segment *segment, uint64_t bytes)
{
  const struct wlh_header *header = &segment->header;
  return bytes >= wlh_segment_bytes(WLH_CELLS_LEAST) && atomic_load(&header->magic) == WLH_MAGIC &&
         header->layout == WLH_LAYOUT && header->incompat == 0 && header->marks == 1 &&
         atomic_load(&header->poisoned) == 0 &&
         wlh_is_valid_size(header->ncells, header->nmembers) &&
         bytes >= wlh_segment_bytes(header->ncells) && header->ticket < WLH_COUNT_MOST / 2 &&
         header->token < WLH_COUNT_MOST / 2;
}

/* After a power failure, the file can have new contents of some cells and old contents of others.
 * So a mark counts only if its name is whole and has the hash that the mark contains. */
static void free_all_but_marks_for_ever(struct wlh_arena *arena)
{
  for (uint32_t i = 1; i < arena->ncells; i++) {
    uint32_t kind = wlh_kind_of(arena, i);
    if (kind == WLH_KIND_FREE || kind == WLH_KIND_TEXT || kind == WLH_KIND_KEPT) continue;
    if (kind == WLH_KIND_RESOURCE && wlh_name_is_whole(arena, i) &&
        wlh_resource_at(arena, i)->marked == wlh_name_endless_mark(arena, i))
      continue;
    wlh_commit_kind(arena, i, WLH_KIND_FREE);
  }
}

/* Returns false for every member: no process has the file open. */
static bool is_none_alive(void *data, uint32_t member)
{
  (void)data;
  (void)member;
  return false;
}

bool wlh_cells_reuse(struct wlh_segment *segment, uint64_t bytes, uint64_t boot, bool same)
{
  struct wlh_arena arena;
  wlh_cells_attach(&arena, segment, bytes, 0, is_none_alive, NULL);
  arena.ncells = segment->header.ncells;
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) wlh_commit(&segment->members[i].state, WLH_MEMBER_OUT);
  for (size_t i = 0; i < WLH_MEMBERS / 64; i++) {
    atomic_store(&segment->header.due[i], 0);
    atomic_store(&segment->header.looking[i], 0);
  }
  if (!same) free_all_but_marks_for_ever(&arena);
  bool usable = wlh_cells_rebuild(&arena) == WLH_CELLS_OK;
  atomic_store(&segment->header.word, 0);
  if (usable) wlh_commit_wide(&segment->header.boot, boot);
  return usable;
}
