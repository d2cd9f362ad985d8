/* Who holds a name, seen from outside at each store of what others do inside (WLH_STEPS). */
#include "table.h"

static struct table t;
static struct made held; /* of "n", by member 0, all the time */
static bool looking;
static void (*check)(void); /* instead of what is looked at otherwise */
static long glimpses, losses;

/* A look at a one-letter name. */
static enum wlh_cells_status look(char letter, struct wlh_view *view)
{
  static struct wlh_entry entries[4];
  static struct wlh_client clients[4];
  static uint16_t units[400];
  const uint16_t name[] = {(uint16_t)letter};
  *view = (struct wlh_view){entries, clients, units, 4, 4, 400, 0, 0, 0};
  glimpses++;
  return wlh_cells_find_holders(t.segment, t.bytes, name, 1, view);
}

/* Whether it is one lock, of this member. */
static bool is_one_of(const struct wlh_view *view, uint32_t member)
{
  return view->entry_count == 1 && view->entries[0].held == 1 && view->entries[0].token > 0 &&
         view->clients[view->entries[0].client].member == member;
}

void wlh_step(volatile void *place, size_t size)
{
  struct wlh_view view;
  (void)place, (void)size;
  if (!looking) return;
  if (check) {
    check();
    return;
  }
  if (look('n', &view) == WLH_CELLS_OK)
    CHECK(is_one_of(&view, 0) && view.entries[0].token == held.token);
  else
    losses++;
  if (look('m', &view) == WLH_CELLS_OK) CHECK(view.entry_count == 0 || is_one_of(&view, 1));
}

void wlh_step_commit(void) {}

static void start(void)
{
  table_begin(&t, 64, 256);
  held = want(&t, 0, "n");
  atomic_store(&t.segment->header.word, 1); /* somebody is inside */
  losses = glimpses = 0;
  looking = true;
}

static void stop(void)
{
  struct wlh_view view;
  looking = false;
  atomic_store(&t.segment->header.word, 0);
  CHECK(look('n', &view) == WLH_CELLS_OK && is_one_of(&view, 0));
  CHECK(look('x', &view) == WLH_CELLS_OK && view.entry_count == 0);
  for (int i = 0; i < PARTIES; i++) CHECK(t.dead[i] || wrong(&t, i) == NULL);
  table_end(&t);
}

TEST(requests, "whatever others ask for, the holder is seen at each moment")
{
  static const uint16_t label[130];
  start();
  for (int i = 0; i < 3; i++) {
    struct made waiting = want(&t, 2, "n");
    struct wlh_ask ask = {.label = label, .label_units = 130};
    struct made other = make(&t, 1, "m", ask);
    CHECK(other.status == WLH_CELLS_GRANTED && waiting.status == WLH_CELLS_PENDING);
    struct made next = want(&t, 1, "m");
    CHECK(drop(&t, &other) == WLH_CELLS_OK && mail_of(&t, 1).count == 1);
    CHECK(give_up(&t, &waiting) == WLH_CELLS_OK && drop(&t, &next) == WLH_CELLS_OK);
  }
  CHECK(glimpses > 200 && losses == 0);
  stop();
}

/* Whether the holder of "n" is seen with one of the texts that it publishes, whole, or with none. */
static void look_at_text(void)
{
  struct wlh_view view;
  if (look('n', &view) != WLH_CELLS_OK) {
    losses++;
    return;
  }
  CHECK(is_one_of(&view, 0));
  const uint16_t *text = view.units + view.entries[0].data;
  for (uint32_t i = 1; i < view.entries[0].data_units; i++) CHECK(text[i] == text[0]);
}

TEST(published, "what the holder publishes is seen whole at each moment")
{
  start();
  check = look_at_text;
  for (char letter = 'a'; letter < 'g'; letter++) {
    CHECK(publish(&t, &held, letter, 130 - (uint32_t)(letter - 'a') % 2 * 70) == WLH_CELLS_OK);
    struct wlh_ask ask = {.label = (const uint16_t[]){1, 2, 3}, .label_units = 3};
    struct made other = make(&t, 1, "m", ask);
    CHECK(drop(&t, &other) == WLH_CELLS_OK);
  }
  check = NULL;
  CHECK(glimpses > 200 && losses == 0);
  stop();
}

/* The next look finds the text of before the last publishing, as a reader that was stopped does. */
TEST(published_since, "a text that was replaced between two reads is read again")
{
  struct wlh_view view;
  start();
  looking = false;
  CHECK(publish(&t, &held, 'a', 60) == WLH_CELLS_OK);
  CHECK(look('n', &view) == WLH_CELLS_OK);
  uint64_t seen = view.entries[0].published;
  CHECK(publish(&t, &held, 'b', 60) == WLH_CELLS_OK && publish(&t, &held, 'c', 60) == WLH_CELLS_OK);
  CHECK(look('n', &view) == WLH_CELLS_OK && view.entries[0].published != seen);
  CHECK(wlh_data_cell(view.entries[0].published) == wlh_data_cell(seen));
  stop();
}

TEST(repairs, "while the tables are made anew or grow, the holder is seen or nothing is said")
{
  start();
  CHECK(want(&t, 1, "m").status == WLH_CELLS_GRANTED);
  kill_party(&t, 3);
  CHECK(wlh_cells_reap(inside(&t, 2)));
  inside(&t, 2)->bytes = t.bytes;
  CHECK(wlh_cells_grow(inside(&t, 2), 256) == WLH_CELLS_OK);
  CHECK(losses > 0 && losses < glimpses);
  stop();
}

TEST(damaged, "damage is not told to others by a look")
{
  struct wlh_view view;
  start();
  looking = false;
  uint32_t kind = t.segment->cells[held.request].kind;
  t.segment->cells[held.request].kind = 77;
  CHECK(look('n', &view) == WLH_CELLS_LOST && atomic_load(&t.segment->header.poisoned) == 0);
  t.segment->cells[held.request].kind = kind;
  stop();
}

int main(void)
{
  return run_tests();
}
