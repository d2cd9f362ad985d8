#include "process.h"

#include "agent.h"
#include "alloc.h"
#include "check.h"
#include "resource.h"

#include <string.h>

/* The state this copy brings. Only that of the copy loaded first is used; the exported variable is
 * how others find it. */
static struct wlk_process own = WLK_PROCESS_INIT;
WLK_EXPORTED extern void *web_locks_process;
void *web_locks_process = &own;

const char *wlk_status_message(enum wlk_status status)
{
  static const char *const messages[] = {
#define MESSAGE(name, message) [name] = message,
      WLK_STATUS_LIST(MESSAGE)
#undef MESSAGE
  };
  return messages[status];
}

enum wlk_status wlk_process_join(struct wlk_process **process)
{
  *process = wlk_port_first_shared(&own, "web_locks_process");
  if (!*process) return WLK_NO_RENDEZVOUS;
  bool same = memcmp((*process)->magic, own.magic, sizeof own.magic) == 0;
  return same && (*process)->abi == own.abi ? WLK_OK : WLK_OTHER_VERSION;
}

void wlk_process_path(const struct wlk_process *process, char *path, size_t size)
{
  wlk_port_module_path(process ? process : &own, path, size);
}

void wlk_process_trim(void)
{
  wlk_port_trim();
}

enum wlk_status wlk_process_start(struct wlk_process *process)
{
  uint64_t hash_key[2];
  if (!wlk_port_random(hash_key, sizeof hash_key)) return WLK_NO_RANDOM;
  wlk_mutex_lock(&process->mutex);
  if (!process->started) {
    memcpy(process->hash_key, hash_key, sizeof hash_key);
    wlk_list_init(&process->agents);
    wlk_list_init(&process->to_wake);
    wlk_list_init(&process->unfit);
    wlk_table_init(&process->managers);
    process->started = true;
  }
  wlk_mutex_unlock(&process->mutex);
  return WLK_OK;
}

void wlk_turn_begin(struct wlk_turn *turn, struct wlk_process *process, struct wlk_agent *caller)
{
  turn->process = process;
  turn->caller = caller;
  turn->requests = NULL;
  turn->resources = NULL;
  wlk_mutex_lock(&turn->process->mutex);
}

static void note_size(struct wlk_process *process, struct wlk_table *table)
    WLK_REQUIRES(process->mutex)
{
  if (wlk_table_wants(table) > 0 && wlk_list_is_empty(&table->by_unfit))
    wlk_list_append(&process->unfit, &table->by_unfit);
}

void wlk_turn_insert(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_insert(table, entry);
  note_size(turn->process, table);
}

void wlk_turn_remove(struct wlk_turn *turn, struct wlk_table *table, struct wlk_entry *entry)
{
  wlk_table_remove(table, entry);
  note_size(turn->process, table);
}

/* Gives the mutex back while it calls each wake function, and has it again on return. Agents that
 * other turns put into `to_wake` meanwhile are woken too: whoever comes first. */
static void wake_agents(struct wlk_process *process) WLK_REQUIRES(process->mutex)
{
  WLK_LIST_DRAIN (link, &process->to_wake) {
    struct wlk_agent *agent = WLK_ITEM(link, struct wlk_agent, by_wake);
    wlk_list_remove(link);
    agent->pins++;
    wlk_mutex_unlock(&process->mutex);
    agent->wake(agent->wake_data);
    wlk_mutex_lock(&process->mutex);
    if (--agent->pins == 0 && agent->terminating) wlk_condition_broadcast(&process->unpinned);
  }
}

static void free_unlinked(struct wlk_turn *turn)
{
  while (turn->requests) {
    struct wlk_link *link = turn->requests;
    turn->requests = link->next;
    wlk_request_recycle(turn->caller, WLK_REQUEST_OF(link, by_agent));
  }
  while (turn->resources) {
    struct wlk_entry *entry = turn->resources;
    turn->resources = entry->next;
    wlk_resource_recycle(turn->caller, WLK_ITEM(entry, struct wlk_resource, entry));
  }
}

/* The next table to resize, and the size it wants; NULL if all are as they should be. */
static struct wlk_table *next_unfit(struct wlk_process *process, size_t *capacity)
    WLK_REQUIRES(process->mutex)
{
  WLK_LIST_DRAIN (link, &process->unfit) {
    struct wlk_table *table = WLK_ITEM(link, struct wlk_table, by_unfit);
    *capacity = wlk_table_wants(table);
    if (*capacity > 0) return table;
    wlk_list_remove(link);
  }
  return NULL;
}

/* Resizes the next table if `*room` chains are what it wants memory for; if not, says in `*room`
 * how many it wants. What is then in `*chains` is to be freed. False if no table is left. */
static bool resize_next(struct wlk_process *process, struct wlk_entry ***chains, size_t *room)
    WLK_EXCLUDES(process->mutex)
{
  size_t capacity = 0;
  wlk_mutex_lock(&process->mutex);
  struct wlk_table *table = next_unfit(process, &capacity);
  size_t wanted = capacity > WLK_TABLE_LEAST ? capacity : 0;
  if (table && wanted == *room) {
    *chains = wlk_table_rehash(table, *chains, capacity);
    wanted = 0;
  }
  *room = wanted;
  wlk_mutex_unlock(&process->mutex);
  return table != NULL;
}

/* Without memory the tables stay as they are, slower, nothing worse; the next turn tries again. */
static void resize_tables(struct wlk_process *process) WLK_EXCLUDES(process->mutex)
{
  struct wlk_entry **chains = NULL;
  size_t room = 0;
  while (resize_next(process, &chains, &room)) {
    wlk_free(chains);
    chains = room > 0 ? wlk_alloc(room * sizeof *chains) : NULL;
    if (room > 0 && !chains) return;
  }
  wlk_free(chains);
}

void wlk_turn_end(struct wlk_turn *turn)
{
  WLK_CHECK(turn->process);
  wake_agents(turn->process);
  bool unfit = !wlk_list_is_empty(&turn->process->unfit);
  wlk_mutex_unlock(&turn->process->mutex);
  free_unlinked(turn);
  if (unfit) resize_tables(turn->process);
}
