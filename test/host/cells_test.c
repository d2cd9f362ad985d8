/* What only the cells of a segment have, beside the core's locks: members, damage, marks that outlive
 * processes, readers outside. fuzz_compare.c compares the rest with the core. */
#include "table.h"

#include "../../src/host/segment/store.h"

#include <stdlib.h>
#include <string.h>

static struct table t;

static void start(void)
{
  table_begin(&t, WLH_CELLS_LEAST, 256);
}

/* Whatever was tested: all is whole, and nothing is left once all have left. */
static void stop(void)
{
  for (int i = 0; i < PARTIES; i++) {
    if (t.dead[i]) continue;
    CHECK(wrong(&t, i) == NULL);
    CHECK(wlh_cells_drop_member(inside(&t, i)) == WLH_CELLS_OK);
  }
  struct wlh_arena *arena = &t.parties[3].arena;
  (void)wlh_cells_reap(arena);
  CHECK(!arena->poisoned);
  CHECK(wlh_cells_free_count(arena) == arena->ncells - 1);
  table_end(&t);
}

static struct made if_available(int party, const char *name)
{
  return make(&t, party, name, (struct wlh_ask){.option = WLH_IF_AVAILABLE});
}

/* ---- members ---- */

TEST(notifies, "a grant notifies its process, and a new member those that wait")
{
  start();
  struct made first = want(&t, 0, "n");
  CHECK(want(&t, 1, "n").status == WLH_CELLS_PENDING);
  CHECK(rung_by(&t, 0) == 0 && rung_by(&t, 1) == 0);
  CHECK(wlh_cells_pending_count(&t.parties[1].arena) == 1);
  CHECK(wlh_cells_drop_member(inside(&t, 3)) == WLH_CELLS_OK);
  (void)rung_by(&t, 3);
  CHECK(wlh_cells_join(inside(&t, 3), 1, 1, "") == WLH_CELLS_OK);
  CHECK(rung_by(&t, 3) == 2);
  CHECK(drop(&t, &first) == WLH_CELLS_OK);
  CHECK(rung_by(&t, 0) == 2);
  stop();
}

TEST(full, "a full segment has room for a theft, and for what the dead leave")
{
  start();
  struct made held = want(&t, 0, "n"), other = want_shared(&t, 2, "m"), last;
  while ((last = want_shared(&t, 2, "m")).status == WLH_CELLS_GRANTED) continue;
  CHECK(last.status == WLH_CELLS_FULL);
  CHECK(publish(&t, &other, 'd', 1) == WLH_CELLS_FULL);
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &held, WLH_REPORTED_STOLEN));
  kill_party(&t, 2);
  CHECK(want(&t, 1, "other").status == WLH_CELLS_GRANTED);
  stop();
}

/* ---- damage ---- */

enum { HEADS = WLH_CELLS_LEAST, ALL_CELLS, ALL_BEHIND, PARTS };

/* Zeros a cell, the heads of all hash chains, all cells, or everything but the header. */
static void zero_part(uint32_t part)
{
  union wlh_cell *cells = t.segment->cells;
  size_t all = wlh_segment_bytes(WLH_CELLS_LEAST) - WLH_BYTES_BEFORE_CELLS;
  if (part < HEADS) memset(&cells[part], 0, sizeof *cells);
  if (part == HEADS) memset(&cells[HEADS], 0, all - HEADS * sizeof *cells);
  if (part >= ALL_CELLS) memset(cells, 0, all);
  if (part == ALL_BEHIND) memset(t.segment->members, 0, sizeof t.segment->members);
}

/* Needs two cells of text. */
static const char long_name[] =
    "a name that fits neither into the cell of a resource nor into one of text behind it, so that "
    "it is in three";

/* A lock of party 0, with a cell of every kind. */
static struct made hold_long_name(void)
{
  static const uint16_t label[70] = {'l', 'a'};
  struct made made = make(&t, 0, long_name, (struct wlh_ask){.label = label, .label_units = 70});
  CHECK(made.status == WLH_CELLS_GRANTED);
  CHECK(if_available(1, long_name).status == WLH_CELLS_NOT_AVAILABLE);
  return made;
}

TEST(zeroed, "no request is granted a held lock whose cells became zeros")
{
  for (uint32_t part = 0; part < PARTS; part++)
    for (int repaired = 0; repaired < 2; repaired++) {
      start();
      (void)hold_long_name();
      zero_part(part);
      /* The heads are made anew from the cells. */
      if (repaired) CHECK((wlh_cells_rebuild(inside(&t, 2)) == WLH_CELLS_OK) == (part == HEADS));
      struct wlh_ask ask = {.option = WLH_IF_AVAILABLE};
      if (wlh_cells_add_agent(inside(&t, 1), 9, 9, NULL, 0, &ask.agent) == WLH_CELLS_OK)
        CHECK(make(&t, 1, long_name, ask).status != WLH_CELLS_GRANTED);
      CHECK(want_shared(&t, 2, long_name).status != WLH_CELLS_GRANTED);
      table_end(&t);
    }
}

