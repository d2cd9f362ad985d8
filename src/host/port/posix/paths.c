/* The directories and the file of a bucket. SECURITY.md lists every path, and what protects it. */
#include "parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum wlh_status wlh_port_choose_directory(
    const char *directory, char *path, bool *standard, struct wlh_failure *failure)
{
  *standard = !directory;
  int length;
  if (*standard) {
    const char *parent = wlh_port_default_parent();
    length = snprintf(path, WLH_PATH_SIZE, "%s/web-locks-%u", parent, (unsigned)geteuid());
  } else {
    length = snprintf(path, WLH_PATH_SIZE, "%s", directory);
  }
  if (length < 0 || length > WLH_PATH_SIZE - 64) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "the path of the directory, %.60s..., is longer than %d bytes: " WLH_ELSEWHERE ".",
        directory ? directory : path, WLH_PATH_SIZE - 64);
  }
  if (*path == '/') return WLH_OK;
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "the path of the directory, %s, is not absolute. Use a path that begins with a slash: a "
      "relative path can mean another directory in each process.",
      path);
}

static bool is_same_file(const struct stat *status, const struct stat *other)
{
  return status->st_dev == other->st_dev && status->st_ino == other->st_ino;
}

/* Copies the path of the parent directory to `parent`, and returns the rest of the path. */
static const char *split_path(const char *path, char parent[WLH_PATH_SIZE])
{
  (void)snprintf(parent, WLH_PATH_SIZE, "%s", path);
  for (size_t end = strlen(parent); end > 1 && parent[end - 1] == '/';) parent[--end] = '\0';
  char *name = strrchr(parent, '/');
  *name = '\0';
  return name + 1;
}

static bool have_same_name_and_parent(const char *path, const char *other)
{
  char parent[WLH_PATH_SIZE], other_parent[WLH_PATH_SIZE];
  const char *name = split_path(path, parent);
  const char *other_name = split_path(other, other_parent);
  struct stat status, other_status;
  return strcmp(name, other_name) == 0 && stat(*parent ? parent : "/", &status) == 0 &&
         stat(*other_parent ? other_parent : "/", &other_status) == 0 &&
         is_same_file(&status, &other_status);
}

/* Links at the ends of the paths are not followed, because wlh_port_open refuses them. */
bool wlh_port_is_same_directory(const char *path, const char *other)
{
  struct stat status, other_status;
  if (strcmp(path, other) == 0) return true;
  bool exists = lstat(path, &status) == 0;
  bool other_exists = lstat(other, &other_status) == 0;
  if (exists && other_exists) return is_same_file(&status, &other_status);
  return !exists && !other_exists && have_same_name_and_parent(path, other);
}

#define DIRECTORY_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)
#define FILE_FLAGS      (O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

/* If the directory does not exist, creates it for our user only. */
static int open_directory(int parent, const char *path)
{
  if (mkdirat(parent, path, 0700) != 0 && errno != EEXIST) return -1;
  return openat(parent, path, DIRECTORY_FLAGS);
}

static enum wlh_status fail_because_writable(
    struct wlh_failure *failure, const char *path, mode_t mode, const char *right)
{
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s is writable by others, who could corrupt the locks: its mode is %04o. Set the mode %s "
      "(chmod), or " WLH_ELSEWHERE ".",
      path, (unsigned)mode & 07777, right);
}

static enum wlh_status fail_because_of_owner(
    struct wlh_failure *failure, const char *path, uid_t owner, const char *else_what)
{
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s belongs to user %u, but this process runs as user %u. Run it as user %u, %s.", path,
      (unsigned)owner, (unsigned)geteuid(), (unsigned)owner, else_what);
}

#define DELETE "have that path deleted while no process uses it, or " WLH_ELSEWHERE
#define SHARE                                                                                      \
  "or " WLH_ELSEWHERE "; a directory that users share must belong to a group of theirs and have "  \
  "mode 0770"

/* Fails unless the owner and the mode of `path` alone decide who can write to it. */
static enum wlh_status check_rights(const char *path, int descriptor, struct wlh_failure *failure)
{
  switch (wlh_port_rights(descriptor)) {
  case WLH_RIGHTS_OF_MODE:
    return WLH_OK;
  case WLH_RIGHTS_OF_LIST:
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s has an access list that gives rights to others, who could corrupt the locks. Remove "
        "the list (chmod -N \"%s\"), or " WLH_ELSEWHERE ".",
        path, path);
  default:
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s is on a volume that ignores who owns its files, so others could corrupt the locks. "
        "Enable ownership on the volume (diskutil enableOwnership), or " WLH_ELSEWHERE ".",
        path);
  }
}

