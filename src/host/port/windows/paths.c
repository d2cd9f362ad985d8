/* The directories and the file of a bucket. SECURITY.md lists every path, and what protects it. */
#include "parts.h"

#include <shlobj.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <winternl.h>

#if !defined(FILE_REMOTE_DEVICE)
#define FILE_REMOTE_DEVICE 0x00000010
#endif

typedef HRESULT(WINAPI *known_folder)(REFKNOWNFOLDERID, DWORD, HANDLE, PWSTR *);
typedef VOID(WINAPI *free_memory)(LPVOID);

static FARPROC find_function(const WCHAR *library, const char *name)
{
  HMODULE module = LoadLibraryExW(library, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
  return module ? GetProcAddress(module, name) : NULL;
}

/* The libraries are loaded here, because most programs do not need them. Environment variables are
 * not used, because two processes with different variables would get two directories. */
static bool find_local_data(char *path, int size)
{
  static const GUID id = {
      0xF1B32785, 0x6FBA, 0x4FCF, {0x9D, 0x55, 0x7B, 0x8E, 0x7F, 0x15, 0x70, 0x91}};
  known_folder query =
      (known_folder)(void (*)(void))find_function(L"shell32.dll", "SHGetKnownFolderPath");
  free_memory release = (free_memory)(void (*)(void))find_function(L"ole32.dll", "CoTaskMemFree");
  PWSTR wide = NULL;
  if (!query || !release) return false;
  bool found = SUCCEEDED(query(&id, KF_FLAG_CREATE, NULL, &wide)) &&
               WideCharToMultiByte(CP_UTF8, 0, wide, -1, path, size, NULL, NULL) > 0;
  release(wide);
  return found;
}

static bool is_absolute(const char *path)
{
  bool letter = (path[0] >= 'a' && path[0] <= 'z') || (path[0] >= 'A' && path[0] <= 'Z');
  return (letter && path[1] == ':' && path[2] == '\\') || (path[0] == '\\' && path[1] == '\\');
}

enum wlh_status wlh_port_choose_directory(
    const char *directory, char *path, bool *standard, struct wlh_failure *failure)
{
  char parent[WLH_PATH_SIZE];
  int length;
  *standard = !directory;
  if (*standard && !find_local_data(parent, sizeof parent)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "cannot find this user's local application data folder: set a directory " WLH_GIVEN ".");
  }
  if (*standard)
    length = snprintf(path, WLH_PATH_SIZE, "%s\\web-locks", parent);
  else
    length = snprintf(path, WLH_PATH_SIZE, "%s", directory);
  if (length < 0 || length > WLH_PATH_SIZE - 64) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "the path of the directory, %.60s..., is longer than %d bytes: " WLH_ELSEWHERE ".", path,
        WLH_PATH_SIZE - 64);
  }
  for (char *c = path; *c; c++) {
    if (*c == '/') *c = '\\';
  }
  if (is_absolute(path)) return WLH_OK;
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "the path of the directory, %s, is not absolute. Use a path that begins with a drive: a "
      "relative path can mean another directory in each process.",
      path);
}

/* `follow` says whether to follow a link at the end of the path. */
static bool identify(const char *path, bool follow, FILE_ID_INFO *id)
{
  WCHAR wide[WLH_PORT_WIDE_SIZE];
  if (!wlh_port_widen_path(path, wide)) return false;
  DWORD flags = FILE_FLAG_BACKUP_SEMANTICS | (follow ? 0 : WLH_PORT_NO_FOLLOWING);
  HANDLE handle =
      CreateFileW(wide, FILE_READ_ATTRIBUTES, WLH_PORT_SHARE, NULL, OPEN_EXISTING, flags, NULL);
  if (handle == INVALID_HANDLE_VALUE) return false;
  bool known = GetFileInformationByHandleEx(handle, FileIdInfo, id, sizeof *id) != FALSE;
  (void)CloseHandle(handle);
  return known;
}

/* Copies the path up to its last backslash to `parent`, and returns the rest. */
static const char *split_path(const char *path, char parent[WLH_PATH_SIZE])
{
  const char *name = strrchr(path, '\\') + 1;
  (void)snprintf(parent, WLH_PATH_SIZE, "%.*s", (int)(name - path), path);
  return name;
}

static bool have_same_name_and_parent(const char *path, const char *other)
{
  char parent[WLH_PATH_SIZE], other_parent[WLH_PATH_SIZE];
  const char *name = split_path(path, parent);
  const char *other_name = split_path(other, other_parent);
  FILE_ID_INFO id, other_id;
  return strcmp(name, other_name) == 0 && identify(parent, true, &id) &&
         identify(other_parent, true, &other_id) && memcmp(&id, &other_id, sizeof id) == 0;
}

