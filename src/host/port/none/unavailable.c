/* Platforms without the host scope: wlh_bucket_open fails, so no function that needs an open bucket
 * is ever called. */
#include "../../host.h"

#include <stdio.h>

#if defined(__APPLE__)
#define PLATFORM "darwin"
#elif defined(__FreeBSD__)
#define PLATFORM "freebsd"
#else
#define PLATFORM "this platform"
#endif

enum wlh_status wlh_bucket_open(
    const char *directory, const uint16_t *name, uint32_t length, const char *version,
    struct wlh_bucket **bucket)
{
  (void)directory;
  (void)name;
  (void)length;
  (void)version;
  *bucket = NULL;
  return WLH_UNSUPPORTED;
}

void wlh_get_open_failure(char *text, size_t size)
{
  (void)snprintf(
      text, size,
      "the host scope is not available on " PLATFORM
      ". Use the locks of one process (require('web-locks')) or of a cluster (" WLH_CLUSTER ").");
}

void wlh_bucket_close(struct wlh_bucket *bucket)
{
  (void)bucket;
}

void wlh_bucket_get_path(const struct wlh_bucket *bucket, char *text, size_t size)
{
  (void)bucket;
  if (size > 0) *text = '\0';
}

void wlh_bucket_get_failure(struct wlh_bucket *bucket, char *text, size_t size)
{
  (void)bucket;
  wlh_get_open_failure(text, size);
}

enum wlh_status wlh_agent_create(
    struct wlh_bucket *bucket, const struct wlk_thread *thread, wlk_wake_function *wake, void *data,
    struct wlh_agent **agent)
{
  (void)bucket;
  (void)thread;
  (void)wake;
  (void)data;
  *agent = NULL;
  return WLH_UNSUPPORTED;
}

const char *wlh_agent_client_id(const struct wlh_agent *agent)
{
  (void)agent;
  return "";
}

void wlh_agent_take_events(struct wlh_agent *agent, bool woken, struct wlk_events *events)
{
  (void)agent;
  (void)woken;
  events->count = 0;
}

void wlh_agent_terminate(struct wlh_agent *agent)
{
  (void)agent;
}

enum wlh_status wlh_bucket_open_file(struct wlh_agent *agent, uint32_t tag)
{
  (void)agent;
  (void)tag;
  return WLH_UNSUPPORTED;
}

enum wlh_status wlh_request_a_lock(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, enum wlk_mode mode,
    enum wlk_option option, uint32_t tag, const struct wlk_extra *extra,
    struct wlh_request **request, struct wlk_events *events)
{
  (void)agent;
  (void)name;
  (void)length;
  (void)mode;
  (void)option;
  (void)tag;
  (void)extra;
  *request = NULL;
  events->count = 0;
  return WLH_UNSUPPORTED;
}

enum wlh_status wlh_wait_for_the_lock(
    struct wlh_request *request, uint64_t timeout, struct wlk_events *events)
{
  (void)request;
  (void)timeout;
  events->count = 0;
  return WLH_UNSUPPORTED;
}

enum wlh_status wlh_release_the_lock(struct wlh_request *lock, struct wlk_events *events)
{
  (void)lock;
  events->count = 0;
  return WLH_UNSUPPORTED;
}

bool wlh_is_marked(struct wlh_request *lock)
{
  (void)lock;
  return false;
}

enum wlh_status wlh_release_and_mark(
    struct wlh_request *lock, uint64_t keep, struct wlk_events *events)
{
  (void)keep;
  return wlh_release_the_lock(lock, events);
}

enum wlh_status wlh_publish(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, struct wlk_events *events)
{
  (void)text;
  (void)length;
  return wlh_release_the_lock(lock, events);
}

struct wlh_agent *wlh_agent_of(const struct wlh_request *request)
{
  (void)request;
  return NULL;
}

enum wlh_status wlh_publish_later(
    struct wlh_request *lock, const uint16_t *text, uint32_t length, uint32_t tag)
{
  (void)lock;
  (void)text;
  (void)length;
  (void)tag;
  return WLH_UNSUPPORTED;
}

enum wlh_status wlh_abort_the_request(struct wlh_request *request, struct wlk_events *events)
{
  (void)request;
  events->count = 0;
  return WLH_UNSUPPORTED;
}

void wlh_end_the_request(struct wlh_request *request)
{
  (void)request;
}

int wlh_agent_listen(struct wlh_agent *agent)
{
  (void)agent;
  return -1;
}

bool wlh_agent_hear(struct wlh_agent *agent, bool works)
{
  (void)agent;
  (void)works;
  return false;
}

enum wlh_status wlh_start_snapshot(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, bool pending, uint32_t tag)
{
  (void)agent;
  (void)name;
  (void)length;
  (void)pending;
  (void)tag;
  return WLH_UNSUPPORTED;
}

enum wlh_status wlh_find_holders(
    struct wlh_agent *agent, const uint16_t *name, uint32_t length, struct wlh_snapshot **snapshot)
{
  (void)agent;
  (void)name;
  (void)length;
  *snapshot = NULL;
  return WLH_UNSUPPORTED;
}

void wlh_wait_for_job(
    struct wlh_agent *agent, uint32_t tag, uint64_t timeout, struct wlk_events *events)
{
  (void)agent;
  (void)tag;
  (void)timeout;
  events->count = 0;
}

enum wlh_status wlh_fetch_snapshot(
    struct wlh_agent *agent, uint32_t tag, struct wlh_snapshot **snapshot)
{
  (void)agent;
  (void)tag;
  *snapshot = NULL;
  return WLH_UNSUPPORTED;
}

void wlh_cancel_job(struct wlh_agent *agent, uint32_t tag)
{
  (void)agent;
  (void)tag;
}

void wlh_snapshot_free(struct wlh_snapshot *snapshot)
{
  (void)snapshot;
}
