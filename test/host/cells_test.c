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

static struct made shared_of(int party, uint32_t limit, uint32_t weight)
{
  struct wlh_ask ask = {.mode = WLH_SHARED, .limit = limit, .weight = weight};
  return make(&t, party, "n", ask);
}

static struct made if_available(int party, const char *name)
{
  return make(&t, party, name, (struct wlh_ask){.option = WLH_IF_AVAILABLE});
}

/* ---- members ---- */

TEST(foreign, "a request of another process, or of an earlier one, cannot be ended")
{
  start();
  struct made made = want(&t, 0, "n"), other_life = made, other_cell = made, other_party = made;
  other_life.cookie++;
  other_cell.request += 1 << 20;
  other_party.party = 1;
  CHECK(drop(&t, &other_party) == WLH_CELLS_LOST);
  CHECK(drop(&t, &other_life) == WLH_CELLS_LOST);
  CHECK(give_up(&t, &other_cell) == WLH_CELLS_LOST);
  CHECK(wlh_cells_terminate_agent(inside(&t, 1), t.parties[0].agents[0]) == WLH_CELLS_LOST);
  stop();
}

TEST(poisoned, "every call reports that the segment is damaged")
{
  start();
  struct made made = want(&t, 0, "n");
  t.segment->header.poisoned = 1;
  CHECK(wlh_cells_begin(&t.parties[2].arena, 1) == WLH_CELLS_POISONED);
  CHECK(want(&t, 2, "m").status == WLH_CELLS_POISONED);
  CHECK(drop(&t, &made) == WLH_CELLS_POISONED);
  CHECK(mail_of(&t, 0).count == 0);
  CHECK(wlh_cells_rebuild(inside(&t, 1)) == WLH_CELLS_POISONED);
  CHECK(wlh_cells_drop_member(inside(&t, 1)) == WLH_CELLS_POISONED);
  table_end(&t);
}

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

TEST(asks_once, "a request asks whether others live only before a refusal, and then once")
{
  start();
  for (int i = 0; i < 3; i++) CHECK(want_shared(&t, 0, "n").status == WLH_CELLS_GRANTED);
  t.asked = 0;
  CHECK(want_shared(&t, 1, "n").status == WLH_CELLS_GRANTED);
  CHECK(want(&t, 1, "n").status == WLH_CELLS_PENDING);
  CHECK(t.asked == 0);
  CHECK(if_available(2, "n").status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(t.asked == 1);
  stop();
}

TEST(expelled, "a process that was taken for dead notices it, even if another has its number")
{
  for (int taken = 0; taken < 2; taken++) {
    start();
    kill_party(&t, 0);
    CHECK(wlh_cells_reap(inside(&t, 1)));
    t.segment->members[0].state = taken ? WLH_MEMBER_IN : WLH_MEMBER_OUT;
    t.segment->members[0].id += (uint64_t)taken;
    CHECK(wlh_cells_begin(&t.parties[0].arena, 1) == WLH_CELLS_LOST);
    stop();
  }
}

TEST(full, "a full segment has room for a theft, and for what the dead leave")
{
  start();
  struct made held = want(&t, 0, "n"), last;
  while ((last = want_shared(&t, 2, "m")).status == WLH_CELLS_GRANTED) continue;
  CHECK(last.status == WLH_CELLS_FULL);
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &held, WLH_REPORTED_STOLEN));
  kill_party(&t, 2);
  CHECK(want(&t, 1, "other").status == WLH_CELLS_GRANTED);
  stop();
}

TEST(formats, "tokens and generations go on when a segment is formatted, until the next boot")
{
  static const uint64_t key[2] = {1, 2};
  start();
  CHECK(want(&t, 0, "n").token == 1);
  t.segment->members[5].gen = 77;
  t.segment->header.poisoned = 1;
  wlh_cells_format(t.segment, 64, 7, key);
  CHECK(t.segment->header.token == 1 && t.segment->header.poisoned == 0);
  CHECK(t.segment->members[5].gen == 77 && t.segment->members[5].state == WLH_MEMBER_OUT);
  wlh_cells_format(t.segment, 64, 8, key);
  CHECK(t.segment->header.token == 0);
  table_end(&t);
}

