#include "process.h"

#include <string.h>

/* Only the first loaded copy's state is used; other copies find it by the exported variable. */
static struct wlk_process own_process = WLK_PROCESS_INIT;
WLK_EXPORTED extern void *web_locks_process;
void *web_locks_process = &own_process;

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
  *process = wlk_port_find_first_shared(&own_process, "web_locks_process");
  if (!*process) return WLK_NO_RENDEZVOUS;
  bool same = memcmp((*process)->magic, own_process.magic, sizeof own_process.magic) == 0;
  return same && (*process)->abi == own_process.abi ? WLK_OK : WLK_OTHER_VERSION;
}

void wlk_process_path(const struct wlk_process *process, char *path, size_t size)
{
  wlk_port_module_path(process ? process : &own_process, path, size);
}

void wlk_process_trim(void)
{
  wlk_port_trim();
}

double wlk_continuous_now(void)
{
  return wlk_port_continuous_now();
}

enum wlk_status wlk_process_init_once(struct wlk_process *process)
{
  uint64_t hash_key[2];
  if (!wlk_port_random(hash_key, sizeof hash_key)) return WLK_NO_RANDOM;
  wlk_mutex_lock(&process->mutex);
  if (!process->started) {
    memcpy(process->hash_key, hash_key, sizeof hash_key);
    wlk_list_init(&process->agents);
    wlk_table_init(&process->managers);
    for (int i = 0; i < WLK_SHARDS; i++)
      process->shards[i] = (struct wlk_shard){.mutex = WLK_MUTEX_INIT, .grants = 0};
    process->started = true;
  }
  wlk_mutex_unlock(&process->mutex);
  return WLK_OK;
}
