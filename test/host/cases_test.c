/* The cases of test/fixtures/cases.json in the cells of the host scope, each agent in a process of its
 * own, which dies where the agent ends. */
#include "../core/cases.h"
#include "table.h"

#include <string.h>

static struct table t;
static struct made all[CASE_REQUESTS];
static bool ended[PARTIES];

static const char *const words[] = {
    [WLH_CELLS_OK] = "done",
    [WLH_CELLS_GRANTED] = "granted",
    [WLH_CELLS_PENDING] = "waits",
    [WLH_CELLS_NOT_HELD] = "waits",
    [WLH_CELLS_NOT_AVAILABLE] = "unavailable",
    [WLH_CELLS_STOLEN] = "stolen",
    [WLH_CELLS_OTHER_LIMIT] = "limit",
    [WLH_CELLS_QUEUE_FULL] = "full",
    [WLH_CELLS_FULL] = "no room",
    [WLH_CELLS_GREW] = "grew",
    [WLH_CELLS_LOST] = "lost",
    [WLH_CELLS_POISONED] = "poisoned",
};

static void start(void)
{
  memset(ended, 0, sizeof ended);
  table_begin(&t, WLH_CELLS_LEAST, WLH_CELLS_LEAST);
}

/* Whatever was tested: all is whole, and nothing is left once all have left. */
static void stop(void)
{
  struct wlh_arena *arena = &t.parties[3].arena;
  for (int i = 0; i < PARTIES; i++) {
    if (t.dead[i]) continue;
    CHECK(wrong(&t, i) == NULL);
    CHECK(wlh_cells_drop_member(inside(&t, i)) == WLH_CELLS_OK);
  }
  CHECK(!arena->poisoned && wlh_cells_free_count(arena) == arena->ncells - 1);
  table_end(&t);
}

static const char *ask_for(const struct call *call, uint32_t *limit)
{
  const struct wlk_extra *extra = &call->extra;
  const char name[] = {call->name, '\0'};
  uint16_t label = (uint16_t)call->id;
  struct wlh_ask ask = {
      .mode = (uint8_t)call->mode,
      .option = (uint8_t)call->option,
      .bounded = extra->bounded,
      .max_pending = extra->max_pending,
      .limit = extra->limit,
      .weight = extra->weight,
      .priority = extra->priority,
      .label = &label,
      .label_units = 1,
  };
  struct made made = make(&t, call->agent, name, ask);
  if (made.status == WLH_CELLS_GRANTED || made.status == WLH_CELLS_PENDING) all[call->id] = made;
  if (made.status == WLH_CELLS_GRANTED) note_token(call->id, made.token);
  if (made.status == WLH_CELLS_OTHER_LIMIT) *limit = made.limit;
  return words[made.status];
}

static const char *release_one(int id)
{
  return words[drop(&t, &all[id])];
}

static const char *abort_one(int id)
{
  return words[give_up(&t, &all[id])];
}

static const char *end_one(int id)
{
  struct wlh_arena *arena = inside(&t, all[id].party);
  return words[wlh_cells_end_the_request(arena, all[id].request, all[id].cookie)];
}

static void terminate(int party)
{
  ended[party] = true;
  kill_party(&t, party);
  CHECK(wlh_cells_reap(inside(&t, (party + 1) % PARTIES)));
}

static void take_mail(int party)
{
  if (ended[party]) return;
  struct mail mail = mail_of(&t, party);
  for (uint32_t i = 0; i < mail.count; i++) {
    int id = 0;
    while (all[id].cookie != mail.letters[i].cookie) id++;
    note_event(party, id, mail.letters[i].news);
    if (mail.letters[i].news & WLH_REPORTED_GRANTED) note_token(id, mail.letters[i].token);
  }
  CHECK(wrong(&t, party) == NULL);
}

static void look(char name, char *text, size_t size)
{
  static struct wlh_entry entries[CASE_REQUESTS];
  static struct wlh_client clients[PARTIES];
  static uint16_t units[1000];
  struct wlh_view view = {entries, clients, units, CASE_REQUESTS, PARTIES, 1000, 0, 0, 0};
  const uint16_t unit = (uint16_t)name;
  bool held = true;
  int party = 0;
  while (ended[party]) party++;
  CHECK(wlh_cells_snapshot_a_name(inside(&t, party), &unit, 1, true, &view) == WLH_CELLS_OK);
  for (uint32_t i = 0; i < view.entry_count; i++) {
    const struct wlh_entry *entry = &entries[i];
    size_t at = strlen(text);
    (void)snprintf(
        text + at, size - at, held && !entry->held ? "| %d " : "%d ", units[entry->label]);
    held = entry->held;
  }
  (void)strcat(text, held ? "| " : "");
  text[strlen(text) - 1] = '\0';
}

int main(int argc, char **argv)
{
  static const struct scope cells = {"",        start,   stop,      ask_for,   release_one,
                                     abort_one, end_one, terminate, take_mail, look};
  if (argc < 2) return 2;
  run_cases(argv[1], &cells);
  return finish_tests();
}
