#include "turn.h"

#include "agent.h"
#include "alloc.h"
#include "check.h"
#include "declaration.h"
#include "store.h"

/* Clang's analysis cannot express "all shards": it only knows about the process's mutex. */
WLK_RARE void wlk_lock_everything(struct wlk_process *process) WLK_UNCHECKED
{
  for (int i = 0; i < WLK_SHARDS; i++) wlk_mutex_lock(&process->shards[i].mutex);
  wlk_mutex_lock(&process->mutex);
}

WLK_RARE void wlk_unlock_everything(struct wlk_process *process) WLK_UNCHECKED
{
  wlk_mutex_unlock(&process->mutex);
  for (int i = WLK_SHARDS; i-- > 0;) wlk_mutex_unlock(&process->shards[i].mutex);
}

static void set_up(struct wlk_turn *turn, struct wlk_agent *caller, uint8_t shard)
{
  turn->process = caller->process;
  turn->shard = &caller->process->shards[shard];
  turn->caller = caller;
  turn->whole = false;
  wlk_list_init(&turn->granted);
  turn->to_wake = NULL;
  turn->last_to_wake = &turn->to_wake;
  turn->requests = NULL;
  turn->resources = NULL;
  turn->unfit = NULL;
}

void wlk_turn_begin(struct wlk_turn *turn, struct wlk_agent *caller, uint8_t shard)
{
  set_up(turn, caller, shard);
  wlk_mutex_lock(&turn->shard->mutex);
}

void wlk_turn_begin_whole(struct wlk_turn *turn, struct wlk_agent *caller, uint8_t shard)
    WLK_UNCHECKED
{
  set_up(turn, caller, shard);
  turn->whole = true;
  wlk_lock_everything(turn->process);
}

void wlk_turn_is_whole(const struct wlk_turn *turn)
{
  (void)turn;
}

void wlk_turn_lock_process(struct wlk_turn *turn) WLK_UNCHECKED
{
  if (!turn->whole) wlk_mutex_lock(&turn->process->mutex);
}

void wlk_turn_unlock_process(struct wlk_turn *turn) WLK_UNCHECKED
{
  if (!turn->whole) wlk_mutex_unlock(&turn->process->mutex);
}

static void unlock(struct wlk_turn *turn) WLK_RELEASES(turn->shard->mutex) WLK_UNCHECKED
{
  if (turn->whole)
    wlk_unlock_everything(turn->process);
  else
    wlk_mutex_unlock(&turn->shard->mutex);
}

void wlk_turn_insert(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_insert(table, entry);
  if (wlk_table_wants(table) > 0) turn->unfit = table;
}

void wlk_turn_remove(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_remove(table, entry);
  if (wlk_table_wants(table) > 0) turn->unfit = table;
}

/* Resizes the table if it wants `*room` chains. Otherwise sets `*room` to what it wants, and
 * returns true: the caller allocates that and calls again. Afterwards the caller frees
 * `*chains`. */
static bool resize(
    struct wlk_table *table, struct wlk_mutex *mutex, struct wlk_entry ***chains, size_t *room)
    WLK_EXCLUDES(*mutex)
{
  wlk_mutex_lock(mutex);
  size_t capacity = wlk_table_wants(table);
  size_t wanted = capacity > WLK_TABLE_LEAST ? capacity : 0;
  bool again = capacity > 0 && wanted != *room;
  if (capacity > 0 && !again) *chains = wlk_table_rehash(table, *chains, capacity);
  wlk_mutex_unlock(mutex);
  *room = wanted;
  return again;
}

WLK_RARE void wlk_table_fit(struct wlk_table *table, struct wlk_mutex *mutex)
{
  struct wlk_entry **chains = NULL;
  size_t room = 0;
  while (resize(table, mutex, &chains, &room)) {
    wlk_free(chains);
    chains = room > 0 ? wlk_alloc(room * sizeof *chains) : NULL;
    if (room > 0 && !chains) return;
  }
  wlk_free(chains);
}

void wlk_turn_end_request(struct wlk_turn *turn, struct wlk_request *request)
{
  if (wlk_declares(request)) {
    wlk_turn_lock_process(turn);
    wlk_forget_lock(turn->process, request);
    wlk_turn_unlock_process(turn);
  }
  wlk_agent_drop_event(request);
  wlk_list_remove(&request->by_agent);
  request->by_agent.next = turn->requests;
  turn->requests = &request->by_agent;
}

