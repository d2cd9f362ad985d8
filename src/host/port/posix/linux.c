#include "parts.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

/* logind empties a user's part of /dev/shm at logout (RemoveIPC), except for system users. */
static bool logind_removes(void)
{
  struct stat status;
  return geteuid() >= 1000 && stat("/run/systemd/seats", &status) == 0;
}

const char *wlh_port_default_parent(void)
{
  return logind_removes() ? "/tmp" : "/dev/shm";
}

const char wlh_port_local[] = "tmpfs, ext4, xfs, btrfs, overlay, f2fs, zfs";

bool wlh_port_is_local(int descriptor)
{
  static const uint32_t local[] = {
      0x01021994 /* tmpfs */,
      0xEF53 /* ext */,
      0x58465342 /* xfs */,
      0x9123683E /* btrfs */,
      0x794C7630 /* overlay */,
      0xF2F52010u /* f2fs */,
      0x2FC12FC1 /* zfs */};
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0) return false;
  for (size_t i = 0; i < sizeof local / sizeof *local; i++) {
    if ((uint32_t)status.f_type == local[i]) return true;
  }
  return false;
}

/* Nothing need be done: systemd-tmpfiles leaves the directory alone, because it is locked. */
uint64_t wlh_port_refresh(struct wlh_port *port)
{
  (void)port;
  return WLH_PORT_FOREVER;
}

/* A POSIX access list gives no more rights than the group bits of the mode. */
enum wlh_port_rights wlh_port_rights(int descriptor)
{
  (void)descriptor;
  return WLH_RIGHTS_OF_MODE;
}

void wlh_port_keep_private(void *map, size_t size)
{
  (void)madvise(map, size, MADV_DONTFORK);
  (void)madvise(map, size, MADV_DONTDUMP);
}

size_t wlh_port_boot_name(char *name, size_t size)
{
  int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return 0;
  ssize_t got = read(descriptor, name, size);
  (void)close(descriptor);
  return got > 0 ? (size_t)got : 0;
}
