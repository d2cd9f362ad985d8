#include "parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum wlh_status wlh_port_status_of(int error)
{
  static const int shortages[] = {ENOSPC, EDQUOT, EMFILE, ENFILE, ENOMEM, ENOBUFS};
  for (size_t i = 0; i < sizeof shortages / sizeof *shortages; i++) {
    if (error == shortages[i]) return WLH_FULL;
  }
  return WLH_UNSUPPORTED;
}

const char *wlh_port_error_text(int error)
{
  return strerror(error);
}

const char *wlh_port_open_files_hint(void)
{
#if defined(__APPLE__)
  return "lsof lists the processes that have it open.";
#else
  return "fuser -v lists the processes that have it open.";
#endif
}

const char *wlh_port_remedy(int error)
{
  switch (error) {
  case ENOSPC:
  case EDQUOT:
    return ". Free space on that file system, or use a directory on another one " WLH_GIVEN ".";
  case EMFILE:
  case ENFILE:
    return ". Close unused files and buckets, or raise the limit of open files (ulimit -n).";
  case ENOMEM:
    return ". Close unused buckets, or raise the memory limit (ulimit -v).";
  case ENOENT:
    return ". Its parent directory must exist: create that, or " WLH_ELSEWHERE ".";
  case ENOTDIR:
  case ELOOP:
  case EISDIR:
    return ". Another kind of file, or a symbolic link, has this path: remove it, or " WLH_ELSEWHERE
           ".";
  case EROFS:
  case ENAMETOOLONG:
    return ". No directory can be created there: " WLH_ELSEWHERE ".";
  default:
    return "";
  }
}

/* Names the owner of the path or, if we cannot see that, of the nearest visible directory above. */
static enum wlh_status fail_because_denied(
    struct wlh_failure *failure, const char *path, const char *what)
{
  char nearest[WLH_PATH_SIZE + 16];
  struct stat status;
  (void)snprintf(nearest, sizeof nearest, "%s", path);
  for (char *end; lstat(nearest, &status) != 0 && (end = strrchr(nearest, '/'));) *end = '\0';
  if (!*nearest) return wlh_fail(failure, WLH_UNSUPPORTED, "%s: %s: permission denied", path, what);
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s: %s: permission denied: %s belongs to user %u with mode %04o, and this process runs as "
      "user %u. Change the owner or the mode, or " WLH_ELSEWHERE ".",
      path, what, strcmp(nearest, path) == 0 ? "it" : nearest, (unsigned)status.st_uid,
      (unsigned)status.st_mode & 07777, (unsigned)geteuid());
}

enum wlh_status wlh_port_fail_unsupported(
    struct wlh_failure *failure, const char *path, const char *what)
{
  int error = errno;
  char text[128] = "";
  /* The XSI function writes the text; the GNU function of glibc returns it. */
  const char *said = NULL;
#if defined(__GLIBC__)
  said = strerror_r(error, text, sizeof text);
#else
  said = strerror_r(error, text, sizeof text) == 0 ? text : "";
#endif
  if (error == EACCES || error == EPERM) return fail_because_denied(failure, path, what);
  return wlh_fail(
      failure, wlh_port_status_of(error), "%s: %s: %s%s", path, what, said, wlh_port_remedy(error));
}

enum wlh_status wlh_port_fail_vanished_or_unsupported(
    struct wlh_failure *failure, const char *path, const char *what)
{
  if (errno != ENOENT) return wlh_port_fail_unsupported(failure, path, what);
  return wlh_fail(
      failure, WLH_LOST, "%s was deleted or moved while this process was opening it", path);
}