/* Links at the ends of the paths are not followed, because wlh_port_open refuses them. */
bool wlh_port_is_same_directory(const char *path, const char *other)
{
  FILE_ID_INFO id, other_id;
  if (strcmp(path, other) == 0) return true;
  bool exists = identify(path, false, &id);
  bool other_exists = identify(other, false, &other_id);
  if (exists && other_exists) return memcmp(&id, &other_id, sizeof id) == 0;
  return !exists && !other_exists && have_same_name_and_parent(path, other);
}

/* If the directory does not exist, creates it with the attributes of wlh_port_make_private. */
static HANDLE open_directory(const WCHAR *wide)
{
  struct wlh_private security;
  if (!wlh_port_make_private(&security, true)) return INVALID_HANDLE_VALUE;
  if (!CreateDirectoryW(wide, &security.attributes) && GetLastError() != ERROR_ALREADY_EXISTS) {
    return INVALID_HANDLE_VALUE;
  }
  return CreateFileW(
      wide, FILE_LIST_DIRECTORY | FILE_READ_ATTRIBUTES | READ_CONTROL, WLH_PORT_SHARE, NULL,
      OPEN_EXISTING, FILE_FLAG_BACKUP_SEMANTICS | WLH_PORT_NO_FOLLOWING, NULL);
}

/* Returns whether the handle is no link but a directory or, if `directory` is false, a file. */
static bool is_plain(HANDLE handle, bool directory)
{
  FILE_BASIC_INFO info;
  if (!GetFileInformationByHandleEx(handle, FileBasicInfo, &info, sizeof info)) return false;
  bool is_directory = (info.FileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
  return is_directory == directory && !(info.FileAttributes & FILE_ATTRIBUTE_REPARSE_POINT);
}

/* The file system must also have access lists. */
static bool is_local(HANDLE handle)
{
  static const WCHAR *const kinds[] = {L"NTFS", L"ReFS"};
  FILE_FS_DEVICE_INFORMATION device;
  IO_STATUS_BLOCK io;
  WCHAR kind[32];
  NTSTATUS status =
      NtQueryVolumeInformationFile(handle, &io, &device, sizeof device, FileFsDeviceInformation);
  if (status < 0 || (device.Characteristics & FILE_REMOTE_DEVICE)) return false;
  if (!GetVolumeInformationByHandleW(handle, NULL, 0, NULL, NULL, NULL, kind, 32)) return false;
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (_wcsicmp(kind, kinds[i]) == 0) return true;
  }
  return false;
}

static enum wlh_status check_directory(HANDLE handle, const char *path, struct wlh_failure *failure)
{
  if (!is_plain(handle, true)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s is not a directory, or is a link to another one. Remove it, or " WLH_ELSEWHERE ".",
        path);
  }
  if (!is_local(handle)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s is on an unsupported file system; only local NTFS and ReFS are supported. On other "
        "file systems, locks or shared memory can fail, or other users can have "
        "access: " WLH_ELSEWHERE ".",
        path);
  }
  return wlh_port_check_access(handle, path, true, failure);
}

/* Creates the directory if need be, and checks it. */
static enum wlh_status prepare_directory(const char *path, struct wlh_failure *failure)
{
  static const char what[] = "cannot open or create the directory";
  WCHAR wide[WLH_PORT_WIDE_SIZE];
  if (!wlh_port_widen_path(path, wide)) return wlh_port_fail_unsupported(failure, path, what);
  HANDLE handle = open_directory(wide);
  if (handle == INVALID_HANDLE_VALUE) return wlh_port_fail_unsupported(failure, path, what);
  enum wlh_status status = check_directory(handle, path, failure);
  (void)CloseHandle(handle);
  return status;
}

static enum wlh_status open_segment(struct wlh_port *port, struct wlh_failure *failure)
{
  char path[WLH_PATH_SIZE + 16];
  (void)snprintf(path, sizeof path, WLH_PORT_FILE, port->path);
  HANDLE file = wlh_port_open_file(port, "bucket", OPEN_ALWAYS);
  if (file == INVALID_HANDLE_VALUE) {
    return wlh_port_fail_vanished_or_unsupported(failure, path, "cannot open the file");
  }
  port->file = wlh_port_descriptor(file);
  if (!is_plain(file, false)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED, "%s is not a file. Remove it, or " WLH_ELSEWHERE ".", path);
  }
  /* Prevents other code of the process from closing the file by mistake. */
  (void)SetHandleInformation(file, HANDLE_FLAG_PROTECT_FROM_CLOSE, HANDLE_FLAG_PROTECT_FROM_CLOSE);
  FILE_ID_INFO *id = &port->system->id;
  if (!GetFileInformationByHandleEx(file, FileIdInfo, id, sizeof *id)) {
    return wlh_port_fail_unsupported(failure, path, "cannot read its attributes");
  }
  return wlh_port_check_access(file, path, false, failure);
}

