/* The buckets of this process. Threads that open the same bucket share it. */
#include "deferred.h"
#include "helper.h"

#include "../../core/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct wlk_mutex registry_mutex = WLK_MUTEX_INIT;
/* Guarded by registry_mutex, and changed only while forks are prevented. The registry includes
 * buckets that are being closed, which no thread has open any more. */
static struct wlk_link registry = WLK_LIST_INIT(registry);
static bool forks_seen; /* guarded by registry_mutex */

/* A forked child must not use the parent's files. Only async-signal-safe calls are allowed here. */
static void forget_buckets_in_child(void)
{
  wlh_port_reset_mutex(&registry_mutex);
  WLK_LIST_FOR_EACH (link, &registry) {
    struct wlh_bucket *bucket = WLK_ITEM(link, struct wlh_bucket, by_registry);
    __atomic_store_n(&bucket->forked, 1, __ATOMIC_RELAXED);
    wlh_port_close_files(&bucket->port);
    for (size_t i = 0; i < sizeof bucket->accepted / sizeof *bucket->accepted; i++) {
      wlh_port_close_descriptor(bucket->accepted[i]);
    }
    for (uint32_t i = 0; i < WLH_MEMBERS; i++)
      wlh_port_close_descriptor(bucket->watches[i].descriptor);
    wlh_port_close_alarm(bucket->alarm);
  }
  wlk_list_init(&registry);
}

/* Writes 24 hexadecimal digits to `text`. The keys are constant, so all processes get the same. */
static void hash_name(const uint16_t *name, uint32_t length, char *text)
{
  static const uint64_t keys[2][2] = {
      {UINT64_C(0x62756b6574206e61), UINT64_C(0x6d65206f66207765)},
      {UINT64_C(0x622d6c6f636b7320), UINT64_C(0x686f73742076310a)}};
  uint64_t first = wlk_hash(keys[0], name, length);
  uint64_t second = wlk_hash(keys[1], name, length);
  (void)snprintf(text, 25, "%016llx%08x", (unsigned long long)first, (unsigned)(uint32_t)second);
}

static void init_bucket(struct wlh_bucket *bucket)
{
  struct wlk_mutex fresh = WLK_MUTEX_INIT;
  bucket->mu = fresh;
  bucket->qmu = fresh;
  wlh_port_init(&bucket->port);
  wlk_list_init(&bucket->trash);
  wlk_list_init(&bucket->dead_agents);
  wlk_list_init(&bucket->agents);
  wlk_list_init(&bucket->deferred);
  wlk_list_init(&bucket->to_wake);
  for (size_t i = 0; i < sizeof bucket->accepted / sizeof *bucket->accepted; i++) {
    bucket->accepted[i] = -1;
  }
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) bucket->watches[i].descriptor = -1;
  bucket->alarm = (struct wlh_port_alarm){-1, -1};
}

static void free_bucket(struct wlh_bucket *bucket)
{
  wlh_view_free(&bucket->view);
  free(bucket->title);
  wlk_condition_destroy(&bucket->ended);
  free(bucket);
}

/* In code units. A bucket's name is a prefix and a name that the user chose. */
enum { TITLE_MOST = 2 * WLH_NAME_MOST };

/* If the name is too long, or memory runs out, wlh_port_note_name gets NULL. */
static void keep_title(struct wlh_bucket *bucket, const uint16_t *title, uint32_t units)
{
  if (units == 0 || units > TITLE_MOST) return;
  bucket->title = malloc(units * sizeof *title);
  if (!bucket->title) return;
  memcpy(bucket->title, title, units * sizeof *title);
  bucket->title_units = units;
}