static void free_requests(struct wlk_link *requests)
{
  while (requests) {
    struct wlk_link *link = requests;
    requests = link->next;
    wlk_request_recycle(WLK_REQUEST_OF(link, by_agent));
  }
}

static void free_unlinked(struct wlk_turn *turn)
{
  free_requests(turn->requests);
  while (turn->resources) {
    struct wlk_entry *entry = turn->resources;
    turn->resources = entry->next;
    wlk_resource_recycle(turn->caller, WLK_ITEM(entry, struct wlk_resource, entry));
  }
}

static void will_wake(struct wlk_turn *turn, struct wlk_agent *agent)
{
  agent->next_wake = NULL;
  *turn->last_to_wake = agent;
  turn->last_to_wake = &agent->next_wake;
}

void wlk_turn_post_event(struct wlk_turn *turn, struct wlk_request *request, enum wlk_news news)
{
  struct wlk_agent *agent =
      request->agent; /* once a theft is posted, its thread may end the request */
  bool own = agent == turn->caller;
  if (own && news == WLK_NEWS_GRANTED) {
    wlk_list_append(&turn->granted, &request->by_event);
  } else if (wlk_agent_post_event(request, news, !own)) {
    will_wake(turn, agent);
  }
}

/* Ends the stolen requests of a chain by `by_event.next`. */
static void end_all_stolen(struct wlk_turn *turn, struct wlk_link *stolen)
{
  while (stolen) {
    struct wlk_request *request = WLK_REQUEST_OF(stolen, by_event);
    stolen = stolen->next;
    wlk_list_init(&request->by_event);
    wlk_turn_end_request(turn, request);
  }
}

static WLK_RARE void take_others(struct wlk_turn *turn, struct wlk_events *events)
{
  struct wlk_link *stolen;
  wlk_agent_drain(turn->caller, false, events, &stolen);
  end_all_stolen(turn, stolen);
}

static WLK_RARE void take_granted(struct wlk_turn *turn, struct wlk_events *events)
{
  while (!wlk_list_is_empty(&turn->granted) && events->count < events->capacity) {
    struct wlk_link *link = turn->granted.next;
    wlk_event_write(events, WLK_REQUEST_OF(link, by_event), WLK_NEWS_GRANTED);
    wlk_list_remove(link);
  }
  if (!wlk_list_is_empty(&turn->granted)) wlk_agent_keep(turn->caller, &turn->granted);
}

void wlk_turn_take_events(struct wlk_turn *turn, struct wlk_events *events)
{
  events->count = 0;
  if (atomic_load_explicit(&turn->caller->has_events, memory_order_relaxed))
    take_others(turn, events);
  if (!wlk_list_is_empty(&turn->granted)) take_granted(turn, events);
}

/* Takes no shard's mutex: a stolen request is in none. */
void wlk_agent_take_events(struct wlk_agent *agent, bool woken, struct wlk_events *events)
{
  struct wlk_turn turn;
  struct wlk_link *stolen;
  set_up(&turn, agent, 0);
  events->count = 0;
  wlk_agent_drain(agent, woken, events, &stolen);
  end_all_stolen(&turn, stolen);
  free_unlinked(&turn);
}

void wlk_turn_leave_events(struct wlk_turn *turn)
{
  struct wlk_agent *caller = turn->caller;
  if (!wlk_list_is_empty(&turn->granted)) wlk_agent_keep(caller, &turn->granted);
  if (wlk_agent_pin(caller)) will_wake(turn, caller);
}

static WLK_RARE void wake_agents(struct wlk_agent *agents)
{
  while (agents) {
    struct wlk_agent *agent = agents;
    agents = agent->next_wake; /* read first: after its wake-up, another section may chain it
                                  again */
    wlk_agent_wake(agent);
  }
}

void wlk_turn_end(struct wlk_turn *turn)
{
  WLK_CHECK(turn->process, turn->shard, turn->whole);
  unlock(turn);
  wake_agents(turn->to_wake);
  free_unlinked(turn);
  if (turn->unfit) wlk_table_fit(turn->unfit, &turn->shard->mutex);
}
