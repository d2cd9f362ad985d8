/* Damages segments. Bytes are operations on a few names; some of them overwrite anything in the
 * segment, between two operations or between two reads of one (WLH_LOOKS). No operation may read or
 * write outside of the segment, and none may run for ever. A rebuild either finds the damage or
 * leaves a segment in which every invariant holds: no two holders exclude each other.
 *
 * This is a libFuzzer target. With -DWLH_STANDALONE its own main() makes up the bytes. */
#include "table.h"

#include <stdlib.h>
#include <string.h>
#if defined(WLH_STANDALONE)
#include <unistd.h>
#endif

enum { MOST = 24, ROOM = 128 };

static struct table table;
static struct made all[MOST];
static bool damaged; /* since the last rebuild */
static bool lasting; /* damage that no rebuild repairs */
static long rebuilt, found;

/* ---- damage ---- */

/* The damage to come: after how many looks, where, in which field, and how. */
static struct {
  long looks; /* 0: none */
  bool here;  /* at the place of that look, not at `where` */
  uint8_t where, field, how;
} planned;

/* A number that may lead somewhere else. */
static uint32_t twist(uint8_t how, uint32_t old, uint32_t ncells)
{
  static const uint32_t numbers[] = {0, 1, 2, 7, 8, UINT32_MAX, 0x80000000, 0x7fffffff};
  if (how < 128) return how % ncells;
  if (how < 160) return 9 + how % 64 * 1000003u;
  if (how < 192) return old ^ (1u << (how % 32));
  return numbers[how % 8];
}

/* Whether formatting the segment sets this word, such as the key of its hashes. A process that has
 * seen the segment notices damage there, and poisons it. A process that opens it later believes the
 * word, and rebuilds with it. */
static bool is_given(const uint32_t *place)
{
  const struct wlh_header *header = &table.segment->header;
  const char *at = (const char *)place;
  const char *begin = (const char *)header;
  if (at < begin || at >= begin + sizeof *header) return false;
  size_t offset = (size_t)(at - begin);
  return offset < offsetof(struct wlh_header, retired) ||
         offset == offsetof(struct wlh_header, nmembers) ||
         (offset >= offsetof(struct wlh_header, hash_key) &&
          offset < offsetof(struct wlh_header, free));
}

static void overwrite(uint32_t *place, uint8_t how)
{
  uint32_t value;
  memcpy(&value, place, sizeof value);
  value = twist(how, value, table.parties[0].arena.ncells);
  memcpy(place, &value, sizeof value);
  damaged = true;
  lasting = lasting || is_given(place);
}

/* Turns a waiting request into a lock, which the library never does like this. */
static void promote(const struct made *made)
{
  struct wlh_request_cell *cell = &table.segment->cells[made->request].request;
  if (made->request == 0 || cell->kind != WLH_KIND_PENDING) return;
  cell->token = ++table.segment->header.token;
  cell->kind = WLH_KIND_HELD;
  damaged = true;
}

static void damage(uint8_t where, uint8_t field, uint8_t how)
{
  struct wlh_segment *segment = table.segment;
  uint32_t ncells = table.parties[0].arena.ncells;
  uint32_t *cells = (uint32_t *)(void *)segment->cells;
  if (where < 200) {
    /* Most damage hits the beginning of a cell, which every operation reads. */
    uint32_t word = field & 0x80 ? field % 32 : field % 16;
    overwrite(cells + (where % ncells) * 32 + word, how);
  } else if (where < 220) {
    overwrite(cells + ncells * 32 + field % ncells, how);
  } else if (where < 240) {
    overwrite((uint32_t *)(void *)&segment->members[field % 6] + where % 16, how);
  } else if (where < 246) {
    promote(&all[field % MOST]);
  } else {
    /* The word that poisons the segment stays, as it is the way out. */
    uint32_t word = field % 64;
    if (word != 7) overwrite((uint32_t *)(void *)&segment->header + word, how);
  }
}

/* The library calls this when it has read this number, or is about to read this cell. */
void wlh_look(const void *place, size_t size)
{
  if (planned.looks == 0 || --planned.looks > 0) return;
  if (!planned.here)
    damage(planned.where, planned.field, planned.how);
  else if (place != &table.segment->cells[0]) /* its kind never changes */
    overwrite((uint32_t *)(uintptr_t)place + planned.field % (size / 4), planned.how);
}

