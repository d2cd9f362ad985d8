/* The layout of the structs that copies of the package share (records.h), written down a second
 * time: a change of a struct does not compile until WLK_ABI is raised and this file has the new
 * layout. */
#include "records.h"

/* Tests build a copy of the core with this ABI number. */
#define ABI_OF_TESTS 999

_Static_assert(
    WLK_ABI == 9 || WLK_ABI == ABI_OF_TESTS, "this is the layout of WLK_ABI 9: write the new one");

#define RAISE(type) "struct " #type " has changed: raise WLK_ABI"

#define AT(type, field)                                                                            \
  _Static_assert(offsetof(struct type, field) == offsetof(struct type##_9, field), RAISE(type))

#define SAME(type, field)                                                                          \
  AT(type, field);                                                                                 \
  _Static_assert(                                                                                  \
      sizeof(((struct type *)0)->field) == sizeof(((struct type##_9 *)0)->field), RAISE(type))

/* The sizes alone would not show a new field that fits into padding. So the arguments give a value
 * for each field: if one is missing, -Wextra reports it, in CI as an error. */
#define WHOLE(type, ...)                                                                           \
  _Static_assert(                                                                                  \
      sizeof((struct type){__VA_ARGS__}) == sizeof(struct type##_9) &&                             \
          _Alignof(struct type) == _Alignof(struct type##_9),                                      \
      RAISE(type))

struct wlk_link_9 {
  void *previous, *next;
};
WHOLE(wlk_link, 0, 0);
SAME(wlk_link, previous);
SAME(wlk_link, next);

struct wlk_entry_9 {
  void *next;
  uint64_t hash;
  void *name;
  uint32_t length;
};
WHOLE(wlk_entry, 0, 0, 0, 0);
SAME(wlk_entry, next);
SAME(wlk_entry, hash);
SAME(wlk_entry, name);
SAME(wlk_entry, length);

struct wlk_table_9 {
  void *chains;
  size_t capacity, count;
  void *least[8];
};
WHOLE(wlk_table, 0, 0, 0, {0});
SAME(wlk_table, chains);
SAME(wlk_table, capacity);
SAME(wlk_table, count);
SAME(wlk_table, least);

struct wlk_free_item_9 {
  void *next;
  uint32_t place;
};
WHOLE(wlk_free_item, 0, 0);
SAME(wlk_free_item, next);
SAME(wlk_free_item, place);

struct wlk_pool_9 {
  void *first;
  uint32_t count, most, size;
};
WHOLE(wlk_pool, 0, 0, 0, 0);
SAME(wlk_pool, first);
SAME(wlk_pool, count);
SAME(wlk_pool, most);
SAME(wlk_pool, size);

struct wlk_shard_9 {
  _Alignas(128) struct wlk_mutex mutex;
  uint64_t grants;
};
WHOLE(wlk_shard, WLK_MUTEX_INIT, 0);
SAME(wlk_shard, mutex);
SAME(wlk_shard, grants);

struct wlk_process_9 {
  char magic[16];
  uint32_t abi;
  bool started;
  struct wlk_mutex mutex;
  uint64_t hash_key[2];
  uint32_t agents_created;
  struct wlk_link_9 agents;
  size_t agent_count;
  struct wlk_table_9 managers;
  uint64_t searches, declared;
  struct wlk_shard_9 shards[32];
};
WHOLE(
    wlk_process, {0}, 0, 0, WLK_MUTEX_INIT, {0}, 0, {0, 0}, 0, {0, 0, 0, {0}}, 0, 0,
    {{WLK_MUTEX_INIT, 0}});
SAME(wlk_process, magic);
SAME(wlk_process, abi);
SAME(wlk_process, started);
SAME(wlk_process, mutex);
SAME(wlk_process, hash_key);
SAME(wlk_process, agents_created);
SAME(wlk_process, agents);
SAME(wlk_process, agent_count);
SAME(wlk_process, managers);
SAME(wlk_process, searches);
SAME(wlk_process, declared);
SAME(wlk_process, shards);
_Static_assert(offsetof(struct wlk_process, magic) == 0, "the magic words have moved");
_Static_assert(offsetof(struct wlk_process, abi) == 16, "the number of the layout has moved");

struct wlk_agent_9 {
  void *process;
  char client_id[64];
  void *wake, *wake_data;
  uint32_t number, thread_id, thread_name_length;
  uint16_t thread_name[64];
  struct wlk_link_9 by_process;
  uint32_t snapshot_index;
  struct wlk_link_9 requests;
  void *spare;
  struct wlk_pool_9 request_pool, name_pool;
  struct wlk_mutex mutex;
  struct wlk_link_9 events;
  bool has_events, woken, terminating;
  unsigned pins;
  void *next_wake;
  struct wlk_condition changed;
};
WHOLE(
    wlk_agent, 0, {0}, 0, 0, 0, 0, 0, {0}, {0, 0}, 0, {0, 0}, 0, {0, 0, 0, 0}, {0, 0, 0, 0},
    WLK_MUTEX_INIT, {0, 0}, 0, 0, 0, 0, 0, WLK_CONDITION_INIT);
SAME(wlk_agent, process);
SAME(wlk_agent, client_id);
SAME(wlk_agent, wake);
SAME(wlk_agent, wake_data);
SAME(wlk_agent, number);
SAME(wlk_agent, thread_id);
SAME(wlk_agent, thread_name_length);
SAME(wlk_agent, thread_name);
SAME(wlk_agent, by_process);
SAME(wlk_agent, snapshot_index);
SAME(wlk_agent, requests);
SAME(wlk_agent, spare);
SAME(wlk_agent, request_pool);
SAME(wlk_agent, name_pool);
SAME(wlk_agent, mutex);
SAME(wlk_agent, events);
SAME(wlk_agent, has_events);
SAME(wlk_agent, woken);
SAME(wlk_agent, terminating);
SAME(wlk_agent, pins);
SAME(wlk_agent, next_wake);
SAME(wlk_agent, changed);

struct wlk_part_9 {
  struct wlk_table_9 resources;
  size_t requests, texts, name_units;
  struct wlk_table_9 marks;
  struct wlk_link_9 marks_by_look;
  char apart[64];
};
WHOLE(wlk_part, {0, 0, 0, {0}}, 0, 0, 0, {0, 0, 0, {0}}, {0, 0}, {0});
SAME(wlk_part, resources);
SAME(wlk_part, requests);
SAME(wlk_part, texts);
SAME(wlk_part, name_units);
SAME(wlk_part, marks);
SAME(wlk_part, marks_by_look);
SAME(wlk_part, apart);

struct wlk_manager_9 {
  struct wlk_entry_9 entry;
  void *process;
  size_t open_count;
  struct wlk_part_9 parts[32];
  uint16_t name[];
};
WHOLE(wlk_manager, {0, 0, 0, 0}, 0, 0, {{{0, 0, 0, {0}}, 0, 0, 0, {0, 0, 0, {0}}, {0, 0}, {0}}});
SAME(wlk_manager, entry);
SAME(wlk_manager, process);
SAME(wlk_manager, open_count);
SAME(wlk_manager, parts);
AT(wlk_manager, name);

struct wlk_resource_9 {
  struct wlk_entry_9 entry;
  void *part;
  struct wlk_link_9 held, queue, levels;
  void *writer;
  size_t pending;
  uint32_t limit, units, capacity;
  bool limit_is_set;
  uint8_t place;
  uint16_t name[];
};
WHOLE(wlk_resource, {0, 0, 0, 0}, 0, {0, 0}, {0, 0}, {0, 0}, 0, 0, 0, 0, 0, 0, 0);
SAME(wlk_resource, entry);
SAME(wlk_resource, part);
SAME(wlk_resource, held);
SAME(wlk_resource, queue);
SAME(wlk_resource, levels);
SAME(wlk_resource, writer);
SAME(wlk_resource, pending);
SAME(wlk_resource, limit);
SAME(wlk_resource, units);
SAME(wlk_resource, capacity);
SAME(wlk_resource, limit_is_set);
SAME(wlk_resource, place);
AT(wlk_resource, name);

struct wlk_mark_9 {
  struct wlk_entry_9 entry;
  struct wlk_link_9 by_look;
  uint64_t until, token;
  uint16_t name[];
};
WHOLE(wlk_mark, {0, 0, 0, 0}, {0, 0}, 0, 0);
SAME(wlk_mark, entry);
SAME(wlk_mark, by_look);
SAME(wlk_mark, until);
SAME(wlk_mark, token);
AT(wlk_mark, name);

struct wlk_request_9 {
  struct wlk_link_9 by_resource, by_agent, by_event;
  void *agent;
  union {
    void *resource;
    struct {
      uint32_t thread, number;
    } thief;
  };
  void *declaration;
  uint64_t since, token;
  uint32_t tag, weight;
  uint8_t mode, state, news, shard, place;
  bool blocked, awaited, passes;
};
WHOLE(wlk_request, {0, 0}, {0, 0}, {0, 0}, 0, {0}, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
SAME(wlk_request, by_resource);
SAME(wlk_request, by_agent);
SAME(wlk_request, by_event);
SAME(wlk_request, agent);
SAME(wlk_request, resource);
SAME(wlk_request, thief);
SAME(wlk_request, thief.thread);
SAME(wlk_request, thief.number);
SAME(wlk_request, declaration);
SAME(wlk_request, since);
SAME(wlk_request, token);
SAME(wlk_request, tag);
SAME(wlk_request, weight);
SAME(wlk_request, mode);
SAME(wlk_request, state);
SAME(wlk_request, news);
SAME(wlk_request, shard);
SAME(wlk_request, place);
SAME(wlk_request, blocked);
SAME(wlk_request, awaited);
SAME(wlk_request, passes);

struct wlk_nesting_9 {
  struct wlk_link_9 by_lock;
  void *inner, *outer;
};
WHOLE(wlk_nesting, {0, 0}, 0, 0);
SAME(wlk_nesting, by_lock);
SAME(wlk_nesting, inner);
SAME(wlk_nesting, outer);

struct wlk_data_9 {
  uint32_t length;
  uint16_t units[];
};
WHOLE(wlk_data, 0);
SAME(wlk_data, length);
AT(wlk_data, units);

struct wlk_declaration_9 {
  void *request;
  bool declares, pending;
  uint32_t label_length;
  int32_t priority;
  void *data;
  uint64_t order;
  struct wlk_link_9 by_level, by_writer, inner;
  uint64_t search, goal;
  void *found, *waiting, *through;
  uint32_t nesting_count;
  struct wlk_nesting_9 nesting[];
};
WHOLE(wlk_declaration, 0, 0, 0, 0, 0, 0, 0, {0, 0}, {0, 0}, {0, 0}, 0, 0, 0, 0, 0, 0);
SAME(wlk_declaration, request);
SAME(wlk_declaration, declares);
SAME(wlk_declaration, pending);
SAME(wlk_declaration, label_length);
SAME(wlk_declaration, priority);
SAME(wlk_declaration, data);
SAME(wlk_declaration, order);
SAME(wlk_declaration, by_level);
SAME(wlk_declaration, by_writer);
SAME(wlk_declaration, inner);
SAME(wlk_declaration, search);
SAME(wlk_declaration, goal);
SAME(wlk_declaration, found);
SAME(wlk_declaration, waiting);
SAME(wlk_declaration, through);
SAME(wlk_declaration, nesting_count);
AT(wlk_declaration, nesting);

_Static_assert(
    WLK_EXCLUSIVE == 0 && WLK_SHARED == 1 && WLK_STATE_PENDING == 0 && WLK_STATE_HELD == 1 &&
        WLK_STATE_REVOKED == 2 && WLK_NEWS_GRANTED == 1 && WLK_NEWS_STOLEN == 2 &&
        WLK_NEWS_PASSED == 4,
    "a number in a field has changed: raise WLK_ABI");
_Static_assert(sizeof WLK_MAGIC <= sizeof((struct wlk_process *)0)->magic, "too long a word");

#undef ABI_OF_TESTS
#undef RAISE
#undef AT
#undef SAME
#undef WHOLE
