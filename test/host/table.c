#include "table.h"

#include "../../src/host/segment/store.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t key[2] = {UINT64_C(0x0123456789abcdef), UINT64_C(0xfedcba9876543210)};

static bool lives(void *data, uint32_t member)
{
  struct table *table = data;
  return !table->dead[member];
}

static uint64_t now = 1000;
static uint64_t mark_now; /* the time of the table that is in use */

/* Replace the clocks of both cores' marks (Makefile). */
double __wrap_wlk_port_continuous_now(void);
double __wrap_wlk_port_continuous_now(void)
{
  return (double)mark_now;
}

uint64_t __wrap_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact)
{
  (void)exact;
  return mark_now;
}

void pass_time(struct table *table, uint64_t ms)
{
  mark_now = table->time += ms;
}

/* Tests that interrupt the library at its steps define these functions themselves. */
__attribute__((weak)) void wlh_step(volatile void *place, size_t size)
{
  (void)place, (void)size;
}

__attribute__((weak)) void wlh_step_commit(void) {}

__attribute__((weak)) void wlh_look(const void *place, size_t size)
{
  (void)place, (void)size;
}

void table_begin(struct table *table, uint32_t ncells, uint32_t room)
{
  memset(table, 0, sizeof *table);
  pass_time(table, 1000);
  table->bytes = wlh_segment_bytes(room);
  table->segment = calloc(1, (size_t)table->bytes);
  if (!table->segment) abort();
  wlh_cells_format(table->segment, ncells, 7, key);
  atomic_store(&table->segment->header.magic, WLH_MAGIC);
  for (int i = 0; i < PARTIES; i++) {
    static const uint16_t thread[] = {'m', 'a', 'i', 'n'};
    struct party *party = &table->parties[i];
    wlh_cells_attach(&party->arena, table->segment, table->bytes, (uint32_t)i, lives, table);
    struct wlh_arena *arena = inside(table, i);
    if (wlh_cells_join(arena, 100 + (uint64_t)i, 4000 + (uint32_t)i, "0.2.0") != WLH_CELLS_OK)
      abort();
    for (uint32_t j = 0; j < AGENTS_EACH; j++)
      if (wlh_cells_add_agent(arena, i == 0 ? 0 : j, j + 1, thread, 4, &party->agents[j]) !=
          WLH_CELLS_OK)
        abort();
  }
  for (int i = 0; i < PARTIES; i++) (void)rung_by(table, i);
}

void table_end(struct table *table)
{
  free(table->segment);
}

struct wlh_arena *inside(struct table *table, int party)
{
  struct wlh_arena *arena = &table->parties[party].arena;
  (void)wlh_cells_begin(arena, ++now);
  mark_now = table->time;
  return arena;
}

struct made make_units(
    struct table *table, int party, const uint16_t *name, uint32_t units, struct wlh_ask ask)
{
  struct wlh_answer answer;
  ask.name = name;
  ask.name_units = units;
  ask.cookie = ++table->cookies;
  if (ask.agent == 0) ask.agent = table->parties[party].agents[0];
  enum wlh_cells_status status = wlh_cells_request_a_lock(inside(table, party), &ask, &answer);
  return (struct made){status,        answer.request, ask.cookie, answer.token,
                       answer.marked, answer.limit,   party};
}

struct made make(struct table *table, int party, const char *name, struct wlh_ask ask)
{
  uint16_t units[512];
  uint32_t length = (uint32_t)strlen(name);
  for (uint32_t i = 0; i < length; i++) units[i] = (unsigned char)name[i];
  return make_units(table, party, units, length, ask);
}

struct made want(struct table *table, int party, const char *name)
{
  return make(table, party, name, (struct wlh_ask){.mode = WLH_EXCLUSIVE});
}

struct made want_shared(struct table *table, int party, const char *name)
{
  return make(table, party, name, (struct wlh_ask){.mode = WLH_SHARED});
}

struct made steal(struct table *table, int party, const char *name)
{
  return make(table, party, name, (struct wlh_ask){.option = WLH_STEAL});
}

enum wlh_cells_status drop_and_mark(struct table *table, const struct made *made, uint64_t keep)
{
  struct wlh_thief thief;
  return wlh_cells_release_the_lock(
      inside(table, made->party), made->request, made->cookie, keep, &thief);
}

enum wlh_cells_status drop(struct table *table, const struct made *made)
{
  return drop_and_mark(table, made, 0);
}

enum wlh_cells_status publish(
    struct table *table, const struct made *made, char letter, uint32_t units)
{
  uint16_t text[WLH_DATA_MOST];
  uint32_t needed;
  for (uint32_t i = 0; i < units; i++) text[i] = (uint16_t)letter;
  return wlh_cells_publish(
      inside(table, made->party), made->request, made->cookie, text, units, &needed);
}

bool has_mark(struct table *table, int party, const char *name)
{
  struct made made = want(table, party, name);
  CHECK(made.status == WLH_CELLS_GRANTED && drop(table, &made) == WLH_CELLS_OK);
  return made.marked;
}

enum wlh_cells_status give_up(struct table *table, const struct made *made)
{
  return wlh_cells_abort_the_request(inside(table, made->party), made->request, made->cookie);
}

struct mail mail_of(struct table *table, int party)
{
  struct mail mail;
  mail.count = wlh_cells_take_messages(inside(table, party), mail.letters, 64);
  return mail;
}

bool is_letter(const struct mail *mail, const struct made *made, uint32_t news)
{
  const struct wlh_message *letter = &mail->letters[0];
  return mail->count == 1 && letter->cookie == made->cookie && letter->request == made->request &&
         letter->news == news;
}

uint64_t rung_by(struct table *table, int party)
{
  uint64_t bits = table->parties[party].arena.to_notify[0];
  memset(table->parties[party].arena.to_notify, 0, sizeof table->parties[party].arena.to_notify);
  return bits;
}

void kill_party(struct table *table, int party)
{
  table->dead[party] = true;
}

const char *wrong(struct table *table, int party)
{
  return wlh_cells_check(inside(table, party));
}

uint32_t draw(uint64_t *seed, uint32_t below)
{
  *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)((*seed >> 33) % below);
}