/* In the default directory (`standard`), only our user may write. An explicit directory may also
 * belong to root or, if its group may write there, to anybody. `made` says that only this library
 * creates such a directory, so the message may advise to delete it. */
static enum wlh_status check_owner(
    const char *path, int descriptor, bool standard, struct stat *status, bool made,
    struct wlh_failure *failure)
{
  if (fstat(descriptor, status) != 0)
    return wlh_port_fail_unsupported(failure, path, "cannot read its attributes");
  mode_t others = standard ? S_IWGRP | S_IWOTH : S_IWOTH;
  bool ours = status->st_uid == geteuid() || (!standard && status->st_uid == 0);
  if (!ours && !(!standard && (status->st_mode & S_IWGRP))) {
    return fail_because_of_owner(failure, path, status->st_uid, made ? DELETE : SHARE);
  }
  if (status->st_mode & others) {
    return fail_because_writable(
        failure, path, status->st_mode,
        standard ? "0700" : "0700, or 0770 to share it with its group");
  }
  return check_rights(path, descriptor, failure);
}

/* ---- files of a group ----
 *
 * In a directory that a group may write, a member of the group can replace any name at any moment.
 * So permissions are never set through a path in such a directory, and no file is created there. A
 * file is created in a directory that only its owner can write, gets its permissions there, and is
 * then moved or linked into place. If a process is killed meanwhile, the next process of the same
 * user finishes its files. An existing file is used only if the whole group may write it, so nobody
 * gains by putting it there. */

enum { MAKE_ROUNDS = 10 };

static const char *bucket_of(const struct wlh_port *port)
{
  return strrchr(port->path, '/') + 1;
}

void wlh_port_temporary_name(const struct wlh_port *port, const char *what, char *name)
{
  (void)snprintf(name, WLH_PORT_NEW_SIZE, "new-%.24s%s", bucket_of(port), what);
}

int wlh_port_open_user_directory(const struct wlh_port *port)
{
  char name[16];
  struct stat status;
  (void)snprintf(name, sizeof name, "u%u", (unsigned)geteuid());
  int own = open_directory(port->base, name);
  if (own < 0) return -1;
  bool ours = fstat(own, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 077);
  if (ours) return own;
  (void)close(own);
  errno = ENOTDIR;
  return -1;
}

static bool give_to_group(const struct wlh_port *port, int descriptor, mode_t mode)
{
  struct stat status;
  if (fstat(descriptor, &status) != 0) return false;
  if (status.st_gid != port->gid && fchown(descriptor, (uid_t)-1, port->gid) != 0) return false;
  return fchmod(descriptor, mode) == 0;
}

/* Creates a file, or completes one that a killed process of our user has left. */
static int make_shared_file(const struct wlh_port *port, int parent, const char *name)
{
  int file = openat(parent, name, FILE_FLAGS | O_CREAT, 0600);
  if (file < 0 || give_to_group(port, file, 0660)) return file;
  wlh_port_close_quietly(file);
  return -1;
}

/* Moves the bucket's directory into place with the file in it, because a directory that is not
 * empty cannot be replaced. If another process was first, this succeeds as well. If the directory
 * cannot be made, returns false and sets errno. */
static bool make_shared_directory(const struct wlh_port *port)
{
  char name[WLH_PORT_NEW_SIZE];
  wlh_port_temporary_name(port, "", name);
  int own = wlh_port_open_user_directory(port);
  int made = own < 0 ? -1 : open_directory(own, name);
  int file = made < 0 ? -1 : make_shared_file(port, made, "bucket");
  bool done = file >= 0 && give_to_group(port, made, 0770);
  if (done) (void)renameat(own, name, port->base, bucket_of(port));
  wlh_port_close_quietly(file);
  wlh_port_close_quietly(made);
  wlh_port_close_quietly(own);
  return done;
}

/* If the file cannot be made, returns false and sets errno. */
static bool place_shared_file(const struct wlh_port *port)
{
  char name[WLH_PORT_NEW_SIZE];
  wlh_port_temporary_name(port, ".bucket", name);
  int own = wlh_port_open_user_directory(port);
  int file = own < 0 ? -1 : make_shared_file(port, own, name);
  if (file >= 0) {
    bool placed = linkat(own, name, port->directory, "bucket", 0) == 0 || errno == EEXIST;
    if (placed) (void)unlinkat(own, name, 0);
  }
  wlh_port_close_quietly(file);
  wlh_port_close_quietly(own);
  return file >= 0;
}

