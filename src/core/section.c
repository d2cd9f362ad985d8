#include "section.h"

#include "agent.h"
#include "alloc.h"
#include "check.h"
#include "declaration.h"
#include "store.h"

/* The annotations cannot express "all shards", so clang's analysis knows only about the process's
 * mutex. */
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

static void set_up(struct wlk_section *section, struct wlk_agent *caller, uint8_t shard)
{
  section->process = caller->process;
  section->shard = &caller->process->shards[shard];
  section->caller = caller;
  section->whole = false;
  wlk_list_init(&section->granted);
  section->to_wake = NULL;
  section->last_to_wake = &section->to_wake;
  section->requests = NULL;
  section->resources = NULL;
  section->unfit = NULL;
}

void wlk_enter(struct wlk_section *section, struct wlk_agent *caller, uint8_t shard)
{
  set_up(section, caller, shard);
  wlk_mutex_lock(&section->shard->mutex);
}

void wlk_enter_whole(struct wlk_section *section, struct wlk_agent *caller, uint8_t shard)
    WLK_UNCHECKED
{
  set_up(section, caller, shard);
  section->whole = true;
  wlk_lock_everything(section->process);
}

void wlk_section_assert_whole(const struct wlk_section *section)
{
  (void)section;
}

void wlk_section_lock_process(struct wlk_section *section) WLK_UNCHECKED
{
  if (!section->whole) wlk_mutex_lock(&section->process->mutex);
}

void wlk_section_unlock_process(struct wlk_section *section) WLK_UNCHECKED
{
  if (!section->whole) wlk_mutex_unlock(&section->process->mutex);
}

static void unlock(struct wlk_section *section) WLK_RELEASES(section->shard->mutex) WLK_UNCHECKED
{
  if (section->whole)
    wlk_unlock_everything(section->process);
  else
    wlk_mutex_unlock(&section->shard->mutex);
}

void wlk_section_insert(
    struct wlk_section *section, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_insert(table, entry);
  if (wlk_table_wanted_capacity(table) > 0) section->unfit = table;
}

void wlk_section_remove(
    struct wlk_section *section, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_remove(table, entry);
  if (wlk_table_wanted_capacity(table) > 0) section->unfit = table;
}

/* Resizes the table, if need be, and returns false. `*chains` is an array of `*room` pointers for
 * that. If the new size needs an array of another length, sets `*room` to this length and returns
 * true: the caller must allocate the array and call again. In the end, the caller must free
 * `*chains`. */
static bool resize_or_ask_for_room(
    struct wlk_table *table, struct wlk_mutex *mutex, struct wlk_entry ***chains, size_t *room)
    WLK_EXCLUDES(*mutex)
{
  wlk_mutex_lock(mutex);
  size_t capacity = wlk_table_wanted_capacity(table);
  size_t wanted = capacity > WLK_TABLE_LEAST ? capacity : 0;
  bool again = capacity > 0 && wanted != *room;
  if (capacity > 0 && !again) *chains = wlk_table_rehash(table, *chains, capacity);
  wlk_mutex_unlock(mutex);
  *room = wanted;
  return again;
}

WLK_RARE void wlk_table_resize(struct wlk_table *table, struct wlk_mutex *mutex)
{
  struct wlk_entry **chains = NULL;
  size_t room = 0;
  while (resize_or_ask_for_room(table, mutex, &chains, &room)) {
    wlk_free(chains);
    chains = room > 0 ? wlk_alloc(room * sizeof *chains) : NULL;
    if (room > 0 && !chains) return;
  }
  wlk_free(chains);
}

void wlk_section_end_request(struct wlk_section *section, struct wlk_request *request)
{
  if (wlk_declares(request)) {
    wlk_section_lock_process(section);
    wlk_unlink_inner_requests(section->process, request);
    wlk_section_unlock_process(section);
  }
  wlk_agent_drop_event(request);
  wlk_list_remove(&request->by_agent);
  request->by_agent.next = section->requests;
  section->requests = &request->by_agent;
}

