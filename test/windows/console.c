/* Runs a command in a console without a window, and creates the events of a console there:
 *
 *   console.exe COMMAND [ARGUMENT…]
 *
 * Each character of standard input is an event: `c` is Ctrl-C, `b` is Ctrl-Break, `x` closes the
 * console; the end of the input kills the command. The command inherits the other standard streams;
 * when it ends, this program ends with its status.
 *
 * Wine 8 implements only Ctrl-C. There this program does what Windows does for the others: it
 * starts a thread at CtrlRoutine in each process of the console, one after another, the newest
 * first. If the console is closed, it waits until each has ended. */
#define _WIN32_WINNT  0x0A00
#define NTDDI_VERSION 0x0A000006
#include <stdio.h>
#include <windows.h>

enum { MOST = 64, WIDTH = 80, HEIGHT = 25 };
/* Windows kills a process that has not ended after some seconds. A busy machine may need more. */
enum { MS_TO_END = 30000 };

static HPCON console;
static PROCESS_INFORMATION command;

static void fail(const char *what)
{
  (void)fprintf(stderr, "console.exe: %s: error %lu\n", what, GetLastError());
  ExitProcess(125);
}

static void check(BOOL ok, const char *what)
{
  if (!ok) fail(what);
}

/* Discards what the console shows: it would wait for a reader. */
static DWORD WINAPI drain(void *output)
{
  char text[4096];
  DWORD count;
  while (ReadFile(output, text, sizeof text, &count, NULL)) continue;
  return 0;
}

static DWORD WINAPI end_with_command(void *unused)
{
  DWORD status;
  (void)unused;
  (void)WaitForSingleObject(command.hProcess, INFINITE);
  check(GetExitCodeProcess(command.hProcess, &status), "GetExitCodeProcess");
  ExitProcess(status);
}

static BOOL WINAPI ignore(DWORD event)
{
  (void)event;
  return TRUE;
}

static void start_thread(LPTHREAD_START_ROUTINE routine, void *argument)
{
  check(CreateThread(NULL, 0, routine, argument, 0, NULL) != NULL, "CreateThread");
}

static void make_console(void)
{
  static HANDLE keyboard; /* nobody types: only the console's end of it is used */
  HANDLE input, output, screen;
  COORD size = {WIDTH, HEIGHT};
  check(CreatePipe(&input, &keyboard, NULL, 0), "CreatePipe");
  check(CreatePipe(&screen, &output, NULL, 0), "CreatePipe");
  HRESULT result = CreatePseudoConsole(size, input, output, 0, &console);
  if (FAILED(result)) {
    SetLastError((DWORD)result);
    fail("CreatePseudoConsole");
  }
  (void)CloseHandle(input);
  (void)CloseHandle(output);
  start_thread(drain, screen);
}

/* Returns the arguments as they were written, without the name of this program. */
static WCHAR *arguments(void)
{
  WCHAR *line = GetCommandLineW();
  line += *line == L'"' ? wcscspn(line + 1, L"\"") + 2 : wcscspn(line, L" ");
  return line + wcsspn(line, L" ");
}

/* The command's standard input is empty, because this program reads its own. */
static HANDLE nothing(void)
{
  SECURITY_ATTRIBUTES inherited = {sizeof inherited, NULL, TRUE};
  return CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ, &inherited, OPEN_EXISTING, 0, NULL);
}

static void start_command(void)
{
  SIZE_T size = 0;
  STARTUPINFOEXW start = {
      .StartupInfo = {
          .cb = sizeof start,
          .dwFlags = STARTF_USESTDHANDLES,
          .hStdInput = nothing(),
          .hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE),
          .hStdError = GetStdHandle(STD_ERROR_HANDLE)}};
  (void)InitializeProcThreadAttributeList(NULL, 1, 0, &size);
  start.lpAttributeList = HeapAlloc(GetProcessHeap(), 0, size);
  check(
      start.lpAttributeList &&
          InitializeProcThreadAttributeList(start.lpAttributeList, 1, 0, &size) &&
          UpdateProcThreadAttribute(
              start.lpAttributeList, 0, PROC_THREAD_ATTRIBUTE_PSEUDOCONSOLE, console,
              sizeof console, NULL, NULL),
      "UpdateProcThreadAttribute");
  check(
      CreateProcessW(
          NULL, arguments(), NULL, NULL, TRUE, EXTENDED_STARTUPINFO_PRESENT, NULL, NULL,
          &start.StartupInfo, &command),
      "CreateProcessW");
  start_thread(end_with_command, NULL);
}

static BOOL is_wine(void)
{
  return GetProcAddress(GetModuleHandleW(L"ntdll"), "wine_get_version") != NULL;
}

/* Sends an event as Windows does. The process may end meanwhile, which is no failure. */
static void tell_process(DWORD id, DWORD event)
{
  HMODULE module = GetModuleHandleW(L"kernelbase");
  LPTHREAD_START_ROUTINE routine =
      (LPTHREAD_START_ROUTINE)(void (*)(void))GetProcAddress(module, "CtrlRoutine");
  check(routine != NULL, "CtrlRoutine");
  HANDLE process = OpenProcess(PROCESS_ALL_ACCESS, FALSE, id);
  if (!process) return;
  HANDLE thread = CreateRemoteThread(process, NULL, 0, routine, (void *)(ULONG_PTR)event, 0, NULL);
  if (thread) (void)CloseHandle(thread);
  if (event == CTRL_CLOSE_EVENT && WaitForSingleObject(process, MS_TO_END) == WAIT_TIMEOUT)
    (void)TerminateProcess(process, (UINT)STATUS_CONTROL_C_EXIT);
  (void)CloseHandle(process);
}

/* Wine lists the oldest process first. */
static void tell_all(DWORD event)
{
  DWORD ids[MOST];
  DWORD count = GetConsoleProcessList(ids, MOST);
  check(count > 0 && count <= MOST, "GetConsoleProcessList");
  for (DWORD i = count; i-- > 0;)
    if (ids[i] != GetCurrentProcessId()) tell_process(ids[i], event);
}

/* Only a process that is attached to a console can create an event there. */
static void generate(DWORD event)
{
  (void)FreeConsole();
  check(AttachConsole(command.dwProcessId), "AttachConsole");
  check(SetConsoleCtrlHandler(ignore, TRUE), "SetConsoleCtrlHandler");
  if (is_wine() && event != CTRL_C_EVENT)
    tell_all(event);
  else
    check(GenerateConsoleCtrlEvent(event, 0), "GenerateConsoleCtrlEvent");
  (void)FreeConsole();
}

static void close_console(void)
{
  if (is_wine()) generate(CTRL_CLOSE_EVENT);
  ClosePseudoConsole(console);
}

int main(void)
{
  char key;
  DWORD count;
  HANDLE keys = GetStdHandle(STD_INPUT_HANDLE);
  make_console();
  start_command();
  while (ReadFile(keys, &key, 1, &count, NULL) && count == 1) {
    if (key == 'c') generate(CTRL_C_EVENT);
    if (key == 'b') generate(CTRL_BREAK_EVENT);
    if (key == 'x') close_console();
  }
  (void)TerminateProcess(command.hProcess, 1);
  Sleep(INFINITE); /* end_with_command ends this */
}
