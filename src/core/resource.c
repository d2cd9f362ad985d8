#include "resource.h"

struct wlk_resource *wlk_resource_find_or_add(
    struct wlk_section *section, struct wlk_manager *manager)
{
  struct wlk_resource *spare = section->caller->spare;
  struct wlk_part *part = &manager->parts[wlk_shard_of(spare->entry.hash)];
  struct wlk_entry *known = wlk_table_find(&part->resources, &spare->entry);
  if (known) return WLK_ITEM(known, struct wlk_resource, entry);
  section->caller->spare = NULL;
  spare->part = part;
  wlk_section_insert(section, &part->resources, &spare->entry);
  part->name_units += spare->entry.length;
  return spare;
}

void wlk_resource_drop_if_unused(struct wlk_section *section, struct wlk_resource *resource)
{
  if (!wlk_list_is_empty(&resource->held) || !wlk_list_is_empty(&resource->queue)) return;
  wlk_section_remove(section, &resource->part->resources, &resource->entry);
  resource->part->name_units -= resource->entry.length;
  resource->entry.next = section->resources;
  section->resources = &resource->entry;
}
