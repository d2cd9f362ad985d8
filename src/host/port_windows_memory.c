/* The memory of a bucket: the file, mapped. A view cannot be larger than its file, so another one
 * takes its place when the file has grown; both are the same memory. As long as it is mapped the
 * file cannot be cut off. */
#include "port_windows_parts.h"

#include <string.h>

uint64_t wlh_port_size(struct wlh_port *port)
{
  LARGE_INTEGER size;
  return GetFileSizeEx(wlh_port_handle(port->file), &size) ? (uint64_t)size.QuadPart : 0;
}

/* The file cannot be made larger without saying how large, and by another process it may have
 * become larger than that in the meantime. */
int wlh_port_grow(struct wlh_port *port, uint64_t size)
{
  FILE_END_OF_FILE_INFO end;
  DWORD error = ERROR_SUCCESS;
  end.EndOfFile.QuadPart = (LONGLONG)size;
  wlh_port_begin_growing(port);
  bool done =
      wlh_port_size(port) >= size ||
      SetFileInformationByHandle(wlh_port_handle(port->file), FileEndOfFileInfo, &end, sizeof end);
  if (!done) error = GetLastError();
  wlh_port_end_growing(port);
  return (int)error;
}

void *wlh_port_map_file(HANDLE file, uint64_t size)
{
  HANDLE section =
      CreateFileMappingW(file, NULL, PAGE_READWRITE, (DWORD)(size >> 32), (DWORD)size, NULL);
  if (!section) return NULL;
  void *view = MapViewOfFile(section, FILE_MAP_READ | FILE_MAP_WRITE, 0, 0, (SIZE_T)size);
  DWORD error = GetLastError();
  (void)CloseHandle(section); /* the view keeps it */
  SetLastError(error);
  return view;
}

uint64_t wlh_port_reach(struct wlh_port *port)
{
  uint64_t size = wlh_port_size(port);
  if (size <= port->map_size) return size;
  void *view = wlh_port_map_file(wlh_port_handle(port->file), size);
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
  uint64_t there = wlh_port_size(port);
  return wlh_port_reach(port) == there ? 0 : (int)GetLastError();
}

void *wlh_port_zeros(size_t size)
{
  return VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void wlh_port_free_zeros(void *zeros, size_t size)
{
  (void)size;
  if (zeros) (void)VirtualFree(zeros, 0, MEM_RELEASE);
}

/* The system has no number of its boots that can be relied on. */
uint64_t wlh_port_boot(void)
{
  return WLH_PORT_ANY_BOOT;
}
