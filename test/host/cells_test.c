/* The cells of the host scope in the terms of the specification, and what is theirs alone: members,
 * mail, growth, rebuilding, snapshots. */
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

/* ---- 4.1 request a lock ---- */

TEST(last_unit, "names that differ in their last code unit only are different")
{
  start();
  char name[201] = "";
  memset(name, 'n', 200);
  struct made made = want(&t, 0, name);
  name[199] = 'm';
  CHECK(want(&t, 1, name).status == WLH_CELLS_GRANTED);
  name[199] = 'n';
  CHECK(if_available(1, name).status == WLH_CELLS_NOT_AVAILABLE);
  CHECK(drop(&t, &made) == WLH_CELLS_OK);
  stop();
}

TEST(long_names, "a name of the greatest length is had, a longer one is refused for ever")
{
  table_begin(&t, 1024, 1024);
  uint16_t *name = calloc(WLH_NAME_MOST + 1, sizeof *name);
  struct wlh_answer answer;
  struct wlh_ask ask = {.agent = t.parties[0].agents[0], .name = name};
  ask.name_units = WLH_NAME_MOST + 1;
  CHECK(wlh_cells_request_a_lock(inside(&t, 0), &ask, &answer) == WLH_CELLS_FULL);
  CHECK(answer.needed == UINT32_MAX);
  ask.name_units = WLH_NAME_MOST;
  CHECK(wlh_cells_request_a_lock(inside(&t, 0), &ask, &answer) == WLH_CELLS_GRANTED);
  CHECK(wlh_cells_rebuild(inside(&t, 1)) == WLH_CELLS_OK);
  free(name);
  stop();
}

/* ---- 4.2, 4.3, 2.6 ---- */

TEST(of_others, "a request of somebody else, or of an earlier life, is none; nothing is damaged")
{
  start();
  struct made made = want(&t, 0, "n");
  struct wlh_thief thief;
  struct wlh_arena *arena = inside(&t, 1);
  CHECK(wlh_cells_release_the_lock(arena, made.request, made.cookie, 0, &thief) == WLH_CELLS_LOST);
  CHECK(wlh_cells_terminate_agent(arena, t.parties[0].agents[0]) == WLH_CELLS_LOST);
  arena = inside(&t, 0);
  CHECK(
      wlh_cells_release_the_lock(arena, made.request, made.cookie + 1, 0, &thief) ==
      WLH_CELLS_LOST);
  CHECK(
      wlh_cells_abort_the_request(arena, made.request + (1 << 20), made.cookie) == WLH_CELLS_LOST);
  stop();
}

TEST(poisoned, "in a poisoned segment every call says so, to all")
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

/* ---- members and the dead ---- */

TEST(rings, "who gets mail is to_notify, and who waits when somebody joins")
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

TEST(asks_once, "the living are asked for once, and not at all if nobody is in the way")
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

TEST(expelled, "who was taken for dead by mistake is told so when it comes back")
{
  start();
  CHECK(want(&t, 0, "n").status == WLH_CELLS_GRANTED);
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 1)));
  CHECK(wlh_cells_begin(&t.parties[0].arena, 1) == WLH_CELLS_LOST);
  stop();
}

TEST(number_taken, "who was taken for dead is told so also when another one has its number by then")
{
  start();
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 1)));
  t.segment->members[0].state = WLH_MEMBER_IN;
  t.segment->members[0].id = t.parties[0].arena.id + 1;
  CHECK(wlh_cells_begin(&t.parties[0].arena, 1) == WLH_CELLS_LOST);
  stop();
}

/* Asks with a priority. */
static struct made ask_first(int party, uint8_t mode, uint8_t option, int32_t priority)
{
  struct wlh_ask ask = {.mode = mode, .option = option, .priority = priority};
  return make(&t, party, "n", ask);
}