/* If the name does not exist, calls `make` and tries again. */
static int open_shared(
    const struct wlh_port *port, int parent, const char *name, int flags,
    bool (*make)(const struct wlh_port *port))
{
  for (int round = 0; round < MAKE_ROUNDS; round++) {
    int descriptor = openat(parent, name, flags);
    if (descriptor >= 0 || errno != ENOENT) return descriptor;
    if (!make(port)) return -1;
  }
  errno = ENOENT;
  return -1;
}

/* `rights` are the mode bits that the group must have. */
static enum wlh_status check_shared(
    const struct wlh_port *port, const char *path, const struct stat *status, mode_t rights,
    struct wlh_failure *failure)
{
  if (status->st_mode & S_IWOTH) {
    return fail_because_writable(failure, path, status->st_mode, rights == 0070 ? "0770" : "0660");
  }
  if (status->st_gid == port->gid && (status->st_mode & rights) == rights) return WLH_OK;
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s cannot be shared with group %u, the group of its parent directory: it belongs to group "
      "%u with mode %04o. Have it deleted while no process uses it, or " WLH_ELSEWHERE ".",
      path, (unsigned)port->gid, (unsigned)status->st_gid, (unsigned)status->st_mode & 07777);
}

/* Sets `failure` from errno, whether or not a group shares the bucket. */
static enum wlh_status fail_to_share(
    const struct wlh_port *port, const char *path, const char *what, struct wlh_failure *failure)
{
  if (port->group && errno == ENOTDIR) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s: %s: something else has this path, or the name u%u beside it, which must be a "
        "directory of this user with mode 0700. Remove it, or " WLH_ELSEWHERE ".",
        path, what, (unsigned)geteuid());
  }
  if (!port->group || errno != EPERM)
    return wlh_port_fail_vanished_or_unsupported(failure, path, what);
  return wlh_fail(
      failure, WLH_UNSUPPORTED,
      "%s cannot be shared with group %u, the group of its parent directory: user %u is not a "
      "member. Run this process as a member of that group, or " WLH_ELSEWHERE ".",
      path, (unsigned)port->gid, (unsigned)geteuid());
}

/* Checks the rights and the file system, too, and sets `group` and `gid`. */
static enum wlh_status open_base(
    struct wlh_port *port, const char *base, bool standard, struct wlh_failure *failure)
{
  const char *what = "cannot open or create the directory";
  struct stat status;
  bool made = mkdirat(AT_FDCWD, base, 0700) == 0 || errno == EEXIST;
  if (!made) return wlh_port_fail_unsupported(failure, base, what);
  port->base = openat(AT_FDCWD, base, DIRECTORY_FLAGS);
  if (port->base < 0) return wlh_port_fail_vanished_or_unsupported(failure, base, what);
  enum wlh_status checked = check_owner(base, port->base, standard, &status, standard, failure);
  if (checked != WLH_OK) return checked;
  if (!wlh_port_is_local(port->base)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s is on an unsupported file system; only %s are supported. On other file systems, above "
        "all on network file systems, locks or shared memory can fail. Use a directory on a "
        "supported file "
        "system " WLH_GIVEN "; locks between machines need " WLH_CLUSTER ".",
        base, wlh_port_local);
  }
  port->group = !standard && (status.st_mode & S_IWGRP) != 0;
  port->gid = status.st_gid;
  return WLH_OK;
}

/* Opens or creates the bucket's directory, and checks its rights. */
static enum wlh_status open_bucket(struct wlh_port *port, struct wlh_failure *failure)
{
  struct stat status;
  port->directory =
      port->group
          ? open_shared(port, port->base, bucket_of(port), DIRECTORY_FLAGS, make_shared_directory)
          : open_directory(port->base, bucket_of(port));
  if (port->directory < 0) {
    return fail_to_share(port, port->path, "cannot open or create the directory", failure);
  }
  if (!port->group) return check_owner(port->path, port->directory, true, &status, true, failure);
  if (fstat(port->directory, &status) != 0)
    return wlh_port_fail_unsupported(failure, port->path, "cannot read its attributes");
  return check_shared(port, port->path, &status, 0070, failure);
}

/* Requires a directory that only our user may access. */
static int open_own_file(const struct wlh_port *port)
{
  int file = openat(port->directory, "bucket", FILE_FLAGS | O_CREAT | O_EXCL, 0600);
  if (file < 0) return errno == EEXIST ? openat(port->directory, "bucket", FILE_FLAGS) : -1;
  (void)fchmod(file, 0600); /* The mode must not depend on the umask. */
  return file;
}

