/* The port to macOS 11 and later. A comment names the manual page of each call. */
#include "parts.h"

#include <errno.h>
#include <mach/vm_inherit.h>
#include <string.h>
#include <sys/acl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysctl.h>
#include <time.h>

/* Seconds that the times of the file are set into the future. */
enum { AHEAD = 30 * 24 * 3600 };

/* With the path of confstr(_CS_DARWIN_USER_TEMP_DIR), a socket's address would be too long. */
const char *wlh_port_default_parent(void)
{
  return "/tmp";
}

const char wlh_port_local[] = "apfs, hfs";

/* statfs(2) */
bool wlh_port_is_local(int descriptor)
{
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0 || !(status.f_flags & MNT_LOCAL)) return false;
  return strcmp(status.f_fstypename, "apfs") == 0 || strcmp(status.f_fstypename, "hfs") == 0;
}

/* acl_get_fd_np(3), acl_get_entry(3), acl_get_tag_type(3). Entries that deny, as in a user's own
 * directories, give no rights. An unreadable list may give any rights. */
static bool has_access_list(int descriptor)
{
  acl_t list = acl_get_fd_np(descriptor, ACL_TYPE_EXTENDED);
  acl_entry_t entry;
  acl_tag_t tag;
  bool allows = false;
  if (!list) return errno != ENOENT && errno != ENOTSUP && errno != EOPNOTSUPP;
  for (int next = ACL_FIRST_ENTRY; !allows && acl_get_entry(list, next, &entry) == 0;
       next = ACL_NEXT_ENTRY) {
    allows = acl_get_tag_type(entry, &tag) != 0 || tag == ACL_EXTENDED_ALLOW;
  }
  (void)acl_free(list);
  return allows;
}

/* statfs(2), mount(8). If a file system ignores owners, everybody owns everything. */
enum wlh_port_rights wlh_port_rights(int descriptor)
{
  struct statfs status;
  if (fstatfs(descriptor, &status) != 0 || (status.f_flags & MNT_IGNORE_OWNERSHIP))
    return WLH_RIGHTS_OF_ALL;
  return has_access_list(descriptor) ? WLH_RIGHTS_OF_LIST : WLH_RIGHTS_OF_MODE;
}

/* futimens(2). The system deletes files in /tmp that were not read, written or changed for three
 * days, and writes by a mapping do not count. The machine may sleep for longer, and clean /tmp when
 * it wakes. So the times of the file are set into the future. Only the file's owner may do that;
 * another user sets them to the present. */
uint64_t wlh_port_refresh(struct wlh_port *port)
{
  struct timespec times[2] = {{time(NULL) + AHEAD, 0}, {time(NULL) + AHEAD, 0}};
  if (wlh_port_repair_file(port) && futimens(port->file, times) != 0)
    (void)futimens(port->file, NULL);
  return UINT64_C(3600) * 1000000000;
}

/* minherit(2) */
void wlh_port_keep_private(void *map, size_t size)
{
  (void)minherit(map, size, VM_INHERIT_NONE);
}

/* sysctl(3). The name is in <sys/sysctl.h> of xnu; its value changes only with each boot. */
size_t wlh_port_boot_name(char *name, size_t size)
{
  size_t length = size;
  return sysctlbyname("kern.bootsessionuuid", name, &length, NULL, 0) == 0 ? length : 0;
}