TEST(mail_order, "grants of a process are told in their order after a death, too")
{
  start();
  struct made held = want(&t, 0, "n");
  struct made second = want_shared(&t, 1, "n"), first = ask_first(1, WLH_SHARED, WLH_WAIT, 1);
  CHECK(drop(&t, &held) == WLH_CELLS_OK);
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 3)));
  struct mail mail = mail_of(&t, 1);
  CHECK(mail.count == 2);
  CHECK(mail.letters[0].cookie == first.cookie && mail.letters[1].cookie == second.cookie);
  stop();
}

TEST(untold_thief, "a victim hears who stole its lock after the thief has died")
{
  start();
  struct made made = want(&t, 1, "n");
  CHECK(steal(&t, 0, "n").status == WLH_CELLS_GRANTED);
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 2)));
  struct mail mail = mail_of(&t, 1);
  CHECK(is_letter(&mail, &made, WLH_REPORTED_STOLEN));
  CHECK(mail.letters[0].thief.id == 100);
  stop();
}

TEST(
    theft_before_grant,
    "of a theft and what it led to, the theft is told first, after a death, too")
{
  for (int death = 0; death < 2; death++) {
    start();
    struct made first = want(&t, 0, "n");
    struct made waiting = want(&t, 1, "n");
    struct made stolen = steal(&t, 1, "n"); /* later than what waits, granted before it */
    CHECK(first.status == WLH_CELLS_GRANTED && waiting.status == WLH_CELLS_PENDING);
    struct made thief = steal(&t, 0, "n");
    CHECK(drop(&t, &thief) == WLH_CELLS_OK);
    if (death) {
      kill_party(&t, 2);
      CHECK(wlh_cells_reap(inside(&t, 3)));
    }
    struct mail mail = mail_of(&t, 1);
    CHECK(mail.count == 2);
    CHECK(mail.letters[0].cookie == stolen.cookie && mail.letters[0].news == WLH_REPORTED_STOLEN);
    CHECK(mail.letters[1].cookie == waiting.cookie && mail.letters[1].news == WLH_REPORTED_GRANTED);
    (void)mail_of(&t, 0);
    stop();
  }
}

/* ---- where limits, thefts, queues that are bounded, and deaths meet ---- */

TEST(theft_of_the_dead, "a theft of locks of the dead and of the living is told to the living only")
{
  start();
  struct made dead = shared_of(0, 3, 1), living = shared_of(1, 3, 1);
  CHECK(dead.status == WLH_CELLS_GRANTED);
  kill_party(&t, 0);
  CHECK(steal(&t, 2, "n").status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 1);
  CHECK(is_letter(&mail, &living, WLH_REPORTED_STOLEN));
  CHECK(wlh_cells_reap(inside(&t, 1)));
  CHECK(if_available(1, "n").status == WLH_CELLS_NOT_AVAILABLE);
  stop();
}

TEST(victims_death, "a victim that dies before it hears of a theft leaves nothing")
{
  start();
  struct made lock = shared_of(0, 2, 1);
  CHECK(lock.status == WLH_CELLS_GRANTED);
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  kill_party(&t, 0);
  CHECK(wlh_cells_reap(inside(&t, 2)));
  CHECK(t.segment->cells[lock.request].kind == WLH_KIND_FREE);
  stop();
}

/* ---- the segment ---- */

TEST(full_steal, "a theft finds a cell in a segment that is full")
{
  start();
  struct made last, held = want(&t, 0, "n");
  while ((last = want_shared(&t, 2, "m")).status == WLH_CELLS_GRANTED) continue;
  CHECK(last.status == WLH_CELLS_FULL && wlh_cells_free_count(inside(&t, 0)) > 0);
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  struct mail mail = mail_of(&t, 0);
  CHECK(is_letter(&mail, &held, WLH_REPORTED_STOLEN));
  stop();
}