/* Damages now, if `delay` is 0, or during a later operation. */
static void damage_at(uint8_t delay, const uint8_t *data)
{
  planned.looks = (long)delay * delay;
  planned.here = data[1] % 2 != 0;
  planned.where = data[1];
  planned.field = data[2];
  planned.how = data[3];
  if (delay == 0) damage(data[1], data[2], data[3]);
}

/* ---- operations ---- */

static void must_be_whole(int party)
{
  planned.looks = 0;
  const char *sentence = wrong(&table, party);
  if (!sentence) return;
  (void)fprintf(stderr, "after a rebuild: %s\n", sentence);
  abort();
}

static void do_rebuild(int party)
{
  struct wlh_arena *arena = &table.parties[party].arena;
  bool before = damaged;
  damaged = lasting; /* unless new damage comes during the rebuild */
  enum wlh_cells_status status = wlh_cells_begin(arena, 1);
  if (status != WLH_CELLS_OK && status != WLH_CELLS_LOST) {
    damaged = damaged || before;
    return;
  }
  rebuilt++;
  if (wlh_cells_rebuild(arena) != WLH_CELLS_OK)
    found++;
  else if (!damaged)
    must_be_whole(party);
}

static void do_request(int party, uint8_t argument, uint8_t more)
{
  static const char *names[] = {
      "a", "b", "a name of more than thirty-eight code units",
      "a name of more than ninety-eight code units, so that more than one cell is needed behind "
      "the "
      "first"};
  static const uint16_t label[70];
  struct wlh_ask ask = {
      .mode = argument & 0x40,
      .option = more % 8 < 4 ? WLH_WAIT : more % 8 - 3,
      .limit = more & 0x20 ? 3 : 0,
      .weight = more & 0x20 ? 1 + argument % 3 : 0,
      .priority = more & 0x80 ? argument / 4 % 4 - 2 : 0,
      .label = label,
      .label_units = more & 0x40 ? 70 : 0,
  };
  ask.mode = ask.mode != 0 && ask.option != WLH_STEAL;
  int id = 0;
  while (id < MOST && all[id].request != 0) id++;
  if (id == MOST) return;
  struct made made = make(&table, party, names[argument % 4], ask);
  if (made.status == WLH_CELLS_GRANTED || made.status == WLH_CELLS_PENDING) all[id] = made;
}

/* The offsets of a snapshot must lie within it, because its reader trusts them. */
static void must_be_within(const struct wlh_view *view)
{
  for (uint32_t i = 0; i < view->entry_count; i++) {
    const struct wlh_entry *entry = &view->entries[i];
    if (entry->client >= view->client_count || entry->name > view->unit_count ||
        entry->name_units > view->unit_count - entry->name || entry->label > view->unit_count ||
        entry->label_units > view->unit_count - entry->label) {
      (void)fprintf(stderr, "a snapshot leads out of itself\n");
      abort();
    }
  }
}

static void do_view(int party)
{
  static struct wlh_entry entries[8];
  static struct wlh_client clients[4];
  static uint16_t units[200];
  struct wlh_view view = {entries, clients, units, 8, 4, 200, 0, 0, 0};
  static const uint16_t name[] = {'a'};
  enum wlh_cells_status status = wlh_cells_snapshot_the_lock_state(inside(&table, party), &view);
  if (status == WLH_CELLS_OK) must_be_within(&view);
  /* A caller allocates as much as this. */
  if (status == WLH_CELLS_FULL && view.unit_count > ROOM * (WLH_NAME_MOST + 2 * WLH_LABEL_MOST))
    abort();
  (void)wlh_cells_snapshot_a_name(inside(&table, party), name, 1, true, &view);
  if (wlh_cells_find_holders(table.segment, table.bytes, name, 1, &view) == WLH_CELLS_OK)
    must_be_within(&view);
  (void)wrong(&table, party);
}

static void do_one(struct made *made, uint8_t how)
{
  if (made->request == 0) return;
  struct wlh_arena *arena = inside(&table, made->party);
  if (how == 0) (void)wlh_cells_waits_for_itself(arena, made->request, made->cookie);
  if (how == 1) (void)give_up(&table, made);
  if (how == 2) (void)drop(&table, made);
  if (how == 3) (void)wlh_cells_end_the_request(arena, made->request, made->cookie);
  if (how != 0) made->request = 0;
}

