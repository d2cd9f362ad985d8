#include "values.h"

#include <cstdlib>
#include <cstring>

wlk_status CodeUnits::Read(napi_env env, napi_value string)
{
  if (napi_get_value_string_utf16(env, string, short_, kShort, &length_) != napi_ok)
    return WLK_NO_MEMORY;
  if (length_ < kShort - 1) return WLK_OK;
  /* A string that fills the buffer may be longer. */
  if (napi_get_value_string_utf16(env, string, nullptr, 0, &length_) != napi_ok)
    return WLK_NO_MEMORY;
  long_ = static_cast<char16_t *>(malloc((length_ + 1) * sizeof(char16_t)));
  if (!long_) return WLK_NO_MEMORY;
  napi_status status = napi_get_value_string_utf16(env, string, long_, length_ + 1, &length_);
  return status == napi_ok ? WLK_OK : WLK_NO_MEMORY;
}

bool CodeUnits::ReadOptional(napi_env env, napi_value value, bool *given)
{
  napi_valuetype type;
  if (napi_typeof(env, value, &type) != napi_ok) return false;
  *given = type == napi_string;
  return !*given || Read(env, value) == WLK_OK;
}

bool read_time(napi_env env, napi_value value, uint64_t *milliseconds)
{
  int64_t time;
  if (!succeeded(env, napi_get_value_int64(env, value, &time), "reading a time")) return false;
  *milliseconds = time > 0 ? static_cast<uint64_t>(time) : 0;
  return true;
}

static bool set(napi_env env, napi_value object, const char *name, napi_value value)
{
  return succeeded(
      env, napi_set_named_property(env, object, name, value), "napi_set_named_property");
}

/* A snapshot may have very many elements, so each has a handle scope of its own. */
template <typename MakeString>
static bool append(napi_env env, napi_value array, size_t index, MakeString make_string)
{
  napi_handle_scope scope;
  if (!succeeded(env, napi_open_handle_scope(env, &scope), "napi_open_handle_scope")) return false;
  napi_value string;
  bool done = succeeded(env, make_string(&string), "making a string") &&
              succeeded(
                  env, napi_set_element(env, array, static_cast<uint32_t>(index), string),
                  "napi_set_element");
  return succeeded(env, napi_close_handle_scope(env, scope), "napi_close_handle_scope") && done;
}

static bool set_names(napi_env env, napi_value object, const wlk_snapshot *snapshot)
{
  napi_value names;
  if (!succeeded(
          env, napi_create_array_with_length(env, snapshot->name_count, &names),
          "napi_create_array_with_length"))
    return false;
  for (size_t i = 0; i < snapshot->name_count; i++) {
    const wlk_name &name = snapshot->names[i];
    const char16_t *units = reinterpret_cast<const char16_t *>(name.units);
    if (!append(env, names, i, [&](napi_value *string) {
          return napi_create_string_utf16(env, units, name.length, string);
        }))
      return false;
  }
  return set(env, object, "names", names);
}

/* Sets the property to an array that has one value for each client. */
template <typename Make>
static bool set_of_clients(
    napi_env env, napi_value object, const char *name, const wlk_snapshot *snapshot, Make make)
{
  napi_value array;
  if (!succeeded(
          env, napi_create_array_with_length(env, snapshot->client_count, &array),
          "napi_create_array_with_length"))
    return false;
  for (size_t i = 0; i < snapshot->client_count; i++) {
    const wlk_client &client = snapshot->clients[i];
    if (!append(env, array, i, [&](napi_value *value) { return make(client, value); }))
      return false;
  }
  return set(env, object, name, array);
}

static bool set_clients(napi_env env, napi_value object, const wlk_snapshot *snapshot)
{
  auto id = [env](const wlk_client &client, napi_value *value) {
    return napi_create_string_latin1(env, client.id, NAPI_AUTO_LENGTH, value);
  };
  auto thread_id = [env](const wlk_client &client, napi_value *value) {
    return napi_create_uint32(env, client.thread_id, value);
  };
  auto thread_name = [env](const wlk_client &client, napi_value *value) {
    const char16_t *units = reinterpret_cast<const char16_t *>(client.thread.units);
    return napi_create_string_utf16(env, units, client.thread.length, value);
  };
  return set_of_clients(env, object, "clientIds", snapshot, id) &&
         set_of_clients(env, object, "threadIds", snapshot, thread_id) &&
         set_of_clients(env, object, "threadNames", snapshot, thread_name);
}

static bool set_locks(napi_env env, napi_value object, const wlk_snapshot *snapshot)
{
  size_t size = snapshot->lock_count * sizeof *snapshot->locks;
  void *memory = nullptr;
  napi_value locks;
  if (!succeeded(
          env, napi_create_arraybuffer(env, size, &memory, &locks), "napi_create_arraybuffer"))
    return false;
  if (size > 0) memcpy(memory, snapshot->locks, size);
  return set(env, object, "locks", locks);
}

static bool set_pids(
    napi_env env, napi_value object, const wlk_snapshot *snapshot, const uint32_t *pids)
{
  return set_of_clients(
      env, object, "pids", snapshot, [&](const wlk_client &client, napi_value *value) {
        return napi_create_uint32(env, pids[&client - snapshot->clients], value);
      });
}

napi_value snapshot_value(napi_env env, const wlk_snapshot *snapshot, const uint32_t *pids)
{
  napi_value object;
  if (!succeeded(env, napi_create_object(env, &object), "napi_create_object")) return nullptr;
  bool done = set_names(env, object, snapshot) && set_clients(env, object, snapshot) &&
              set_locks(env, object, snapshot) && (!pids || set_pids(env, object, snapshot, pids));
  return done ? object : nullptr;
}

napi_value answer_snapshot(napi_env env, wlk_snapshot *snapshot)
{
  napi_value value = snapshot_value(env, snapshot);
  wlk_snapshot_free(snapshot);
  return value;
}
