/* A segment in private memory with several members ("parties"), each with agents. The test decides
 * who is dead. Everything runs on one thread, one critical section after another. Tests can define
 * wlh_step and wlh_look (src/host/segment/store.h). */
#ifndef TABLE_H
#define TABLE_H

#include "../../src/host/segment/arena.h"
#include "../../src/host/segment/members.h"
#include "../../src/host/segment/rebuild.h"
#include "../../src/host/segment/requests.h"
#include "../../src/host/segment/verify.h"
#include "../../src/host/segment/view.h"
#include "../core/harness.h"

enum { PARTIES = 4, AGENTS_EACH = 2 };

struct party {
  struct wlh_arena arena;
  uint32_t agents[AGENTS_EACH];
};

struct table {
  struct wlh_segment *segment;
  uint64_t bytes; /* allocated */
  struct party parties[PARTIES];
  bool dead[WLH_MEMBERS];
  uint64_t cookies; /* the last one given out */
  uint64_t time;    /* the clock of marks */
};

/* Makes a segment of `ncells`, with room for `room`, which all parties have joined as members 0, 1
 * and so on. */
void table_begin(struct table *table, uint32_t ncells, uint32_t room);
void table_end(struct table *table);

/* The table's time is that of the clocks: marks end by it. */
void pass_time(struct table *table, uint64_t ms);

/* Begins a critical section of the party. */
struct wlh_arena *inside(struct table *table, int party);

/* A request and its answer. */
struct made {
  enum wlh_cells_status status;
  uint32_t request;
  uint64_t cookie, token;
  bool marked;
  uint32_t limit;
  int party;
};

/* The agent is the party's first if the field is 0. */
struct made make(struct table *table, int party, const char *name, struct wlh_ask ask);
struct made make_units(
    struct table *table, int party, const uint16_t *name, uint32_t units, struct wlh_ask ask);
struct made want(struct table *table, int party, const char *name); /* exclusive */
struct made want_shared(struct table *table, int party, const char *name);
struct made steal(struct table *table, int party, const char *name);

enum wlh_cells_status drop(struct table *table, const struct made *made); /* release */
enum wlh_cells_status drop_and_mark(struct table *table, const struct made *made, uint64_t keep);
/* Publishes a text of `units` times this letter. */
enum wlh_cells_status publish(
    struct table *table, const struct made *made, char letter, uint32_t units);
enum wlh_cells_status give_up(struct table *table, const struct made *made); /* abort */

/* Whether `party`, which takes the lock of a name that nobody holds, finds it marked. */
bool has_mark(struct table *table, int party, const char *name);

/* The notifications of a party. */
struct mail {
  struct wlh_message letters[64];
  uint32_t count;
};
struct mail mail_of(struct table *table, int party);

/* Whether there is just one letter, about `made`, with exactly this news. */
bool is_letter(const struct mail *mail, const struct made *made, uint32_t news);

/* Returns the members that the party has to notify, as bits, and clears them. */
uint64_t rung_by(struct table *table, int party);

/* Lets the party die outside the mutex. */
void kill_party(struct table *table, int party);

/* The result of wlh_cells_check for `party`: NULL, or what is broken. */
const char *wrong(struct table *table, int party);

/* A deterministic generator. */
uint32_t draw(uint64_t *seed, uint32_t below);

#endif