enum wlh_status wlh_port_open(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure)
{
  (void)standard; /* In both cases only one user may have access. */
  wlh_port_init(port);
  (void)snprintf(port->path, sizeof port->path, "%s\\%s", base, bucket);
  port->system = calloc(1, sizeof *port->system);
  if (!port->system) return wlh_fail(failure, WLH_NO_MEMORY, "out of memory");
  enum wlh_status status = prepare_directory(base, failure);
  if (status == WLH_OK) status = prepare_directory(port->path, failure);
  if (status == WLH_OK) status = open_segment(port, failure);
  if (status == WLH_OK && !wlh_port_locks_work(port)) {
    status = wlh_port_fail_unsupported(failure, port->path, "byte-range locks do not work here");
  }
  if (status == WLH_OK) status = wlh_port_join_peers(port, failure);
  if (status != WLH_OK) wlh_port_close(port);
  return status;
}

void wlh_port_note_name(const struct wlh_port *port, const uint16_t *name, uint32_t units)
{
  DWORD written;
  if (!name) return;
  HANDLE file = wlh_port_open_file(port, "name", CREATE_NEW);
  if (file == INVALID_HANDLE_VALUE) return;
  (void)WriteFile(file, name, (DWORD)(units * sizeof *name), &written, NULL);
  (void)CloseHandle(file);
}

const char *wlh_port_find_harm(struct wlh_port *port, uint64_t size)
{
  FILE_STANDARD_INFO info;
  HANDLE ours = wlh_port_handle(port->file);
  if (!GetFileInformationByHandleEx(ours, FileStandardInfo, &info, sizeof info)) {
    bool full = wlh_port_status_of((int)GetLastError()) == WLH_FULL;
    return full ? NULL : "was closed by other code in this process";
  }
  if (info.DeletePending || info.NumberOfLinks == 0) return "was deleted";
  const char *moved = wlh_port_find_move(port, "bucket", &port->system->id);
  if (moved) return moved;
  return (uint64_t)info.EndOfFile.QuadPart < size ? "was truncated" : NULL;
}

uint64_t wlh_port_refresh(struct wlh_port *port)
{
  (void)port;
  return WLH_PORT_FOREVER;
}

void wlh_port_watch(struct wlh_port *port, uint32_t member)
{
  (void)member; /* One watch reports the files of all members. */
  WCHAR wide[WLH_PORT_WIDE_SIZE];
  if (port->watch >= 0 || !wlh_port_widen_file_path(port, "", wide)) return;
  HANDLE watch = FindFirstChangeNotificationW(wide, FALSE, FILE_NOTIFY_CHANGE_FILE_NAME);
  port->watch = wlh_port_descriptor(watch);
}

void wlh_port_take_file_reports(struct wlh_port *port)
{
  HANDLE watch = wlh_port_handle(port->watch);
  /* The next report is requested only after a report; otherwise two requests would be pending. */
  if (WaitForSingleObject(watch, 0) != WAIT_OBJECT_0 || FindNextChangeNotification(watch)) return;
  wlh_port_close_descriptor(port->watch); /* It might stay signalled, or report nothing more. */
  port->watch = -1;
}

void wlh_port_close(struct wlh_port *port)
{
  /* The peers come first: members that watch us are woken, and check our byte until it is free. */
  if (port->system) wlh_port_leave_peers(port);
  if (port->map) (void)UnmapViewOfFile(port->map);
  HANDLE file = wlh_port_handle(port->file);
  if (port->file >= 0) (void)SetHandleInformation(file, HANDLE_FLAG_PROTECT_FROM_CLOSE, 0);
  wlh_port_close_descriptor(port->file);
  wlh_port_close_descriptor(port->watch);
  free(port->system);
  wlh_port_init(port);
}

/* The kernel closes all handles of a process together, so their numbers do not matter. */
void wlh_port_enlarge_table(const struct wlh_port *port)
{
  (void)port;
}

void wlh_port_move_all_high(struct wlh_port *port)
{
  (void)port;
}

void wlh_port_move_high(const struct wlh_port *port, int *descriptor)
{
  (void)port;
  (void)descriptor;
}

/* This is for forked children, which Windows does not have. */
void wlh_port_close_files(struct wlh_port *port)
{
  (void)port;
}
