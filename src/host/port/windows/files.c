#include "parts.h"

#include <stdio.h>
#include <string.h>

bool wlh_port_widen_path(const char *path, WCHAR *wide)
{
  size_t start = 0;
  if (path[1] == ':') {
    wcscpy(wide, L"\\\\?\\");
  } else if (path[2] != '?' && path[2] != '.') {
    wcscpy(wide, L"\\\\?\\UNC");
    path++; /* Skips one of the two backslashes. */
  } else {
    *wide = L'\0';
  }
  start = wcslen(wide);
  return MultiByteToWideChar(
             CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide + start,
             (int)(WLH_PORT_WIDE_SIZE - start)) > 0;
}

bool wlh_port_widen_file_path(const struct wlh_port *port, const char *name, WCHAR *wide)
{
  char path[WLH_PATH_SIZE + 16];
  (void)snprintf(path, sizeof path, "%s%s%s", port->path, *name ? "\\" : "", name);
  return wlh_port_widen_path(path, wide);
}

HANDLE wlh_port_open_file(const struct wlh_port *port, const char *name, DWORD disposition)
{
  WCHAR wide[WLH_PORT_WIDE_SIZE];
  struct wlh_private security;
  if (!wlh_port_widen_file_path(port, name, wide) || !wlh_port_make_private(&security, false)) {
    return INVALID_HANDLE_VALUE;
  }
  /* After a reboot, only endless marks count, and only if the disk has them. So the system need not
   * write the file to the disk soon. */
  return CreateFileW(
      wide, GENERIC_READ | GENERIC_WRITE, WLH_PORT_SHARE, &security.attributes, disposition,
      FILE_ATTRIBUTE_TEMPORARY | FILE_ATTRIBUTE_NOT_CONTENT_INDEXED | WLH_PORT_NO_FOLLOWING, NULL);
}

/* Returns what happened to a file that cannot be opened; NULL for a shortage that may pass. */
static const char *meaning_of_error(DWORD error)
{
  if (wlh_port_status_of((int)error) == WLH_FULL) return NULL;
  bool gone = error == ERROR_FILE_NOT_FOUND || error == ERROR_PATH_NOT_FOUND;
  return gone ? "was moved" : "is no longer accessible: the permissions of its directory changed";
}

const char *wlh_port_find_move(
    const struct wlh_port *port, const char *name, const FILE_ID_INFO *id)
{
  WCHAR wide[WLH_PORT_WIDE_SIZE];
  FILE_ID_INFO found;
  if (!wlh_port_widen_file_path(port, name, wide)) return "was moved";
  HANDLE there = CreateFileW(
      wide, FILE_READ_ATTRIBUTES, WLH_PORT_SHARE, NULL, OPEN_EXISTING,
      FILE_FLAG_BACKUP_SEMANTICS | WLH_PORT_NO_FOLLOWING, NULL);
  if (there == INVALID_HANDLE_VALUE) return meaning_of_error(GetLastError());
  bool known = GetFileInformationByHandleEx(there, FileIdInfo, &found, sizeof found) != FALSE;
  DWORD error = GetLastError();
  (void)CloseHandle(there);
  if (!known) return meaning_of_error(error);
  return memcmp(&found, id, sizeof found) == 0 ? NULL : "was moved, and another file has its path";
}

void wlh_port_init(struct wlh_port *port)
{
  memset(port, 0, sizeof *port);
  port->base = port->directory = port->file = port->copy = -1;
  port->stream = port->datagram = port->watch = port->guard = -1;
}

void wlh_port_close_descriptor(int descriptor)
{
  if (descriptor >= 0) (void)CloseHandle(wlh_port_handle(descriptor));
}