static struct wlh_bucket *make_bucket(
    const char *directory, bool standard, const char *name, const char *version)
{
  struct wlh_bucket *bucket = calloc(1, sizeof *bucket);
  if (!bucket) return NULL;
  if (!wlk_condition_init(&bucket->ended)) {
    free(bucket);
    return NULL;
  }
  init_bucket(bucket);
  (void)snprintf(bucket->directory, sizeof bucket->directory, "%s", directory);
  (void)snprintf(bucket->name, sizeof bucket->name, "%s", name);
  (void)snprintf(bucket->version, sizeof bucket->version, "%s", version);
  bucket->standard = standard;
  if (wlk_port_random(&bucket->id, sizeof bucket->id)) {
    bucket->id |= bucket->id == 0; /* 0 means none */
    return bucket;
  }
  free_bucket(bucket);
  return NULL;
}

/* The caller must have the registry's mutex. */
static struct wlh_bucket *find_or_make_bucket(
    const char *directory, bool standard, const char *name, const char *version,
    const uint16_t *title, uint32_t units)
{
  WLK_LIST_FOR_EACH (link, &registry) {
    struct wlh_bucket *bucket = WLK_ITEM(link, struct wlh_bucket, by_registry);
    if (bucket->opens > 0 && strcmp(bucket->name, name) == 0 &&
        wlh_port_is_same_directory(bucket->directory, directory))
      return bucket;
  }
  if (!forks_seen) forks_seen = wlh_port_at_fork(forget_buckets_in_child);
  if (!forks_seen) return NULL;
  struct wlh_bucket *bucket = make_bucket(directory, standard, name, version);
  if (!bucket) return NULL;
  keep_title(bucket, title, units);
  wlh_port_prevent_forks();
  wlk_list_append(&registry, &bucket->by_registry);
  wlh_port_permit_forks();
  return bucket;
}

static _Thread_local struct wlh_failure open_failure;

void wlh_get_open_failure(char *text, size_t size)
{
  (void)snprintf(text, size, "%s", open_failure.text);
}

enum wlh_status wlh_bucket_open(
    const char *directory, const uint16_t *name, uint32_t length, const char *version,
    struct wlh_bucket **bucket)
{
  char path[WLH_PATH_SIZE];
  char text[25];
  bool standard;
  enum wlh_status status = wlh_port_choose_directory(directory, path, &standard, &open_failure);
  if (status != WLH_OK) return status;
  hash_name(name, length, text);
  wlk_mutex_lock(&registry_mutex);
  *bucket = find_or_make_bucket(path, standard, text, version, name, length);
  if (*bucket) (*bucket)->opens++;
  wlk_mutex_unlock(&registry_mutex);
  if (*bucket) return WLH_OK;
  return wlh_fail(&open_failure, WLH_NO_MEMORY, "out of memory");
}

/* A bucket must stay in the registry while it has descriptors, which a forked child must close. */
static void forget_bucket(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&registry_mutex);
  wlh_port_prevent_forks();
  wlk_list_remove(&bucket->by_registry);
  wlh_port_permit_forks();
  wlk_mutex_unlock(&registry_mutex);
}

void wlh_bucket_close(struct wlh_bucket *bucket)
{
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&registry_mutex);
  bool last = --bucket->opens == 0;
  wlk_mutex_unlock(&registry_mutex);
  if (!last) return;
  wlh_helper_stop(bucket);
  forget_bucket(bucket);
  wlh_do_deferred_without_tables(bucket); /* No other thread uses the bucket any more. */
  wlh_empty_trash(bucket);
  free_bucket(bucket);
}

void wlh_bucket_get_path(const struct wlh_bucket *bucket, char *text, size_t size)
{
  (void)snprintf(text, size, "%s/%s", bucket->directory, bucket->name);
}

void wlh_bucket_get_failure(struct wlh_bucket *bucket, char *text, size_t size)
{
  *text = '\0';
  if (wlh_is_forked(bucket)) return;
  wlk_mutex_lock(&bucket->qmu);
  (void)snprintf(text, size, "%s", bucket->failure.text);
  wlk_mutex_unlock(&bucket->qmu);
}
