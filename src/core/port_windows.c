/* The port to Windows, see port.h. */
#include "port.h"

/* This is RtlGenRandom: advapi32 has it since Windows XP, but no header declares it under its own
 * name. */
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

/* kernelbase has the precise function since Windows 10, but not every compiler's import library
 * does. The coarse one reads the same clock to 16 ms. */
static interrupt_time find_interrupt_time(void)
{
  HMODULE module = GetModuleHandleW(L"kernelbase.dll");
  FARPROC found = module ? GetProcAddress(module, "QueryInterruptTimePrecise") : NULL;
  return found ? (interrupt_time)(void (*)(void))found : coarse_interrupt_time;
}

double wlk_port_continuous_now(void)
{
  static interrupt_time volatile query; /* threads may race: all find the same function */
  if (!query) query = find_interrupt_time();
  ULONGLONG time;
  query(&time);
  return (double)time / 1e4;
}

/* A job object. Only this process has its handle, so the job closes when the process ends. */
static HANDLE family;

/* In milliseconds: an ended process can stay in a driver for any time. */
enum { END_WITHIN = 5000 };

/* The job does not allow its processes to break away. Node.js's own jobs allow that to theirs, and
 * a process leaves every job above it that allows it, too. */
void wlk_port_keep_family(bool ends_with_us)
{
  JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits = {0};
  if (!family) {
    HANDLE job = CreateJobObjectW(NULL, NULL);
    if (!job) return;
    if (AssignProcessToJobObject(job, GetCurrentProcess()))
      family = job;
    else
      (void)CloseHandle(job);
  }
  limits.BasicLimitInformation.LimitFlags = ends_with_us ? JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE : 0;
  if (!family) return;
  (void)SetInformationJobObject(family, JobObjectExtendedLimitInformation, &limits, sizeof limits);
}

/* Ends a process of the family and waits, because it can start others until it has ended. Returns
 * false if it was gone, or does not end. */
static bool end_one(DWORD pid)
{
  BOOL ours = FALSE;
  HANDLE process =
      OpenProcess(PROCESS_TERMINATE | PROCESS_QUERY_INFORMATION | SYNCHRONIZE, FALSE, pid);
  if (!process) return false;
  bool ended = IsProcessInJob(process, family, &ours) && ours && TerminateProcess(process, 1) &&
               WaitForSingleObject(process, END_WITHIN) == WAIT_OBJECT_0;
  (void)CloseHandle(process);
  return ended;
}

void wlk_port_end_family(void)
{
  _Alignas(JOBOBJECT_BASIC_PROCESS_ID_LIST) char room[1024];
  JOBOBJECT_BASIC_PROCESS_ID_LIST *found = (void *)room;
  for (bool any = family != NULL; any;) {
    any = false;
    found->NumberOfProcessIdsInList = 0; /* if there are more, the query returns as many as fit */
    (void)QueryInformationJobObject(family, JobObjectBasicProcessIdList, found, sizeof room, NULL);
    for (DWORD i = 0; i < found->NumberOfProcessIdsInList; i++) {
      DWORD pid = (DWORD)found->ProcessIdList[i];
      if (pid != GetCurrentProcessId() && end_one(pid)) any = true;
    }
  }
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

/* The heap returns memory by itself. */
void wlk_port_trim(void) {}

/* A mapping named after the process has the pointer of the first copy. The kernel creates or finds
 * it in one atomic step, the first exchange wins, and the mapping ends with the process. */
void *wlk_port_first_shared(void *own, const char *symbol)
{
  if (!module_of(own, GET_MODULE_HANDLE_EX_FLAG_PIN)) return NULL;
  char name[96];
  (void)wsprintfA(name, "Local\\%.60s-%lu", symbol, GetCurrentProcessId());
  HANDLE mapping =
      CreateFileMappingA(INVALID_HANDLE_VALUE, NULL, PAGE_READWRITE, 0, sizeof(void *), name);
  if (!mapping) return NULL;
  void *volatile *first = MapViewOfFile(mapping, FILE_MAP_ALL_ACCESS, 0, 0, sizeof(void *));
  /* The mapping's handle stays open: it keeps the name. */
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
