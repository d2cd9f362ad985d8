/* Intrusive, circular, doubly linked lists. A list is a `struct wlk_link`; while it is empty, it is
 * its own neighbour. An item has one link for each list that it can be in. If the item is in no
 * list, the link is its own neighbour as well, and removing it is harmless. */
#ifndef WLK_LIST_H
#define WLK_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct wlk_link {
  struct wlk_link *previous;
  struct wlk_link *next;
};

#define WLK_LIST_INIT(list)                                                                        \
  {                                                                                                \
    &(list), &(list)                                                                               \
  }

#define WLK_ITEM(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Visits each link of `list` from the front; the body must not remove `link`. */
#define WLK_LIST_FOR_EACH(link, list)                                                              \
  for (struct wlk_link *link = (list)->next; link != (list); link = link->next)

/* Runs the body with the first link until the list is empty; the body must remove `link`. */
#define WLK_LIST_DRAIN(link, list) for (struct wlk_link * link; (link = (list)->next) != (list);)

static inline void wlk_list_init(struct wlk_link *list)
{
  list->previous = list;
  list->next = list;
}

static inline bool wlk_list_is_empty(const struct wlk_link *list)
{
  return list->next == list;
}

static inline void wlk_list_insert(struct wlk_link *previous, struct wlk_link *link)
{
  link->previous = previous;
  link->next = previous->next;
  previous->next->previous = link;
  previous->next = link;
}

static inline void wlk_list_append(struct wlk_link *list, struct wlk_link *link)
{
  wlk_list_insert(list->previous, link);
}

static inline void wlk_list_prepend(struct wlk_link *list, struct wlk_link *link)
{
  wlk_list_insert(list, link);
}

static inline void wlk_list_remove(struct wlk_link *link)
{
  link->previous->next = link->next;
  link->next->previous = link->previous;
  wlk_list_init(link);
}

#endif