TEST(full_of_dead, "a segment that is full of the dead's is not full")
{
  start();
  while (want_shared(&t, 0, "m").status == WLH_CELLS_GRANTED) continue;
  kill_party(&t, 0);
  CHECK(want(&t, 1, "n").status == WLH_CELLS_GRANTED);
  stop();
}

TEST(grew, "who does not know how long the file is now is told to look")
{
  start();
  t.parties[1].arena.bytes = wlh_segment_bytes(64);
  CHECK(wlh_cells_grow(inside(&t, 0), 128) == WLH_CELLS_OK);
  CHECK(wlh_cells_begin(&t.parties[1].arena, 1) == WLH_CELLS_GREW);
  t.parties[1].arena.bytes = wlh_segment_bytes(128);
  CHECK(wlh_cells_begin(&t.parties[1].arena, 1) == WLH_CELLS_OK);
  CHECK(t.parties[1].arena.ncells == 128);
  stop();
}

TEST(formats, "tokens and generations go on through formatting, not through a boot")
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

TEST(two_holders, "two exclusive holders of a name are damage")
{
  start();
  struct made first = want(&t, 0, "n"), second = want(&t, 1, "n");
  CHECK(first.status == WLH_CELLS_GRANTED);
  t.segment->cells[second.request].request.token = 2;
  t.segment->cells[second.request].kind = WLH_KIND_HELD;
  CHECK(wrong(&t, 2) != NULL);
  CHECK(wlh_cells_rebuild(inside(&t, 2)) == WLH_CELLS_POISONED);
  CHECK(t.segment->header.poisoned == 1);
  table_end(&t);
}

/* ---- numbers that cannot be ---- */

/* Somebody who sees the segment for the first time. */
static enum wlh_cells_status see_anew(struct wlh_arena *arena)
{
  wlh_cells_attach(arena, t.segment, t.bytes, 9, t.parties[0].arena.alive, &t);
  return wlh_cells_begin(arena, 5);
}

TEST(zeros, "a header of zeros is damage, also to who sees it for the first time")
{
  struct wlh_arena arena;
  start();
  memset(&t.segment->header, 0, sizeof t.segment->header);
  CHECK(see_anew(&arena) == WLH_CELLS_POISONED);
  CHECK(t.segment->header.poisoned == 1);
  CHECK(wlh_cells_end_the_request(&arena, UINT32_MAX, 1) == WLH_CELLS_POISONED);
  CHECK(wlh_cells_begin(&t.parties[0].arena, 6) == WLH_CELLS_POISONED);
  table_end(&t);
}

TEST(odd_counts, "a number of cells or members that cannot be is damage, also while it is open")
{
  static const uint32_t counts[] = {0, 1, 32, 65, 96, 100, 127, 192, 1u << 21, UINT32_MAX};
  for (size_t i = 0; i <= sizeof counts / sizeof *counts; i++) {
    struct wlh_arena arena;
    start();
    if (i < sizeof counts / sizeof *counts)
      t.segment->header.ncells = counts[i];
    else
      t.segment->header.nmembers = WLH_MEMBERS + 1;
    CHECK(wlh_cells_begin(&t.parties[1].arena, 5) == WLH_CELLS_POISONED);
    t.segment->header.poisoned = 0;
    CHECK(see_anew(&arena) == WLH_CELLS_POISONED);
    table_end(&t);
  }
}

TEST(
    counts_back,
    "a token or a ticket that goes back while it is open is damage, and so is another key")
{
  for (int what = 0; what < 3; what++) {
    start();
    struct wlh_header *header = &t.segment->header;
    header->token = 7;
    CHECK(wlh_cells_begin(&t.parties[1].arena, 5) == WLH_CELLS_OK);
    if (what == 0) header->token = 6;
    if (what == 1) header->ticket = 0;
    if (what == 2) header->hash_key[1] ^= 1;
    CHECK(wlh_cells_begin(&t.parties[1].arena, 6) == WLH_CELLS_POISONED);
    table_end(&t);
  }
}

