#include "mark.h"

#include "alloc.h"

#include <string.h>

struct wlk_entry *wlk_mark_new(uint32_t length)
{
  struct wlk_mark *mark = wlk_alloc(sizeof *mark + length * sizeof mark->name[0]);
  if (!mark) return NULL;
  mark->entry.next = NULL;
  mark->entry.name = mark->name;
  mark->until = 0;
  mark->token = 0;
  return &mark->entry;
}

static struct wlk_mark *find_mark(const struct wlk_resource *resource)
{
  struct wlk_entry *entry = wlk_table_find(&resource->part->marks, &resource->entry);
  return entry ? WLK_ITEM(entry, struct wlk_mark, entry) : NULL;
}

/* Returns whether the lock for which the mark was last prepared is still held. */
static bool is_lock_held(const struct wlk_part *part, const struct wlk_mark *mark)
{
  const struct wlk_entry *entry = wlk_table_find(&part->resources, &mark->entry);
  if (!entry) return false;
  const struct wlk_resource *resource = WLK_ITEM(entry, struct wlk_resource, entry);
  return !wlk_list_is_empty(&resource->held) &&
         WLK_REQUEST_OF(resource->held.next, by_resource)->token == mark->token;
}

/* Looks at the mark that was checked longest ago. If its time is over and no lock can set it any
 * more, drops it. Otherwise moves it to the end of the list. */
static void drop_one_if_over(
    struct wlk_section *section, struct wlk_part *part, uint64_t now, struct wlk_entry **unused)
    WLK_REQUIRES(section->shard->mutex)
{
  if (wlk_list_is_empty(&part->marks_by_look)) return;
  struct wlk_mark *mark = WLK_ITEM(part->marks_by_look.next, struct wlk_mark, by_look);
  wlk_list_remove(&mark->by_look);
  if (mark->until > now || is_lock_held(part, mark)) {
    wlk_list_append(&part->marks_by_look, &mark->by_look);
    return;
  }
  wlk_section_remove(section, &part->marks, &mark->entry);
  mark->entry.next = *unused;
  *unused = &mark->entry;
}

static struct wlk_mark *insert_mark(
    struct wlk_section *section, const struct wlk_resource *resource, struct wlk_entry *entry)
    WLK_REQUIRES(section->shard->mutex)
{
  struct wlk_mark *mark = WLK_ITEM(entry, struct wlk_mark, entry);
  uint32_t length = resource->entry.length;
  if (length > 0) memcpy(mark->name, resource->name, length * sizeof mark->name[0]);
  mark->entry.length = length;
  mark->entry.hash = resource->entry.hash;
  wlk_section_insert(section, &resource->part->marks, &mark->entry);
  wlk_list_append(&resource->part->marks_by_look, &mark->by_look);
  return mark;
}

enum wlk_status wlk_mark_find_or_add(
    struct wlk_section *section, const struct wlk_request *lock, struct wlk_entry **unused)
{
  const struct wlk_resource *resource = lock->resource;
  uint64_t now = wlk_port_now(true);
  struct wlk_mark *mark = find_mark(resource);
  if (!mark) {
    struct wlk_entry *fresh = *unused;
    if (!fresh) return WLK_NO_MEMORY;
    *unused = NULL;
    for (int i = 0; i < 2; i++) drop_one_if_over(section, resource->part, now, unused);
    mark = insert_mark(section, resource, fresh);
  }
  if (mark->until > now) return WLK_MARKED;
  mark->token = lock->token;
  return WLK_OK;
}

bool wlk_mark_set(const struct wlk_request *lock, uint64_t keep)
{
  struct wlk_mark *mark = find_mark(lock->resource);
  if (!mark || mark->token != lock->token) return false;
  uint64_t now = wlk_port_now(true);
  /* `now` is rounded down, so without the 1 the mark could end too early. */
  mark->until = keep >= UINT64_MAX - now ? UINT64_MAX : now + keep + 1;
  return true;
}

void wlk_marks_free(struct wlk_entry *marks)
{
  while (marks) {
    struct wlk_mark *mark = WLK_ITEM(marks, struct wlk_mark, entry);
    marks = marks->next;
    wlk_free(mark);
  }
}

void wlk_marks_clear(struct wlk_manager *manager)
{
  for (int i = 0; i < WLK_SHARDS; i++) {
    struct wlk_part *part = &manager->parts[i];
    WLK_LIST_DRAIN (link, &part->marks_by_look) {
      wlk_list_remove(link);
      wlk_free(WLK_ITEM(link, struct wlk_mark, by_look));
    }
    if (part->marks.chains != part->marks.least) wlk_free(part->marks.chains);
  }
}
