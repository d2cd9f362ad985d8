#include "parts.h"

#include <stdio.h>
#include <string.h>

/* Some headers lack this error. */
#define ERROR_QUOTA_EXCEEDED_ON_DISK 1295

enum wlh_status wlh_port_status_of(int error)
{
  static const int shortages[] = {
      ERROR_DISK_FULL,         ERROR_HANDLE_DISK_FULL,    ERROR_QUOTA_EXCEEDED_ON_DISK,
      ERROR_NOT_ENOUGH_MEMORY, ERROR_OUTOFMEMORY,         ERROR_COMMITMENT_LIMIT,
      ERROR_NOT_ENOUGH_QUOTA,  ERROR_TOO_MANY_OPEN_FILES, ERROR_NO_SYSTEM_RESOURCES};
  for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++) {
    if (error == shortages[i]) return WLH_FULL;
  }
  return WLH_UNSUPPORTED;
}

const char *wlh_port_open_files_hint(void)
{
  return "The Resource Monitor lists the processes that have it open.";
}

const char *wlh_port_remedy(int error)
{
  switch (error) {
  case ERROR_DISK_FULL:
  case ERROR_HANDLE_DISK_FULL:
  case ERROR_QUOTA_EXCEEDED_ON_DISK:
    return ". Free space on that file system, or use a directory on another one " WLH_GIVEN ".";
  case ERROR_NOT_ENOUGH_MEMORY:
  case ERROR_OUTOFMEMORY:
  case ERROR_COMMITMENT_LIMIT:
    return ". Close unused buckets, or raise the memory limit.";
  case ERROR_PATH_NOT_FOUND:
  case ERROR_FILE_NOT_FOUND:
    return ". Its parent directory must exist: create that, or " WLH_ELSEWHERE ".";
  case ERROR_DIRECTORY:
  case ERROR_INVALID_NAME:
  case ERROR_WRITE_PROTECT:
  case ERROR_FILENAME_EXCED_RANGE:
    return ". No directory can be created there: " WLH_ELSEWHERE ".";
  case ERROR_ACCESS_DENIED:
    return ". Give this user full control (icacls shows permissions), or " WLH_ELSEWHERE ".";
  default:
    return "";
  }
}

const char *wlh_port_error_text(int error)
{
  static _Thread_local char text[384];
  WCHAR wide[128];
  DWORD flags = FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS;
  DWORD length = FormatMessageW(flags, NULL, (DWORD)error, 0, wide, 128, NULL);
  while (length > 0 && (wide[length - 1] <= L' ' || wide[length - 1] == L'.')) length--;
  int written =
      length == 0
          ? 0
          : WideCharToMultiByte(CP_UTF8, 0, wide, (int)length, text, sizeof text - 1, NULL, NULL);
  text[written] = '\0';
  if (written == 0) (void)snprintf(text, sizeof text, "system error %d", error);
  return text;
}

enum wlh_status wlh_port_fail_unsupported(
    struct wlh_failure *failure, const char *path, const char *what)
{
  int error = (int)GetLastError();
  return wlh_fail(
      failure, wlh_port_status_of(error), "%s: %s: %s%s", path, what, wlh_port_error_text(error),
      wlh_port_remedy(error));
}

enum wlh_status wlh_port_fail_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what)
{
  DWORD error = GetLastError();
  if (error != ERROR_FILE_NOT_FOUND && error != ERROR_PATH_NOT_FOUND) {
    return wlh_port_fail_unsupported(failure, path, what);
  }
  return wlh_fail(
      failure, WLH_LOST, "%s was deleted or moved while this process was opening it", path);
}