TEST(token_back, "a token that goes back within a turn is damage, and granted to nobody")
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

TEST(fewer_cells, "cells never become fewer while it is open")
{
  start();
  CHECK(wlh_cells_grow(inside(&t, 0), 128) == WLH_CELLS_OK);
  t.segment->header.ncells = 64;
  CHECK(wlh_cells_begin(&t.parties[0].arena, 5) == WLH_CELLS_POISONED);
  table_end(&t);
}

/* A snapshot with little room. */
static enum wlh_cells_status snapshot_here(int party, uint32_t *units)
{
  static struct wlh_entry entries[4];
  static struct wlh_client clients[4];
  static uint16_t text[16];
  struct wlh_view view = {entries, clients, text, 4, 4, 16, 0, 0, 0};
  enum wlh_cells_status status = wlh_cells_snapshot_the_lock_state(inside(&t, party), &view);
  *units = view.unit_count;
  return status;
}

TEST(long_texts, "a length that no text can have is damage to who reads it, and asks for no memory")
{
  for (int which = 0; which < 3; which++) {
    uint32_t units;
    table_begin(&t, 1024, 1024);
    struct made made = want(&t, 0, "n");
    struct wlh_request_cell *request = &t.segment->cells[made.request].request;
    CHECK(snapshot_here(1, &units) == WLH_CELLS_OK && units == 5);
    if (which == 0) request->label_units = WLH_LABEL_MOST + 1;
    if (which == 1) t.segment->cells[request->resource].resource.units = WLH_NAME_MOST + 1;
    if (which == 2) t.segment->cells[request->agent].agent.units = WLH_THREAD_NAME_UNITS + 1;
    CHECK(snapshot_here(1, &units) == WLH_CELLS_POISONED);
    CHECK(units < 10);
    table_end(&t);
  }
}

/* ---- zeros behind the header ---- */

enum { HEADS = WLH_CELLS_LEAST, ALL_CELLS, ALL_BEHIND, PARTS };

/* Zeros a cell, the heads of all buckets, all cells, or everything but the header. */
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

TEST(zeroed, "whatever part of the tables becomes zeros, what is held is not granted to others")
{
  for (uint32_t part = 0; part < PARTS; part++) {
    start();
    (void)hold_long_name();
    zero_part(part);
    struct wlh_ask ask = {.option = WLH_IF_AVAILABLE};
    if (wlh_cells_add_agent(inside(&t, 1), 9, 9, NULL, 0, &ask.agent) == WLH_CELLS_OK)
      CHECK(make(&t, 1, long_name, ask).status != WLH_CELLS_GRANTED);
    CHECK(want_shared(&t, 2, long_name).status != WLH_CELLS_GRANTED);
    table_end(&t);
  }
}

TEST(zeroed_dead, "nor by what repairs the tables after a death")
{
  for (uint32_t part = 0; part <= ALL_CELLS; part++) {
    start();
    (void)hold_long_name();
    kill_party(&t, 3);
    zero_part(part);
    enum wlh_cells_status status = wlh_cells_rebuild(inside(&t, 2));
    CHECK((status == WLH_CELLS_OK) == (part == HEADS)); /* which are made anew from the cells */
    CHECK(if_available(1, long_name).status != WLH_CELLS_GRANTED);
    table_end(&t);
  }
}

TEST(zeroed_state, "a member of whom it is not known whether it is in does not lose what it holds")
{
  start();
  (void)hold_long_name();
  t.segment->members[0].state = 0;
  CHECK(wlh_cells_rebuild(inside(&t, 2)) == WLH_CELLS_POISONED);
  CHECK(if_available(1, long_name).status != WLH_CELLS_GRANTED);
  table_end(&t);
}