static void free_requests(struct wlk_link *requests)
{
  while (requests) {
    struct wlk_link *link = requests;
    requests = link->next;
    wlk_request_recycle(WLK_REQUEST_OF(link, by_agent));
  }
}

static void free_unlinked(struct wlk_section *section)
{
  free_requests(section->requests);
  while (section->resources) {
    struct wlk_entry *entry = section->resources;
    section->resources = entry->next;
    wlk_resource_recycle(section->caller, WLK_ITEM(entry, struct wlk_resource, entry));
  }
}

static void chain_to_wake(struct wlk_section *section, struct wlk_agent *agent)
{
  agent->next_wake = NULL;
  *section->last_to_wake = agent;
  section->last_to_wake = &agent->next_wake;
}

void wlk_section_post_event(
    struct wlk_section *section, struct wlk_request *request, enum wlk_news news)
{
  struct wlk_agent *agent =
      request->agent; /* read first: once a theft is posted, the victim may end the request */
  bool own = agent == section->caller;
  if (own && news == WLK_NEWS_GRANTED) {
    wlk_list_append(&section->granted, &request->by_event);
  } else if (wlk_agent_post_event(request, news, !own)) {
    chain_to_wake(section, agent);
  }
}

static void end_all_stolen(struct wlk_section *section, struct wlk_link *stolen)
{
  while (stolen) {
    struct wlk_request *request = WLK_REQUEST_OF(stolen, by_event);
    stolen = stolen->next;
    wlk_list_init(&request->by_event);
    wlk_section_end_request(section, request);
  }
}

static WLK_RARE void take_queued_events(struct wlk_section *section, struct wlk_events *events)
{
  struct wlk_link *stolen;
  wlk_agent_drain(section->caller, false, events, &stolen);
  end_all_stolen(section, stolen);
}

/* Grants that do not fit go to the agent's queue. */
static WLK_RARE void take_own_grants(struct wlk_section *section, struct wlk_events *events)
{
  while (!wlk_list_is_empty(&section->granted) && events->count < events->capacity) {
    struct wlk_link *link = section->granted.next;
    wlk_event_write(events, WLK_REQUEST_OF(link, by_event), WLK_NEWS_GRANTED);
    wlk_list_remove(link);
  }
  if (!wlk_list_is_empty(&section->granted))
    wlk_agent_queue_grants(section->caller, &section->granted);
}

void wlk_section_take_events(struct wlk_section *section, struct wlk_events *events)
{
  events->count = 0;
  if (atomic_load_explicit(&section->caller->has_events, memory_order_relaxed))
    take_queued_events(section, events);
  if (!wlk_list_is_empty(&section->granted)) take_own_grants(section, events);
}

/* Takes no shard's mutex, because a stolen request is in no shard. */
void wlk_agent_take_events(struct wlk_agent *agent, bool woken, struct wlk_events *events)
{
  struct wlk_section section;
  struct wlk_link *stolen;
  set_up(&section, agent, 0);
  events->count = 0;
  wlk_agent_drain(agent, woken, events, &stolen);
  end_all_stolen(&section, stolen);
  free_unlinked(&section);
}

void wlk_section_leave_events(struct wlk_section *section)
{
  struct wlk_agent *caller = section->caller;
  if (!wlk_list_is_empty(&section->granted)) wlk_agent_queue_grants(caller, &section->granted);
  if (wlk_agent_pin_if_events(caller)) chain_to_wake(section, caller);
}

static WLK_RARE void wake_agents(struct wlk_agent *agents)
{
  while (agents) {
    struct wlk_agent *agent = agents;
    agents = agent->next_wake; /* After its wake-up, another section may chain the agent again. */
    wlk_agent_wake(agent);
  }
}

void wlk_leave(struct wlk_section *section)
{
  WLK_CHECK(section->process, section->shard, section->whole);
  unlock(section);
  wake_agents(section->to_wake);
  free_unlinked(section);
  if (section->unfit) wlk_table_resize(section->unfit, &section->shard->mutex);
}