/* ---- damage ---- */

/* Begins as a process that sees the segment for the first time. */
static enum wlh_cells_status see_anew(void)
{
  struct wlh_arena arena;
  wlh_cells_attach(&arena, t.segment, t.bytes, 9, t.parties[0].arena.alive, &t);
  return wlh_cells_begin(&arena, 5);
}

TEST(header, "a header that cannot be is damage to members, and to newcomers if they can know it")
{
  enum { MEMBERS_ONLY = 1 };
#define FIELD(name) offsetof(struct wlh_header, name)
  static const struct {
    size_t field;
    uint32_t value;
    int who;
  } damages[] = {
      {FIELD(magic), 0, 0},
      {FIELD(ncells), 0, 0},
      {FIELD(ncells), 32, 0},
      {FIELD(ncells), 100, 0},
      {FIELD(ncells), 192, 0},
      {FIELD(ncells), 1u << 21, 0},
      {FIELD(ncells), 64, MEMBERS_ONLY}, /* there were more */
      {FIELD(nmembers), WLH_MEMBERS + 1, 0},
      {FIELD(token), 6, MEMBERS_ONLY},
      {FIELD(ticket), 0, MEMBERS_ONLY},
      {FIELD(hash_key), 1, MEMBERS_ONLY},
  };
#undef FIELD
  for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
    start();
    t.segment->header.token = 7;
    CHECK(wlh_cells_grow(inside(&t, 1), 128) == WLH_CELLS_OK);
    *(uint32_t *)(void *)((char *)t.segment + damages[i].field) = damages[i].value;
    bool is_seen = wlh_cells_begin(&t.parties[1].arena, 6) == WLH_CELLS_POISONED;
    t.segment->header.poisoned = 0;
    if (!CHECK(is_seen && (damages[i].who == MEMBERS_ONLY || see_anew() == WLH_CELLS_POISONED)))
      printf("# field %zu: %u\n", damages[i].field, damages[i].value);
    table_end(&t);
  }
}

TEST(token_back, "a token that goes back within a critical section is not granted")
{
  const uint16_t name = 'n';
  struct wlh_answer answer;
  start();
  struct wlh_ask ask = {.agent = t.parties[1].agents[0], .name = &name, .name_units = 1};
  t.segment->header.token = 7;
  struct wlh_arena *arena = inside(&t, 1);
  t.segment->header.token = 0;
  CHECK(wlh_cells_request_a_lock(arena, &ask, &answer) == WLH_CELLS_POISONED);
  table_end(&t);
}

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

/* Whether party 0 finds what it has. */
static bool has_own(const struct made *made)
{
  const struct wlh_arena *arena = &t.parties[0].arena;
  return wlh_cells_has_member(arena) && wlh_cells_has_agent(arena, t.parties[0].agents[0]) &&
         wlh_cells_has_request(arena, made->request, made->cookie);
}

