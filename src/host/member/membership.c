#include "membership.h"

#include "../segment/arena.h"
#include "../segment/members.h"
#include "section.h"

#include <errno.h>
#include <string.h>

enum { CELLS_AT_FIRST = WLH_CELLS_AT_FIRST, MANY_CELLS = 16 * CELLS_AT_FIRST, OPEN_ROUNDS = 100 };

#define BY_CELL_BYTES (WLH_CELLS_MOST * sizeof(struct wlh_request *))
#define TOKENS_AHEAD  (UINT64_C(1) << 50) /* in microseconds: 35 years */
#define SAME_BOOT_MS  10000               /* Two boots of a machine are further apart. */
#define GENERATIONS   ((UINT64_C(1) << 48) - 1)

static struct wlh_header *header_of(struct wlh_bucket *bucket)
{
  return &((struct wlh_segment *)bucket->port.map)->header;
}

static bool is_member_alive(void *data, uint32_t member)
{
  struct wlh_bucket *bucket = data;
  return wlh_port_is_alive(&bucket->port, member);
}

/* All values but GOOD say why a segment cannot be joined. */
enum verdict { GOOD, FORMATLESS, FOREIGN_LAYOUT, POISONED, RETIRED, UNMAPPED };

static enum wlh_status fail_to_map(
    const struct wlh_bucket *bucket, int error, struct wlh_failure *failure)
{
  return wlh_fail(
      failure, wlh_port_status_of(error), WLH_PORT_FILE " cannot be mapped: %s%s",
      bucket->port.path, wlh_port_error_text(error), wlh_port_remedy(error));
}

/* A file of this boot may name another boot id, because a container can have a boot id of its own.
 * Then a living member proves that the boot is the same: byte locks do not outlive a boot, and a
 * member takes its lock only after this function has returned true. */
static bool is_of_this_boot(struct wlh_bucket *bucket, uint64_t boot)
{
  return header_of(bucket)->boot == boot || wlh_port_is_any_alive(&bucket->port);
}

/* Sets `failure` if the result is UNMAPPED. */
static enum verdict judge_segment(
    struct wlh_bucket *bucket, uint64_t boot, struct wlh_failure *failure)
{
  int error;
  uint64_t size = wlh_port_extend_map(&bucket->port, &error);
  if (error != 0) (void)fail_to_map(bucket, error, failure);
  if (size < wlh_segment_bytes(WLH_CELLS_LEAST)) return error != 0 ? UNMAPPED : FORMATLESS;
  struct wlh_header *header = header_of(bucket);
  if (atomic_load(&header->magic) != WLH_MAGIC || !is_of_this_boot(bucket, boot)) return FORMATLESS;
  if (header->layout != WLH_LAYOUT || header->incompat != 0) return FOREIGN_LAYOUT;
  uint32_t ncells = header->ncells;
  if (!wlh_is_valid_size(ncells, header->nmembers)) return POISONED;
  if (size < wlh_segment_bytes(ncells)) return error != 0 ? UNMAPPED : POISONED;
  if (atomic_load(&header->poisoned)) return POISONED;
  if (!wlh_cells_is_formatted(bucket->port.map)) return POISONED;
  return atomic_load(&header->retired) ? RETIRED : GOOD;
}

/* If the layout is foreign, the message names a process that uses the file, if one is known. */
static enum wlh_status fail_unusable(
    struct wlh_bucket *bucket, enum verdict verdict, struct wlh_failure *failure)
{
  struct wlh_segment *segment = bucket->port.map;
  if (verdict != FOREIGN_LAYOUT) {
    return wlh_fail(
        failure, WLH_LOST,
        WLH_PORT_FILE
        " is damaged, and other processes still have it open. Requests fail until "
        "those processes exit or notice the damage; then the file is created again. %s",
        bucket->port.path, wlh_port_open_files_hint());
  }
  uint32_t pid = 0;
  char version[sizeof segment->members[0].version + 1] = "";
  for (uint32_t i = 0; i < WLH_MEMBERS && pid == 0; i++) {
    if (!wlh_port_is_alive(&bucket->port, i)) continue;
    pid = segment->members[i].pid;
    memcpy(version, segment->members[i].version, sizeof version - 1);
  }
  for (char *c = version; *c; c++) {
    if (*c < ' ' || *c > '~') *c = '?';
  }
  if (pid == 0) { /* The process that uses the file is still opening it. */
    return wlh_fail(
        failure, WLH_VERSION,
        WLH_PORT_FILE
        " is in use by another version of web-locks (layout %u), which cannot share it with "
        "version %s (layout %u) of this process",
        bucket->port.path, segment->header.layout, bucket->version, WLH_LAYOUT);
  }
  return wlh_fail(
      failure, WLH_VERSION,
      WLH_PORT_FILE
      " is in use by process %u with version %s of web-locks (layout %u), which cannot share it "
      "with version %s (layout %u) of this process",
      bucket->port.path, pid, version, segment->header.layout, bucket->version, WLH_LAYOUT);
}

