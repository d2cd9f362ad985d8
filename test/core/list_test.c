/* list.h. */
#include "harness.h"

struct item {
  int number;
  struct wlk_link link;
};

enum { ITEMS = 4 };

/* Fills `list` with items 0, 1, 2, 3. */
static void fill(struct wlk_link *list, struct item items[ITEMS])
{
  wlk_list_init(list);
  for (int i = 0; i < ITEMS; i++) {
    items[i].number = i;
    wlk_list_init(&items[i].link);
    wlk_list_append(list, &items[i].link);
  }
}

/* The numbers in `list`, front first, as the digits of a decimal. */
static int digits(const struct wlk_link *list)
{
  int all = 0;
  WLK_LIST_FOR_EACH (link, list) all = all * 10 + WLK_ITEM(link, struct item, link)->number;
  return all;
}

/* The same from the back. */
static int digits_back(const struct wlk_link *list)
{
  int all = 0;
  for (const struct wlk_link *link = list->previous; link != list; link = link->previous)
    all = all * 10 + WLK_ITEM(link, const struct item, link)->number;
  return all;
}

TEST(static_list, "a statically initialised list is empty")
{
  struct wlk_link list = WLK_LIST_INIT(list);
  CHECK(wlk_list_is_empty(&list) && list.previous == &list);
}

TEST(ends, "appended items come last, prepended ones first, in both directions")
{
  struct wlk_link list;
  struct item items[ITEMS], first = {.number = 7};
  fill(&list, items);
  wlk_list_prepend(&list, &first.link);
  CHECK(digits(&list) == 70123 && digits_back(&list) == 32107);
}

TEST(remove_any, "an item can be removed from the front, the middle and the end")
{
  for (int i = 0; i < ITEMS; i++) {
    static const int left[] = {123, 23, 13, 12}, back[] = {321, 320, 310, 210};
    struct wlk_link list;
    struct item items[ITEMS];
    fill(&list, items);
    wlk_list_remove(&items[i].link);
    CHECK(digits(&list) == left[i] && digits_back(&list) == back[i]);
    CHECK(wlk_list_is_empty(&items[i].link));
  }
}

TEST(remove_twice, "removing an item that is in no list is harmless")
{
  struct wlk_link list;
  struct item items[ITEMS];
  fill(&list, items);
  wlk_list_remove(&items[2].link);
  wlk_list_remove(&items[2].link);
  CHECK(digits(&list) == 13);
  wlk_list_append(&list, &items[2].link);
  CHECK(digits(&list) == 132);
}

TEST(drain, "draining visits the front until the list is empty, also what is appended meanwhile")
{
  struct wlk_link list;
  struct item items[ITEMS], late = {.number = 9};
  int seen = 0;
  fill(&list, items);
  WLK_LIST_DRAIN (link, &list) {
    struct item *item = WLK_ITEM(link, struct item, link);
    wlk_list_remove(link);
    if (item->number == 2) wlk_list_append(&list, &late.link);
    seen = seen * 10 + item->number;
  }
  CHECK(seen == 1239 && wlk_list_is_empty(&list));
}