TEST(zeroed_unseen, "zeros behind the header are damage to who sees them for the first time")
{
  struct wlh_arena arena;
  start();
  zero_part(ALL_BEHIND);
  CHECK(see_anew(&arena) == WLH_CELLS_POISONED);
  table_end(&t);
}

TEST(zeroed_snapshot, "a snapshot of zeros is not one of nothing")
{
  static struct wlh_entry entries[4];
  start();
  struct made made = hold_long_name();
  struct wlh_view view = {.entries = entries, .entry_capacity = 4};
  zero_part(t.segment->cells[made.request].request.resource);
  CHECK(wlh_cells_snapshot_the_lock_state(inside(&t, 1), &view) == WLH_CELLS_POISONED);
  table_end(&t);
}

/* Whether party 0 finds what it has. */
static bool has_own(const struct made *made)
{
  const struct wlh_arena *arena = &t.parties[0].arena;
  return wlh_cells_has_member(arena) && wlh_cells_has_agent(arena, t.parties[0].agents[0]) &&
         wlh_cells_has_request(arena, made->request, made->cookie);
}

TEST(own_zeroed, "a process finds out that what it has was overwritten")
{
  static const uint8_t with[] = {0, 0x55, 0xff};
  for (uint32_t what = 0; what < 6; what++)
    for (size_t i = 0; i < sizeof with; i++) {
      start();
      struct made made = hold_long_name();
      uint32_t resource = t.segment->cells[made.request].request.resource;
      CHECK(has_own(&made));
      if (what == 0) memset(&t.segment->cells[made.request], with[i], WLH_CELL_BYTES);
      if (what == 1) memset(&t.segment->cells[resource], with[i], WLH_CELL_BYTES);
      if (what == 2) memset(&t.segment->cells[t.parties[0].agents[0]], with[i], WLH_CELL_BYTES);
      if (what == 3) memset(&t.segment->members[0], with[i], sizeof t.segment->members[0]);
      if (what == 4) memset(&t.segment->header, with[i], sizeof t.segment->header);
      if (what == 5) memset(&t.segment->cells[0], with[i], WLH_CELL_BYTES);
      CHECK(!has_own(&made));
      table_end(&t);
    }
}

TEST(own_unlisted, "a process finds out that others do not find what it has")
{
  for (uint32_t what = 0; what < 5; what++) {
    start();
    struct made first = shared_of(1, 5, 1), lock = shared_of(0, 5, 1), last = shared_of(2, 5, 1);
    CHECK(first.status == WLH_CELLS_GRANTED && last.status == WLH_CELLS_GRANTED);
    CHECK(has_own(&lock));
    union wlh_cell *cells = t.segment->cells;
    struct wlh_resource_cell *name = &cells[cells[lock.request].request.resource].resource;
    if (what == 0) memset(&cells[HEADS], 0xff, HEADS * sizeof(uint32_t));
    if (what == 1) memset(&cells[HEADS], 0, HEADS * sizeof(uint32_t));
    if (what == 2) name->hash++;
    if (what == 3) cells[first.request].request.links[WLH_BY_RESOURCE].next = last.request;
    if (what == 4) cells[last.request].request.links[WLH_BY_RESOURCE].prev = 0;
    CHECK(!has_own(&lock));
    table_end(&t);
  }
  start();
  struct made lock = want(&t, 0, "n");
  struct wlh_request_cell *cell = &t.segment->cells[lock.request].request;
  t.segment->cells[cell->resource].resource.held = (struct wlh_list){0};
  CHECK(!has_own(&lock));
  table_end(&t);
}