TEST(own, "a process notices that others cannot find its lock any more")
{
  enum { NO_HEAD, HASH, HELD, NEXT, PREV, WAYS };
  const struct wlh_ask ask = {.mode = WLH_SHARED};
  for (int way = 0; way < WAYS; way++) {
    start();
    struct made first = make(&t, 1, "n", ask), lock = make(&t, 0, "n", ask);
    struct made last = make(&t, 2, "n", ask);
    const struct wlh_arena *arena = &t.parties[0].arena;
    CHECK(wlh_cells_has_request(arena, lock.request, lock.cookie));
    union wlh_cell *cells = t.segment->cells;
    struct wlh_resource_cell *name = &cells[cells[lock.request].request.resource].resource;
    if (way == NO_HEAD) memset(&cells[HEADS], 0, HEADS * sizeof(uint32_t));
    if (way == HASH) name->hash++;
    if (way == HELD) CHECK(drop(&t, &first) == WLH_CELLS_OK && drop(&t, &last) == WLH_CELLS_OK);
    if (way == HELD) name->held = (struct wlh_list){0};
    if (way == NEXT) cells[first.request].request.links[WLH_BY_RESOURCE].next = last.request;
    if (way == PREV) cells[last.request].request.links[WLH_BY_RESOURCE].prev = 0;
    if (!CHECK(!wlh_cells_has_request(arena, lock.request, lock.cookie))) printf("# way %d\n", way);
    table_end(&t);
  }
}

/* ---- marks ---- */

static void mark(int party, const char *name, uint64_t keep)
{
  struct made made = want(&t, party, name);
  CHECK(made.status == WLH_CELLS_GRANTED && !made.marked);
  CHECK(drop_and_mark(&t, &made, keep) == WLH_CELLS_OK);
}

/* Nobody has the segment open any more. */
static void all_leave(void)
{
  for (int i = 0; i < PARTIES; i++) {
    CHECK(wlh_cells_drop_member(inside(&t, i)) == WLH_CELLS_OK);
    t.dead[i] = true;
  }
}

TEST(marks_torn, "after a boot, a mark counts only if the disk has all of it")
{
  for (uint32_t what = 0; what < 6; what++) {
    start();
    char name[201] = "";
    memset(name, 'n', 200);
    mark(0, name, UINT64_MAX);
    mark(0, "whole", UINT64_MAX);
    all_leave();
    union wlh_cell *cells = t.segment->cells;
    uint32_t i = 1;
    while (cells[i].kind != WLH_KIND_RESOURCE || cells[i].resource.units != 200) i++;
    struct wlh_resource_cell *cell = &cells[i].resource;
    struct wlh_text_cell *text = &cells[cell->text].text;
    if (what == 0) cell->marked = 5000;
    if (what == 1) text->text[3] = 'm';
    if (what == 2) text->kind = WLH_KIND_FREE;
    if (what == 3) text->next = cell->text;
    if (what == 4) cell->units = WLH_NAME_MOST + 1;
    if (what == 5) cell->kind = WLH_KIND_PENDING;
    cells[63].kind = 77;
    CHECK(wlh_cells_reuse(t.segment, t.bytes, 8, false));
    uint32_t kept = 0;
    for (i = 0; i < 64; i++) kept += cells[i].kind != WLH_KIND_FREE;
    CHECK(kept == 1);
    table_end(&t);
  }
}

TEST(marks_make_room, "names whose marks have ended are freed before the segment grows")
{
  start();
  for (char name[] = "a"; name[0] < 'a' + 20; name[0]++) mark(0, name, 10);
  uint32_t nfree = wlh_cells_free_count(inside(&t, 0));
  CHECK(!wlh_cells_make_room(inside(&t, 0), nfree));
  t.time += 11;
  CHECK(wlh_cells_make_room(inside(&t, 0), nfree - 16));
  CHECK(wlh_cells_free_count(inside(&t, 0)) == nfree + 20);
  stop();
}

/* ---- readers outside ---- */

static uint16_t units[600];
static struct made held;
static long fuse; /* looks of the library until the holder publishes; 0: it does not */

static enum wlh_cells_status look_at_n(struct wlh_entry *entry)
{
  static struct wlh_client clients[4];
  struct wlh_view view = {entry, clients, units, 1, 4, 600, 0, 0, 0};
  return wlh_cells_find_holders(t.segment, t.bytes, u"n", 1, &view);
}

/* The cells of the first text are used again for the third one. */
void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
  if (fuse == 0 || --fuse > 0) return;
  CHECK(
      publish(&t, &held, 'b', 130) == WLH_CELLS_OK && publish(&t, &held, 'c', 130) == WLH_CELLS_OK);
}

TEST(published_meanwhile, "a reader never sees parts of two texts, whenever the holder publishes")
{
  bool more = true;
  for (long n = 1; more; n++) {
    struct wlh_entry entry;
    start();
    held = want(&t, 0, "n");
    CHECK(publish(&t, &held, 'a', 130) == WLH_CELLS_OK);
    fuse = n;
    CHECK(look_at_n(&entry) == WLH_CELLS_OK && entry.data_units == 130);
    more = fuse == 0;
    fuse = 0;
    const uint16_t *text = units + entry.data;
    CHECK(memcmp(text, text + 1, 129 * sizeof *text) == 0);
    stop();
  }
}

int main(void)
{
  return run_tests();
}
