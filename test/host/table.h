/* A segment in private memory with several members ("parties"), each with agents. The test says who is
 * dead. Everything runs on one thread, one critical section after the other. Tests can define wlh_step
 * and wlh_look (src/host/segment/store.h). */
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
  uint64_t cookies; /* the last one given */
  uint64_t time;    /* of the clock of marks */
};

/* A fresh segment of `ncells`, with room for `room` cells, which all parties have joined as members 0, 1, and so on. */
void table_begin(struct table *table, uint32_t ncells, uint32_t room);
void table_end(struct table *table);

/* The party's arena, at the beginning of a critical section. */
struct wlh_arena *inside(struct table *table, int party);

/* A request, with the answer. */
struct made {
  enum wlh_cells_status status;
  uint32_t request;
  uint64_t cookie, token;
  bool marked;
  uint32_t limit;
  int party;
};

/* Fields of struct wlh_ask that are not given are 0. The agent is the party's first if it is 0. */
struct made make(struct table *table, int party, const char *name, struct wlh_ask ask);
struct made make_units(
    struct table *table, int party, const uint16_t *name, uint32_t units, struct wlh_ask ask);
struct made want(struct table *table, int party, const char *name); /* exclusive */
struct made want_shared(struct table *table, int party, const char *name);
struct made steal(struct table *table, int party, const char *name);

enum wlh_cells_status drop(struct table *table, const struct made *made); /* release */
enum wlh_cells_status drop_and_mark(struct table *table, const struct made *made, uint64_t keep);
/* Publishes `units` times this letter. */
enum wlh_cells_status publish(
    struct table *table, const struct made *made, char letter, uint32_t units);
enum wlh_cells_status give_up(struct table *table, const struct made *made); /* abort */

/* Whether a name that nobody has is marked, as `party` finds when it gets the lock. */
bool has_mark(struct table *table, int party, const char *name);

/* The party's mail. */
struct mail {
  struct wlh_message letters[64];
  uint32_t count;
};
struct mail mail_of(struct table *table, int party);

/* Whether the mail is one letter about `made` with just this news. */
bool is_letter(const struct mail *mail, const struct made *made, uint32_t news);

/* The members that the party has to notify, as bits; forgets them. */
uint64_t rung_by(struct table *table, int party);

/* The party dies, outside the mutex. */
void kill_party(struct table *table, int party);

/* What wlh_cells_check says of what `party` sees. */
const char *wrong(struct table *table, int party);

/* A deterministic generator. */
uint32_t draw(uint64_t *seed, uint32_t below);

#endif