TEST(own_whole, "a process finds what it has, whatever others do with it")
{
  start();
  struct made made = want(&t, 1, "n"), waiting = want(&t, 0, "n");
  CHECK(has_own(&waiting));
  CHECK(drop(&t, &made) == WLH_CELLS_OK); /* granted, untold */
  CHECK(has_own(&waiting));
  CHECK(steal(&t, 1, "n").status == WLH_CELLS_GRANTED);
  CHECK(has_own(&waiting));
  CHECK(wlh_cells_grow(inside(&t, 2), 256) == WLH_CELLS_OK);
  CHECK(wlh_cells_begin(&t.parties[0].arena, 9) == WLH_CELLS_OK);
  CHECK(has_own(&waiting));
  kill_party(&t, 1);
  CHECK(wlh_cells_reap(inside(&t, 2)));
  CHECK(has_own(&waiting));
  CHECK(drop(&t, &waiting) == WLH_CELLS_STOLEN);
  CHECK(!has_own(&waiting));
  stop();
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

TEST(marks, "who gets the lock learns of the mark, at once or by mail, until its time is over")
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
    marks_stay, "a theft leaves the mark; who was robbed sets none; a limit ends with its requests")
{
  start();
  mark(0, "n", 10);
  struct made limited = shared_of(0, 2, 1), thief = steal(&t, 1, "n");
  CHECK(limited.marked && thief.marked);
  CHECK(drop_and_mark(&t, &limited, 1000) == WLH_CELLS_STOLEN);
  CHECK(drop(&t, &thief) == WLH_CELLS_OK);
  CHECK(shared_of(2, 3, 1).status == WLH_CELLS_GRANTED);
  kill_party(&t, 2);
  CHECK(wlh_cells_reap(inside(&t, 0)));
  CHECK(shared_of(1, 4, 1).status == WLH_CELLS_GRANTED);
  t.time += 11;
  stop();
}

TEST(
    marks_outlive,
    "marks outlive all members and growth, and are kept when nobody has the file open")
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

TEST(marks_torn, "of another boot, a mark that is not whole is none, whatever else the cells have")
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

TEST(marks_make_room, "names whose marks are over are freed before the segment grows")
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

/* ---- snapshots ---- */

TEST(snapshot, "a snapshot has who holds and waits, with label, token and limit")
{
  static const uint16_t label[] = {'l', 'a'}, name[] = {'n'};
  struct wlh_entry entries[4];
  struct wlh_client clients[4];
  uint16_t units[32];
  struct wlh_view view = {entries, clients, units, 4, 4, 32, 0, 0, 0};
  start();
  struct wlh_ask ask = {
      .mode = WLH_SHARED, .limit = 3, .weight = 2, .label = label, .label_units = 2};
  CHECK(make(&t, 1, "n", ask).status == WLH_CELLS_GRANTED);
  CHECK(want(&t, 2, "n").status == WLH_CELLS_PENDING);
  CHECK(wlh_cells_snapshot_the_lock_state(inside(&t, 0), &view) == WLH_CELLS_OK);
  CHECK(view.entry_count == 2 && view.client_count == 2);
  const struct wlh_client *client = &clients[entries[0].client];
  CHECK(entries[0].held == 1 && entries[0].limit == 3 && entries[0].weight == 2);
  CHECK(entries[0].token == 1 && entries[1].token == 0 && entries[1].held == 0);
  CHECK(client->pid == 4001 && client->id == 101 && client->number == 1);
  CHECK(client->name_units == 4 && units[client->name] == 'm');
  CHECK(entries[0].label_units == 2 && units[entries[0].label + 1] == 'a');
  CHECK(entries[0].name_units == 1 && units[entries[0].name] == 'n');
  CHECK(wlh_cells_snapshot_a_name(inside(&t, 0), name, 1, false, &view) == WLH_CELLS_OK);
  CHECK(view.entry_count == 1 && view.client_count == 1);
  stop();
}

TEST(small_snapshot, "a snapshot without room says how much it needs")
{
  struct wlh_view view = {0};
  start();
  CHECK(want_shared(&t, 1, "abc").status == WLH_CELLS_GRANTED);
  CHECK(want_shared(&t, 2, "abc").status == WLH_CELLS_GRANTED);
  CHECK(wlh_cells_snapshot_the_lock_state(inside(&t, 0), &view) == WLH_CELLS_FULL);
  CHECK(view.entry_count == 2 && view.client_count == 2 && view.unit_count >= 3);
  stop();
}

