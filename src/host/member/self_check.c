#include "self_check.h"

#include "../segment/arena.h"
#include "../segment/members.h"
#include "section.h"

enum { AGENTS_AT_ONCE = WLK_CAPACITY(64, 1), REQUESTS_AT_ONCE = WLK_CAPACITY(4096, 1) };

/* The list of the agents' cells is copied first, so that qmu is not held during the checks. Returns
 * false if a cell is missing. */
static bool check_agents(struct wlh_bucket *bucket)
{
  uint32_t cells[AGENTS_AT_ONCE];
  uint32_t count = 0;
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &bucket->agents) {
    const struct wlh_agent *agent = WLK_ITEM(link, struct wlh_agent, by_bucket);
    if (count == AGENTS_AT_ONCE) break;
    if (agent->cell) cells[count++] = agent->cell;
  }
  wlk_mutex_unlock(&bucket->qmu);
  for (uint32_t i = 0; i < count; i++) {
    if (!wlh_cells_has_agent(&bucket->arena, cells[i])) return false;
  }
  return true;
}

/* Starts after `*cell`, and sets it to the last cell that was checked. */
static bool check_requests(const struct wlh_bucket *bucket, uint32_t *cell)
{
  uint32_t ncells = bucket->arena.ncells;
  uint32_t looked = 0;
  for (uint32_t i = 0; i < ncells && looked < REQUESTS_AT_ONCE; i++) {
    *cell = (*cell + 1) & (ncells - 1);
    const struct wlh_request *request = bucket->by_cell[*cell];
    if (!request) continue;
    if (!wlh_cells_has_request(&bucket->arena, *cell, request->cookie)) return false;
    looked++;
  }
  return true;
}

static bool check_all(struct wlh_bucket *bucket, uint32_t *cell)
{
  return wlh_cells_has_member(&bucket->arena) && check_agents(bucket) &&
         check_requests(bucket, cell);
}

void wlh_check_own_cells(struct wlh_bucket *bucket)
{
  uint32_t cell = bucket->self_check_cell;
  struct wlh_segment *segment = wlh_begin_look(bucket);
  bool found = check_all(bucket, &cell);
  wlh_end_look(bucket, segment);
  if (found) {
    bucket->self_check_cell = cell;
    return;
  }
  /* A missing cell proves no damage yet: another process may have taken us for dead, and we may
   * have seen only a part of its changes. */
  if (wlh_enter(bucket) != WLH_IN) return;
  cell = bucket->self_check_cell;
  if (!check_all(bucket, &cell)) wlh_cells_poison(&bucket->arena);
  wlh_leave_tables(bucket);
}