/* A member without work does not check the tables. If they are damaged, it would keep the file
 * open, and so keep all new members out, until it is woken. */
static void wake_all_members(struct wlh_bucket *bucket)
{
  for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
    if (wlh_port_is_alive(&bucket->port, i)) wlh_port_rouse(&bucket->port, i);
  }
}

/* Returns when the machine booted, in milliseconds since 1970, or 0 if that is not known. The
 * result is not exact, because its two clocks drift apart by some seconds a day. */
static uint64_t time_of_boot(void)
{
  double up = wlk_port_continuous_now();
  uint64_t now = wlh_port_wall_time() / 1000;
  return up >= 0 && now > (uint64_t)up ? now - (uint64_t)up : 0;
}

/* Whether a file that no process has open was written in this boot. */
static bool is_surely_of_this_boot(const struct wlh_header *header, uint64_t boot)
{
  if (boot != WLH_PORT_ANY_BOOT) return header->boot == boot;
  uint64_t booted = time_of_boot(), then = header->booted;
  uint64_t apart = booted > then ? booted - then : then - booted;
  return booted != 0 && apart < SAME_BOOT_MS;
}

/* The token must exceed all tokens of earlier files. No file has had more than one grant per
 * microsecond, so the time in microseconds exceeds its tokens unless the clock was set back. For
 * that case, the token of the previous file (`before`) counts as well, even if that file seems to
 * be of another boot, unless the token is huge. */
static void raise_token(struct wlh_header *header, uint64_t before)
{
  uint64_t now = wlh_port_wall_time();
  if (header->token < before && before < now + TOKENS_AHEAD) header->token = before;
  if (header->token < now && now < WLH_COUNT_MOST / 2) header->token = now;
}

/* If the file has marks that can be kept, frees everything else, and returns true. */
static bool reuse_segment(struct wlh_bucket *bucket, uint64_t bytes, uint64_t boot)
{
  struct wlh_header *header = header_of(bucket);
  if (!wlh_cells_can_reuse(bucket->port.map, bytes)) return false;
  raise_token(header, header->token);
  bool same = is_surely_of_this_boot(header, boot);
  if (!wlh_cells_reuse(bucket->port.map, bytes, boot, same)) return false;
  atomic_store(&header->retired, 0);
  return true;
}

/* If the segment has no members, recreates it, except for marks. The caller must have the gate. */
static enum wlh_status format_segment(
    struct wlh_bucket *bucket, uint64_t boot, struct wlh_failure *failure)
{
  int error;
  uint64_t bytes = wlh_port_extend_map(&bucket->port, &error);
  bool touch = bytes >= sizeof(struct wlh_header);
  uint64_t key[2];
  if (error != 0 && !touch) return fail_to_map(bucket, error, failure);
  if (touch) atomic_store(&header_of(bucket)->retired, 1);
  atomic_thread_fence(memory_order_seq_cst);
  if (wlh_port_is_any_alive(&bucket->port)) {
    if (touch) atomic_store(&header_of(bucket)->retired, 0);
    enum verdict verdict = judge_segment(bucket, boot, failure);
    if (verdict == GOOD) return WLH_OK;
    if (verdict == UNMAPPED) return failure->status;
    if (verdict != FOREIGN_LAYOUT) wake_all_members(bucket);
    return fail_unusable(bucket, verdict, failure);
  }
  if (touch && reuse_segment(bucket, bytes, boot)) return WLH_OK;
  if (touch) atomic_store(&header_of(bucket)->magic, 0);
  wlh_port_truncate(&bucket->port, wlh_segment_bytes(CELLS_AT_FIRST));
  error = wlh_port_grow(&bucket->port, wlh_segment_bytes(CELLS_AT_FIRST));
  if (error != 0) {
    return wlh_fail(
        failure, WLH_FULL, WLH_PORT_FILE ": cannot allocate %u bytes: %s%s", bucket->port.path,
        (unsigned)wlh_segment_bytes(CELLS_AT_FIRST), wlh_port_error_text(error),
        wlh_port_remedy(error));
  }
  if (!wlk_port_random(key, sizeof key)) {
    return wlh_fail(failure, WLH_UNSUPPORTED, "the system returned no random bytes");
  }
  if (wlh_port_extend_map(&bucket->port, &error) < wlh_segment_bytes(CELLS_AT_FIRST)) {
    if (error != 0) return fail_to_map(bucket, error, failure);
    return wlh_fail(
        failure, WLH_LOST, WLH_PORT_FILE " was truncated while this process was opening it",
        bucket->port.path);
  }
  struct wlh_header *header = header_of(bucket);
  uint64_t before = header->token;
  wlh_cells_format(bucket->port.map, CELLS_AT_FIRST, boot, key);
  raise_token(header, before);
  atomic_store(&header->retired, 0);
  atomic_store(&header->magic, WLH_MAGIC);
  return WLH_OK;
}