TEST(own, "a process notices that what it has was overwritten, or that others cannot find it")
{
  enum { REQUEST, NAME, AGENT, MEMBER, HEADER, FIRST, NO_HEAD, HASH, HELD, NEXT, PREV, WAYS };
  static const uint8_t bytes[] = {0, 0x55, 0xff};
  for (int way = 0; way < WAYS; way++)
    for (size_t i = 0; i < sizeof bytes; i++) {
      start();
      struct made first = shared_of(1, 5, 1), lock = shared_of(0, 5, 1), last = shared_of(2, 5, 1);
      CHECK(first.status == WLH_CELLS_GRANTED && last.status == WLH_CELLS_GRANTED);
      CHECK(has_own(&lock));
      union wlh_cell *cells = t.segment->cells;
      uint32_t resource = cells[lock.request].request.resource;
      if (way == REQUEST) memset(&cells[lock.request], bytes[i], WLH_CELL_BYTES);
      if (way == NAME) memset(&cells[resource], bytes[i], WLH_CELL_BYTES);
      if (way == AGENT) memset(&cells[t.parties[0].agents[0]], bytes[i], WLH_CELL_BYTES);
      if (way == MEMBER) memset(&t.segment->members[0], bytes[i], sizeof t.segment->members[0]);
      if (way == HEADER) memset(&t.segment->header, bytes[i], sizeof t.segment->header);
      if (way == FIRST) memset(&cells[0], bytes[i], WLH_CELL_BYTES);
      if (way == NO_HEAD) memset(&cells[HEADS], i == 0 ? 0 : 0xff, HEADS * sizeof(uint32_t));
      if (way == HASH) cells[resource].resource.hash++;
      if (way == HELD) CHECK(drop(&t, &first) == WLH_CELLS_OK && drop(&t, &last) == WLH_CELLS_OK);
      if (way == HELD) cells[resource].resource.held = (struct wlh_list){0};
      if (way == NEXT) cells[first.request].request.links[WLH_BY_RESOURCE].next = last.request;
      if (way == PREV) cells[last.request].request.links[WLH_BY_RESOURCE].prev = 0;
      if (!CHECK(!has_own(&lock))) printf("# way %d, byte %u\n", way, bytes[i]);
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

TEST(marks, "a grant tells of the mark of its name, at once or by mail, until the mark ends")
{
  start();
  mark(0, "n", 10);
  CHECK(has_mark(&t, 1, "n") && !has_mark(&t, 1, "m"));
  struct made lock = want(&t, 0, "n"), next = want(&t, 1, "n");
  CHECK(lock.marked && drop(&t, &lock) == WLH_CELLS_OK);
  CHECK(mail_of(&t, 1).letters[0].marked);
  CHECK(drop(&t, &next) == WLH_CELLS_OK);
  t.time += 10;
  CHECK(has_mark(&t, 1, "n"));
  t.time += 1;
  CHECK(!has_mark(&t, 1, "n"));
  stop();
}

TEST(
    marks_outlive,
    "marks outlive growth and all members, and endless ones the machine's next start")
{
  char name[201] = "";
  memset(name, 'n', 200);
  for (int boot = 7; boot <= 8; boot++) {
    table_begin(&t, WLH_CELLS_LEAST, 256);
    mark(0, name, UINT64_MAX);
    mark(0, "m", UINT64_C(1) << 50);
    (void)want(&t, 1, "held");
    CHECK(wlh_cells_grow(inside(&t, 0), 256) == WLH_CELLS_OK);
    all_leave();
    uint64_t token = t.segment->header.token;
    CHECK(wlh_cells_can_reuse(t.segment, t.bytes));
    CHECK(wlh_cells_reuse(t.segment, t.bytes, (uint64_t)boot, boot == 7));
    CHECK(t.segment->header.boot == (uint64_t)boot && t.segment->header.token == token);
    t.dead[3] = false;
    struct wlh_arena *arena = inside(&t, 3);
    CHECK(wlh_cells_join(arena, 200, 1, "") == WLH_CELLS_OK);
    CHECK(wlh_cells_add_agent(arena, 0, 1, NULL, 0, &t.parties[3].agents[0]) == WLH_CELLS_OK);
    CHECK(wlh_cells_check(arena) == NULL);
    CHECK(has_mark(&t, 3, name) && has_mark(&t, 3, "m") == (boot == 7));
    CHECK(want(&t, 3, "held").status == WLH_CELLS_GRANTED);
    table_end(&t);
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

TEST(damage_outside, "a reader outside does not report damage, which may be half of a change")
{
  struct wlh_entry entry;
  start();
  held = want(&t, 0, "n");
  t.segment->cells[held.request].kind = 77;
  CHECK(look_at_n(&entry) == WLH_CELLS_LOST && t.segment->header.poisoned == 0);
  t.segment->cells[held.request].kind = WLH_KIND_HELD;
  stop();
}

int main(void)
{
  return run_tests();
}
