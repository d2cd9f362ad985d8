/* The calls about buckets that are the same in both scopes. */
#include "scope.h"

#include <cstdlib>

/* A second call for the same handle does nothing. */
static void close_handle(Handle *handle)
{
  void *bucket = handle->bucket;
  handle->bucket = nullptr;
  if (bucket) call_scope<&Scope::close>(handle->scope, bucket);
}

/* Runs on the environment's thread. */
static void finalize_handle(napi_env, void *data, void *)
{
  Handle *handle = static_cast<Handle *>(data);
  close_handle(handle);
  free(handle);
}

napi_value make_handle(napi_env env, SlotKind scope, void *bucket)
{
  Handle *handle = static_cast<Handle *>(calloc(1, sizeof *handle));
  if (!handle) {
    call_scope<&Scope::close>(scope, bucket);
    return answer(env, WLK_NO_MEMORY);
  }
  handle->scope = scope;
  handle->bucket = bucket;
  napi_value external;
  if (succeeded(
          env, napi_create_external(env, handle, finalize_handle, nullptr, &external),
          "napi_create_external"))
    return external;
  finalize_handle(env, handle, nullptr);
  return nullptr;
}

/* close(handle: External): status. All requests of the handle must have ended. */
napi_value call_close(napi_env env, napi_callback_info info)
{
  Call<1> call(env, info);
  if (Handle *handle = open_handle(call)) close_handle(handle);
  return answer(env, WLK_OK);
}

/* holders(handle: External, name: string): snapshot | status
 * Returns the held locks of the name; see wlk_snapshot_a_name and wlh_find_holders. */
napi_value call_holders(napi_env env, napi_callback_info info)
{
  Call<2> call(env, info);
  Handle *handle = open_handle(call);
  if (!handle) return answer(env, WLH_CLOSED);
  CodeUnits name;
  wlk_status status = name.Read(env, call.arguments[1]);
  if (status != WLK_OK) return answer(env, status);
  return call_scope<&Scope::holders>(handle->scope, env, handle->bucket, name);
}