/* If the segment cannot be used, or is `stale`, recreates it. Waits until the gate is free. */
static enum wlh_status pass_gate(
    struct wlh_bucket *bucket, uint64_t boot, bool stale, struct wlh_failure *failure)
{
  /* This polls, so that we can close even if a process is stopped while it has the gate. */
  for (uint64_t sleep = 50000; !wlh_port_lock_gate(&bucket->port);) {
    if (wlh_is_stopping(bucket)) return wlh_fail(failure, WLH_CLOSED, "the bucket was closed");
    wlh_port_sleep(sleep);
    if (sleep < 5000000) sleep *= 2;
  }
  bool good = !stale && judge_segment(bucket, boot, failure) == GOOD;
  enum wlh_status status = good ? WLH_OK : format_segment(bucket, boot, failure);
  wlh_port_unlock_gate(&bucket->port);
  return status;
}

/* Tries first the numbers that have no dead member left in the tables. */
static bool take_number(struct wlh_bucket *bucket, uint32_t *member)
{
  struct wlh_segment *segment = bucket->port.map;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < WLH_MEMBERS; i++) {
      if ((segment->members[i].state != WLH_MEMBER_OUT) != (pass == 1)) continue;
      if (!wlh_port_lock_member(&bucket->port, i)) continue;
      *member = i;
      return true;
    }
  }
  return false;
}

/* Recreates the segment first if it cannot be used or if, while unused, it is large or of an
 * unknown boot. */
static enum wlh_status take_number_in_segment(
    struct wlh_bucket *bucket, uint32_t *member, struct wlh_failure *failure)
{
  uint64_t boot = wlh_port_boot_number();
  /* A segment that no process has open is recreated if boots have no number, because it may be of
   * another boot. It is also recreated if it is large: that costs space, and time at each death. */
  bool is_large = wlh_port_size(&bucket->port) > wlh_segment_bytes(MANY_CELLS);
  bool stale = (boot == WLH_PORT_ANY_BOOT || is_large) && !wlh_port_is_any_alive(&bucket->port);
  for (int round = 0; round < OPEN_ROUNDS; round++) {
    if (!stale && judge_segment(bucket, boot, failure) == GOOD) {
      if (!take_number(bucket, member)) {
        return wlh_fail(
            failure, WLH_FULL,
            WLH_PORT_FILE
            " is open in %d processes, which is the maximum. Close it in some of them, or use "
            "several buckets.",
            bucket->port.path, WLH_MEMBERS);
      }
      /* Either a process that formats sees our byte lock, or we see that it is about to format. */
      atomic_thread_fence(memory_order_seq_cst);
      if (judge_segment(bucket, boot, failure) == GOOD && !wlh_is_lost(bucket)) return WLH_OK;
      wlh_port_unlock_member(&bucket->port, *member);
    }
    enum wlh_status status = pass_gate(bucket, boot, stale, failure);
    stale = false;
    if (status != WLH_OK) return status;
    if (wlh_is_lost(bucket)) break;
  }
  return wlh_fail(
      failure, WLH_LOST,
      WLH_PORT_FILE " was replaced repeatedly while this process tried to open it. Try again.",
      bucket->port.path);
}

static enum wlh_status join_segment(
    struct wlh_bucket *bucket, uint32_t member, struct wlh_failure *failure)
{
  int error;
  uint64_t bytes = wlh_port_extend_map(&bucket->port, &error);
  struct wlh_segment *segment = bucket->port.map;
  uint64_t generation = (segment->members[member].gen + 1) & GENERATIONS;
  segment->members[member].gen = generation;
  bucket->me = generation << 16 | (member + 1);
  wlh_cells_attach(&bucket->arena, segment, bytes, member, is_member_alive, bucket);
  error = wlh_port_bind(&bucket->port, member);
  if (error == ENOENT) {
    return wlh_fail(
        failure, WLH_LOST, "%s was deleted or moved while this process was opening it",
        bucket->port.path);
  }
  if (error != 0) {
    return wlh_fail(
        failure, wlh_port_status_of(error),
        "%s: the wake-up channel of this process cannot be created, or does not work: %s%s",
        bucket->port.path, wlh_port_error_text(error), wlh_port_remedy(error));
  }
  enum wlh_way way = wlh_enter(bucket);
  if (way == WLH_SHUT) return wlh_fail(failure, WLH_CLOSED, "the bucket was closed");
  if (way == WLH_IN) {
    (void)wlh_cells_join(&bucket->arena, bucket->id, wlh_port_pid(), bucket->version);
    if (wlh_port_boot_number() == WLH_PORT_ANY_BOOT) segment->header.booted = time_of_boot();
    wlh_leave_tables(bucket);
  }
  if (!wlh_is_lost(bucket)) return WLH_OK;
  return wlh_fail(
      failure, WLH_LOST, WLH_PORT_FILE " became unusable while this process was opening it",
      bucket->port.path);
}

