/* Strings, numbers and snapshots, in and out of JavaScript. */
#ifndef WEB_LOCKS_VALUES_H
#define WEB_LOCKS_VALUES_H

#include "environment.h"

/* The UTF-16 code units of a JavaScript string. A short string is copied into the object, a long
 * one to the heap. */
class CodeUnits {
public:
  CodeUnits() = default;
  CodeUnits(const CodeUnits &) = delete;
  CodeUnits &operator=(const CodeUnits &) = delete;
  ~CodeUnits() { free(long_); }

  /* Returns WLK_NO_MEMORY if out of memory, or if `string` is not a string. */
  wlk_status Read(napi_env env, napi_value string);

  /* If `value` is a string, reads it and sets `*given`. Returns false if out of memory. */
  bool ReadOptional(napi_env env, napi_value value, bool *given);

  const uint16_t *data() const
  {
    return reinterpret_cast<const uint16_t *>(long_ ? long_ : short_);
  }
  uint32_t length() const { return static_cast<uint32_t>(length_); }

private:
  static const size_t kShort = 256;
  char16_t short_[kShort];
  char16_t *long_ = nullptr;
  size_t length_ = 0;
};

/* A negative number becomes 0. If `value` is not a number, returns false, with an exception
 * pending. */
bool read_time(napi_env env, napi_value value, uint64_t *milliseconds);

/* Converts a snapshot to `{ names: string[], clientIds: string[], threadIds: number[], threadNames:
 * string[], locks: ArrayBuffer }`; `locks` has the wlk_lock_info structs, as 32-bit numbers. If
 * `pids` is not null, it has one number for each client, and the object also has `pids: number[]`.
 * If the conversion fails, returns null, with an exception pending. */
napi_value snapshot_value(
    napi_env env, const wlk_snapshot *snapshot, const uint32_t *pids = nullptr);

/* Converts the snapshot as snapshot_value does, and frees it. */
napi_value answer_snapshot(napi_env env, wlk_snapshot *snapshot);

#endif