/* Checks the rights, too, and sets `device`, `inode` and `copy`. */
static enum wlh_status open_file(struct wlh_port *port, struct wlh_failure *failure)
{
  struct stat status;
  char path[WLH_PATH_SIZE + 16];
  (void)snprintf(path, sizeof path, "%s/bucket", port->path);
  /* A forked child recognizes the file by its device and inode, so both must be recorded before
   * another thread can fork. */
  wlh_port_prevent_forks();
  int file = port->group
                 ? open_shared(port, port->directory, "bucket", FILE_FLAGS, place_shared_file)
                 : open_own_file(port);
  bool known = file >= 0 && fstat(file, &status) == 0;
  if (known) {
    port->device = (uint64_t)status.st_dev;
    port->inode = status.st_ino;
    port->file = file;
  } else {
    wlh_port_close_quietly(file);
  }
  wlh_port_permit_forks();
  if (file < 0) return fail_to_share(port, path, "cannot open the file", failure);
  if (!known) return wlh_port_fail_unsupported(failure, path, "cannot read its attributes");
  if (!S_ISREG(status.st_mode)) {
    return wlh_fail(
        failure, WLH_UNSUPPORTED, "%s is not a file. Remove it, or " WLH_ELSEWHERE ".", path);
  }
  if (port->group) {
    enum wlh_status checked = check_shared(port, path, &status, 0060, failure);
    if (checked != WLH_OK) return checked;
  } else if (status.st_uid != geteuid()) {
    return fail_because_of_owner(failure, path, status.st_uid, DELETE);
  } else if (status.st_mode & S_IWOTH) {
    return fail_because_writable(failure, path, status.st_mode, "0600");
  }
  wlh_port_prevent_forks();
  port->file = wlh_port_to_high(port, port->file);
  port->copy = wlh_port_duplicate_high(port, port->file);
  wlh_port_permit_forks();
  if (port->copy < 0)
    return wlh_port_fail_unsupported(failure, port->path, "cannot duplicate a file descriptor");
  return WLH_OK;
}

enum wlh_status wlh_port_open(
    struct wlh_port *port, const char *base, bool standard, const char *bucket,
    struct wlh_failure *failure)
{
  const char *lack = wlh_port_lack();
  if (lack) return wlh_fail(failure, WLH_UNSUPPORTED, "%s", lack);
  (void)snprintf(port->path, sizeof port->path, "%s/%s", base, bucket);
  enum wlh_status status = open_base(port, base, standard, failure);
  if (status == WLH_OK) status = open_bucket(port, failure);
  if (status == WLH_OK) {
    port->watch = wlh_port_new_watch(); /* first, for a small number: see least_high */
    status = open_file(port, failure);
  }
  if (status == WLH_OK && !wlh_port_locks_work(port)) {
    status = wlh_port_fail_vanished_or_unsupported(
        failure, port->path, "byte-range locks do not work here");
  }
  /* systemd-tmpfiles leaves locked directories alone. */
  if (status == WLH_OK) (void)flock(port->directory, LOCK_SH | LOCK_NB);
  if (status != WLH_OK) wlh_port_close(port);
  return status;
}

void wlh_port_note_name(const struct wlh_port *port, const uint16_t *name, uint32_t units)
{
  struct stat status;
  size_t size = units * sizeof *name;
  if (!name) return;
  if (fstatat(port->directory, "name", &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if ((size_t)status.st_size == size) return;
    (void)unlinkat(port->directory, "name", 0); /* The process that wrote it was killed. */
  }
  int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
  int file = openat(port->directory, "name", flags, 0600);
  if (file < 0) return;
  if (port->group) (void)give_to_group(port, file, 0660);
  ssize_t written = write(file, name, size);
  (void)written;
  wlh_port_close_quietly(file);
}

void wlh_port_close(struct wlh_port *port)
{
  wlh_port_unmap(port);
  wlh_port_prevent_forks();
  wlh_port_close_files(port);
  wlh_port_init(port);
  wlh_port_permit_forks();
}

const char *wlh_port_find_harm(struct wlh_port *port, uint64_t size)
{
  struct stat status;
  char path[WLH_PATH_SIZE + 16];
  if (!wlh_port_repair_file(port)) return "was closed by other code in this process";
  if (fstat(port->file, &status) == 0 && status.st_nlink == 0) return "was deleted";
  (void)snprintf(path, sizeof path, "%s/bucket", port->path);
  if (lstat(path, &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return "was moved";
    if (errno == EACCES || errno == ELOOP)
      return "is no longer accessible: the permissions of its directory changed";
    return NULL; /* A passing failure must not lose held locks. */
  }
  bool same = (uint64_t)status.st_dev == port->device && (uint64_t)status.st_ino == port->inode;
  if (!same) return "was moved, and another file has its path";
  return (uint64_t)status.st_size < size ? "was truncated" : NULL;
}