static void do_agent(int party, bool end)
{
  static const uint16_t name[64];
  uint32_t *agent = &table.parties[party].agents[0];
  if (!end) return;
  (void)wlh_cells_terminate_agent(inside(&table, party), *agent);
  for (int i = 0; i < MOST; i++)
    if (all[i].party == party) all[i].request = 0;
  (void)wlh_cells_add_agent(inside(&table, party), 0, 7, name, 64, agent);
}

/* A process dies or leaves, and joins anew. */
static void do_member(int party, uint8_t how)
{
  table.dead[party] = true;
  if (how % 3 == 0) (void)wlh_cells_reap(inside(&table, (party + 1) % PARTIES));
  table.dead[party] = false;
  struct wlh_arena *arena = inside(&table, party);
  if (how % 3 == 1) (void)wlh_cells_drop_member(arena);
  (void)wlh_cells_join(arena, how, how, "a version that is too long to be kept");
  for (int i = 0; i < MOST; i++)
    if (all[i].party == party) all[i].request = 0;
  for (uint32_t i = 0; i < AGENTS_EACH; i++)
    (void)wlh_cells_add_agent(arena, i, i, NULL, 0, &table.parties[party].agents[i]);
}

/* A process opens the segment as if it saw it for the first time. */
static void do_open(int party)
{
  struct wlh_arena *arena = &table.parties[party].arena;
  wlh_cells_attach(
      arena, table.segment, table.bytes, (uint32_t)party, table.parties[0].arena.alive, &table);
  enum wlh_cells_status status = wlh_cells_begin(arena, 1);
  if (status == WLH_CELLS_OK) do_member(party, 2);
}

static void operate(const uint8_t *data)
{
  int party = data[1] % PARTIES;
  switch (data[0] % 16) {
  case 0:
  case 1:
    damage_at(data[0] / 16, data);
    break;
  case 2:
    do_rebuild(party);
    break;
  case 3:
    do_view(party);
    break;
  case 4:
    if (data[2] & 2)
      do_open(party);
    else
      do_agent(party, data[2] & 1);
    break;
  case 5:
    do_member(party, data[2]);
    break;
  case 6:
    (void)wlh_cells_grow(inside(&table, party), ROOM);
    break;
  case 7:
  case 8:
    (void)mail_of(&table, party);
    break;
  case 9:
  case 10:
  case 11:
    do_one(&all[data[2] % MOST], data[1] % 4);
    break;
  default:
    do_request(party, data[2], data[3]);
    break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
  memset(all, 0, sizeof all);
  damaged = lasting = false;
  planned.looks = 0;
  /* The segment is exactly as long as it has to be, so that a sanitizer sees its end. */
  uint32_t room = size > 0 && data[0] & 1 ? ROOM : WLH_CELLS_LEAST;
  table_begin(&table, WLH_CELLS_LEAST, room);
  for (size_t i = 1; i + 3 < size; i += 4) {
    operate(data + i);
    bool poisoned = atomic_load(&table.segment->header.poisoned) != 0;
    if (!damaged && !poisoned) must_be_whole(1);
  }
  do_rebuild(1);
  table_end(&table);
  return 0;
}

#if defined(WLH_STANDALONE)
int main(int argc, char **argv)
{
  long rounds = argc > 1 ? atol(argv[1]) : 1000;
  (void)alarm(600); /* ends a run that would never end */
  for (long round = 0; round < rounds; round++) {
    static uint8_t data[400];
    uint64_t seed = (uint64_t)round;
    for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)draw(&seed, 256);
    /* A run begins without damage, and then has little. */
    for (size_t i = 1; i < sizeof data; i += 4)
      if (data[i] % 16 < 2 && (i < 120 || round % 3 > 0)) data[i] = (uint8_t)(12 + i % 4);
    for (size_t i = 121; i < 121 + 4 * (1 + (size_t)round % 4); i += 4)
      data[i] = (uint8_t)(round % 2 == 0 ? 0 : data[i] & 0xf0);
    if (round % 8 == 0) data[122] = 240;
    (void)LLVMFuzzerTestOneInput(data, (size_t)(140 + round % 260));
  }
  printf("ok - %ld damaged segments; of %ld rebuilds %ld found damage\n", rounds, rebuilt, found);
  return 0;
}
#endif