/* Whether a snapshot of "n", of one lock, tells so many times this letter. */
static bool tells(char letter, uint32_t length)
{
  static const uint16_t name[] = {'n'};
  static uint16_t units[WLH_DATA_MOST + 64];
  struct wlh_entry entries[4];
  struct wlh_client clients[4];
  struct wlh_view view = {entries, clients, units, 4, 4, WLH_DATA_MOST + 64, 0, 0, 0};
  CHECK(wlh_cells_snapshot_a_name(inside(&t, 0), name, 1, true, &view) == WLH_CELLS_OK);
  bool same = view.entry_count > 0 && entries[0].data_units == length;
  for (uint32_t i = 0; same && i < length; i++)
    same = units[entries[0].data + i] == (uint16_t)letter;
  for (uint32_t i = 1; i < view.entry_count; i++) same = same && entries[i].data_units == 0;
  return same && wrong(&t, 0) == NULL;
}

TEST(published, "a snapshot tells what a lock has published last, until the lock ends")
{
  start();
  struct made made = want(&t, 1, "n");
  struct made waiting = want(&t, 2, "n");
  CHECK(tells('-', 0));
  CHECK(publish(&t, &made, 'a', 1) == WLH_CELLS_OK && tells('a', 1));
  CHECK(publish(&t, &made, 'b', 61) == WLH_CELLS_OK && tells('b', 61));
  CHECK(publish(&t, &made, 'c', 60) == WLH_CELLS_OK && tells('c', 60));
  CHECK(publish(&t, &made, 'd', 0) == WLH_CELLS_OK && tells('-', 0));
  CHECK(publish(&t, &made, 'e', 120) == WLH_CELLS_OK && tells('e', 120));
  CHECK(publish(&t, &waiting, 'f', 1) == WLH_CELLS_NOT_HELD && tells('e', 120));
  CHECK(drop(&t, &made) == WLH_CELLS_OK && tells('-', 0));
  CHECK(publish(&t, &made, 'g', 1) == WLH_CELLS_LOST && tells('-', 0));
  CHECK(publish(&t, &waiting, 'h', 1) == WLH_CELLS_OK && tells('h', 1));
  stop();
}

TEST(published_late, "a lock that was stolen publishes nothing, and leaves nothing")
{
  start();
  struct made robbed = want(&t, 1, "n");
  CHECK(publish(&t, &robbed, 'a', 100) == WLH_CELLS_OK);
  struct made thief = steal(&t, 2, "n");
  CHECK(publish(&t, &robbed, 'b', 1) == WLH_CELLS_STOLEN && tells('-', 0));
  CHECK(publish(&t, &thief, 'c', 1) == WLH_CELLS_OK && tells('c', 1));
  CHECK(drop(&t, &robbed) == WLH_CELLS_STOLEN && tells('c', 1));
  stop();
}

TEST(published_much, "the longest text needs a larger segment, and a rebuild keeps it")
{
  start();
  inside(&t, 1)->bytes = t.bytes;
  struct made made = want(&t, 1, "n");
  CHECK(publish(&t, &made, 'a', WLH_DATA_MOST) == WLH_CELLS_FULL && tells('-', 0));
  CHECK(wlh_cells_grow(inside(&t, 1), 256) == WLH_CELLS_OK);
  CHECK(publish(&t, &made, 'a', WLH_DATA_MOST) == WLH_CELLS_OK && tells('a', WLH_DATA_MOST));
  kill_party(&t, 2);
  CHECK(wlh_cells_reap(inside(&t, 0)) && tells('a', WLH_DATA_MOST));
  kill_party(&t, 1);
  stop();
}

int main(void)
{
  return run_tests();
}
