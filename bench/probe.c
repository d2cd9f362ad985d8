/* Native code for the benchmarks: the bare wake-up of another thread, with which a hand-off is
 * compared, and the memory that malloc has allocated.
 *
 *   listen(function): number   makes a thread-safe function of it, in this thread
 *   wake(number)               calls that function in its thread, from any thread
 *   close(number)              releases it, in its thread
 *   allocated(): number        bytes of the process; -1 if the C library does not report them */
#include <node_api.h>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

enum { LISTENERS = 16 };

/* `listen` writes an entry before another thread gets its number. */
static napi_threadsafe_function listeners[LISTENERS];
static unsigned listener_count;

static unsigned number_argument(napi_env env, napi_callback_info info)
{
  size_t count = 1;
  napi_value argument;
  uint32_t number = LISTENERS;
  napi_get_cb_info(env, info, &count, &argument, NULL, NULL);
  napi_get_value_uint32(env, argument, &number);
  return number;
}

static napi_value listen(napi_env env, napi_callback_info info)
{
  size_t count = 1;
  napi_value function, name, result;
  unsigned number = __atomic_fetch_add(&listener_count, 1, __ATOMIC_RELAXED);
  if (number >= LISTENERS) return NULL;
  napi_get_cb_info(env, info, &count, &function, NULL, NULL);
  napi_create_string_utf8(env, "probe", NAPI_AUTO_LENGTH, &name);
  napi_create_threadsafe_function(
      env, function, NULL, name, 0, 1, NULL, NULL, NULL, NULL, &listeners[number]);
  napi_create_uint32(env, number, &result);
  return result;
}

static napi_value wake(napi_env env, napi_callback_info info)
{
  unsigned number = number_argument(env, info);
  if (number < LISTENERS)
    napi_call_threadsafe_function(listeners[number], NULL, napi_tsfn_nonblocking);
  return NULL;
}

static napi_value close_listener(napi_env env, napi_callback_info info)
{
  unsigned number = number_argument(env, info);
  if (number < LISTENERS) napi_release_threadsafe_function(listeners[number], napi_tsfn_abort);
  return NULL;
}

static napi_value allocated(napi_env env, napi_callback_info info)
{
  (void)info;
  double bytes = -1;
#if defined(__GLIBC__)
  struct mallinfo2 all = mallinfo2();
  bytes = (double)(all.uordblks + all.hblkhd);
#endif
  napi_value result;
  napi_create_double(env, bytes, &result);
  return result;
}

NAPI_MODULE_INIT()
{
  static const struct {
    const char *name;
    napi_callback callback;
  } functions[] = {
      {"listen", listen}, {"wake", wake}, {"close", close_listener}, {"allocated", allocated}};
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value function;
    napi_create_function(
        env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].callback, NULL, &function);
    napi_set_named_property(env, exports, functions[i].name, function);
  }
  return exports;
}
