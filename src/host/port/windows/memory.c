/* The memory of a bucket. A view cannot be larger than its file, so a new view replaces it when the
 * file has grown; both views show the same memory. The system refuses to truncate a mapped file. */
#include "parts.h"

#include <string.h>

uint64_t wlh_port_size(struct wlh_port *port)
{
  LARGE_INTEGER size;
  return GetFileSizeEx(wlh_port_handle(port->file), &size) ? (uint64_t)size.QuadPart : 0;
}

/* Appends zeros instead of setting the end of the file, because that could cut off what another
 * process has just appended. A lock cannot prevent it: a suspended process might keep the lock. If
 * several processes append at once, the file gets a little larger than needed. */
int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  static const char zeros[16384];
  HANDLE file = wlh_port_handle(port->file);
  LARGE_INTEGER now;
  while (GetFileSizeEx(file, &now)) {
    if ((uint64_t)now.QuadPart >= size) return 0;
    uint64_t missing = size - (uint64_t)now.QuadPart;
    DWORD count = missing < sizeof zeros ? (DWORD)missing : (DWORD)sizeof zeros;
    /* An offset of all ones means the end of the file, wherever it is. */
    OVERLAPPED end = {.Offset = UINT32_MAX, .OffsetHigh = UINT32_MAX};
    if (!WriteFile(file, zeros, count, &count, &end)) return (int)GetLastError();
    if (count == 0) return ERROR_DISK_FULL;
  }
  return (int)GetLastError();
}

/* Windows does not shorten a mapped file, and punches holes only in sparse files. */
void wlh_port_give_back(struct wlh_port *port, uint64_t size)
{
  (void)port;
  (void)size;
}

void wlh_port_truncate(struct wlh_port *port, uint64_t size)
{
  (void)port;
  (void)size;
}

void *wlh_port_map_file(HANDLE file, uint64_t size)
{
  HANDLE section =
      CreateFileMappingW(file, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, NULL);
  if (!section) return NULL;
  void *view = MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, (SIZE_T)size);
  DWORD error = GetLastError();
  (void)CloseHandle(section); /* The view keeps the section open. */
  SetLastError(error);
  return view;
}

uint64_t wlh_port_extend_map(struct wlh_port *port, int *error)
{
  LARGE_INTEGER end;
  *error = GetFileSizeEx(wlh_port_handle(port->file), &end) ? 0 : (int)GetLastError();
  if (*error != 0) return port->map_size;
  uint64_t size = (uint64_t)end.QuadPart;
  if (size <= port->map_size) return size;
  void *view = wlh_port_map_file(wlh_port_handle(port->file), size);
  if (!view) *error = (int)GetLastError();
  if (!view) return port->map_size;
  if (port->map) (void)UnmapViewOfFile(port->map);
  port->map = view;
  port->map_size = (size_t)size;
  return size;
}

int wlh_port_map(struct wlh_port *port, size_t size, uint32_t *lost)
{
  (void)size;
  (void)lost;
  int error;
  (void)wlh_port_extend_map(port, &error);
  return error;
}

void *wlh_port_alloc_zeros(size_t size)
{
  return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void wlh_port_free_zeros(void *zeros, size_t size)
{
  (void)size;
  if (zeros) (void)VirtualFree(zeros, 0, MEM_RELEASE);
}

/* On Windows, taking memory again after giving it back may fail, so nothing is given back. */
void wlh_port_trim_zeros(void *zeros, size_t used, size_t size)
{
  (void)zeros;
  (void)used;
  (void)size;
}

/* Windows has no reliable number that identifies a boot. */
uint64_t wlh_port_boot_number(void)
{
  return WLH_PORT_ANY_BOOT;
}
