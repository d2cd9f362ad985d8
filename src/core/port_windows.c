#include "port.h"

/* This is RtlGenRandom, which no header declares under its own name. */
BOOLEAN NTAPI SystemFunction036(PVOID buffer, ULONG length);

void wlk_mutex_lock(struct wlk_mutex *mutex)
{
  AcquireSRWLockExclusive(&mutex->native);
}

void wlk_mutex_unlock(struct wlk_mutex *mutex)
{
  ReleaseSRWLockExclusive(&mutex->native);
}

void wlk_condition_wait(struct wlk_condition *condition, struct wlk_mutex *mutex)
{
  (void)SleepConditionVariableSRW(&condition->native, &mutex->native, INFINITE, 0);
}

void wlk_condition_broadcast(struct wlk_condition *condition)
{
  WakeAllConditionVariable(&condition->native);
}

bool wlk_condition_init(struct wlk_condition *condition)
{
  InitializeConditionVariable(&condition->native);
  return true;
}

void wlk_condition_destroy(struct wlk_condition *condition)
{
  (void)condition;
}

void wlk_condition_wait_for(
    struct wlk_condition *condition, struct wlk_mutex *mutex, uint64_t timeout)
{
  DWORD time = timeout < INFINITE ? (DWORD)timeout : INFINITE - 1; /* callers wait in a loop */
  (void)SleepConditionVariableSRW(&condition->native, &mutex->native, time, 0);
}

uint64_t wlk_port_now(bool exact)
{
  (void)exact;
  return GetTickCount64();
}

/* The time is in units of 100 ns. */
typedef VOID(WINAPI *interrupt_time)(PULONGLONG time);

static VOID WINAPI coarse_interrupt_time(PULONGLONG time)
{
  *time = GetTickCount64() * 10000;
}

/* kernelbase.dll has exported the precise function since Windows 10, but not every compiler's
 * import library lists it. The coarse function reads the same clock with a resolution of 16 ms. */
static interrupt_time find_interrupt_time(void)
{
  HMODULE module = GetModuleHandleW(L"kernelbase.dll");
  FARPROC found = module ? GetProcAddress(module, "QueryInterruptTimePrecise") : NULL;
  return found ? (interrupt_time)(void (*)(void))found : coarse_interrupt_time;
}

double wlk_port_continuous_now(void)
{
  static interrupt_time volatile query; /* a race is harmless: all threads find the same */
  if (!query) query = find_interrupt_time();
  ULONGLONG time;
  query(&time);
  return (double)time / 1e4;
}

bool wlk_port_random(void *bytes, size_t size)
{
  return SystemFunction036(bytes, (ULONG)size) != FALSE;
}

static HMODULE module_of(const void *address, DWORD flags)
{
  HMODULE module = NULL;
  flags |= GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS;
  return GetModuleHandleExW(flags, (LPCWSTR)address, &module) ? module : NULL;
}

/* The Windows heap returns free memory by itself. */
void wlk_port_trim(void) {}

/* A mapping named after the process has the pointer of the first copy. The kernel creates or finds
 * the mapping in one atomic step, and the first copy to exchange the pointer wins. The mapping ends
 * with the process. */
void *wlk_port_find_first_shared(void *own, const char *symbol)
{
  if (!module_of(own, GET_MODULE_HANDLE_EX_FLAG_PIN)) return NULL;
  char name[96];
  (void)wsprintfA(name, "Local\\%.60s-%lu", symbol, GetCurrentProcessId());
  HANDLE mapping =
      CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof(void *), name);
  if (!mapping) return NULL;
  void *volatile *first = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(void *));
  /* The mapping's handle is not closed, because the name lasts only while a handle is open. */
  if (!first) return NULL;
  void *before = InterlockedCompareExchangePointer(first, own, NULL);
  (void)UnmapViewOfFile((const void *)first);
  return before ? before : own;
}

void wlk_port_module_path(const void *address, char *path, size_t size)
{
  WCHAR wide[MAX_PATH];
  HMODULE module = module_of(address, GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT);
  DWORD length = module ? GetModuleFileNameW(module, wide, MAX_PATH) : 0;
  int written =
      length ? WideCharToMultiByte(CP_UTF8, 0, wide, (int)length, path, (int)size - 1, NULL, NULL)
             : 0;
  path[written > 0 ? written : 0] = '\0';
}