/* Allocates `by_cell` and makes the alarm, too. */
static enum wlh_status map_file(struct wlh_bucket *bucket, struct wlh_failure *failure)
{
  int error = wlh_port_map(&bucket->port, (size_t)wlh_segment_bytes(WLH_CELLS_MOST), &bucket->lost);
  if (error == ENOBUFS) {
    return wlh_fail(
        failure, WLH_FULL,
        WLH_PORT_FILE ": too many buckets are open in this process. Close unused ones.",
        bucket->port.path);
  }
  if (error != 0) return fail_to_map(bucket, error, failure);
  bucket->by_cell = wlh_port_alloc_zeros(BY_CELL_BYTES);
  if (!bucket->by_cell) return wlh_fail(failure, WLH_NO_MEMORY, "out of memory");
  struct wlh_port_alarm alarm;
  if (!wlh_port_make_alarm(&alarm)) {
    return wlh_fail(
        failure, wlh_port_status_of(errno),
        "%s: cannot create the wake-up channel of a thread: %s%s", bucket->port.path,
        wlh_port_error_text(errno), wlh_port_remedy(errno));
  }
  wlk_mutex_lock(&bucket->qmu);
  bucket->alarm = alarm;
  wlk_mutex_unlock(&bucket->qmu);
  return WLH_OK;
}

static void close_all(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  struct wlh_port_alarm alarm = bucket->alarm;
  bucket->alarm = (struct wlh_port_alarm){-1, -1};
  wlk_mutex_unlock(&bucket->qmu);
  wlh_port_close_alarm(alarm);
  wlh_port_free_zeros((void *)bucket->by_cell, BY_CELL_BYTES);
  bucket->by_cell = NULL;
  wlh_port_close(&bucket->port);
}

enum wlh_status wlh_member_open(struct wlh_bucket *bucket, struct wlh_failure *failure)
{
  uint32_t member = 0;
  __atomic_store_n(&bucket->lost_why, NULL, __ATOMIC_RELAXED);
  __atomic_store_n(&bucket->lost, 0, __ATOMIC_RELEASE);
  enum wlh_status status =
      wlh_port_open(&bucket->port, bucket->directory, bucket->standard, bucket->name, failure);
  if (status == WLH_OK) status = map_file(bucket, failure);
  if (status == WLH_OK) status = take_number_in_segment(bucket, &member, failure);
  if (status == WLH_OK) status = join_segment(bucket, member, failure);
  if (status != WLH_OK) {
    close_all(bucket);
    return status;
  }
  wlh_port_note_name(&bucket->port, bucket->title, bucket->title_units);
  wlh_port_watch(&bucket->port, member);
  /* The file may have been deleted before the watch began. */
  const char *harm = wlh_port_find_harm(&bucket->port, 0);
  if (harm) wlh_set_lost(bucket, harm);
  bucket->open = true;
  wlh_show_tables(bucket);
  return WLH_OK;
}

/* The caller must be inside. */
static void end_agents(struct wlh_bucket *bucket)
{
  wlk_mutex_lock(&bucket->qmu);
  WLK_LIST_FOR_EACH (link, &bucket->agents) {
    struct wlh_agent *agent = WLK_ITEM(link, struct wlh_agent, by_bucket);
    if (agent->cell) (void)wlh_cells_terminate_agent(&bucket->arena, agent->cell);
    agent->cell = 0;
  }
  wlk_mutex_unlock(&bucket->qmu);
}

int wlh_member_close(struct wlh_bucket *bucket)
{
  wlh_hide_tables(bucket);
  if (!wlh_is_lost(bucket) && wlh_enter(bucket) == WLH_IN) {
    wlh_port_unbind(&bucket->port, bucket->arena.member);
    end_agents(bucket);
    (void)wlh_cells_leave(&bucket->arena);
    wlh_leave_tables(bucket);
  }
  bucket->open = false;
  wlh_stop_hearing(bucket);
  int watch = bucket->port.watch;
  bucket->port.watch = -1;
  close_all(bucket);
  return watch;
}
