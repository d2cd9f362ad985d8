#include "parts.h"

#include <aclapi.h>
#include <sddl.h>
#include <string.h>

#define WRITES                                                                                     \
  (FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD | DELETE | WRITE_DAC | WRITE_OWNER |     \
   GENERIC_WRITE | GENERIC_ALL)
#define READS (FILE_READ_DATA | GENERIC_READ)

#define PRIVATE                                                                                    \
  "Grant access only to this user (icacls \"%s\" /inheritance:r /grant:r "                         \
  "\"%%USERNAME%%:(OI)(CI)F\"), or " WLH_ELSEWHERE "."

struct user {
  union {
    TOKEN_USER token;
    char bytes[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
  } of;
};

static bool find_user(struct user *user)
{
  HANDLE token;
  DWORD size;
  if (!OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &token)) return false;
  bool found = GetTokenInformation(token, TokenUser, &user->of, sizeof user->of, &size) != FALSE;
  DWORD error = GetLastError();
  (void)CloseHandle(token);
  SetLastError(error);
  return found;
}

/* If `sid` is NULL, the entry is for the well-known account `type`. */
static bool add_allow_entry(ACL *list, DWORD flags, WELL_KNOWN_SID_TYPE type, PSID sid)
{
  char known[SECURITY_MAX_SID_SIZE];
  DWORD size = sizeof known;
  if (!sid) {
    sid = known;
    if (!CreateWellKnownSid(type, NULL, sid, &size)) return false;
  }
  return AddAccessAllowedAceEx(list, ACL_REVISION, flags, GENERIC_ALL, sid) != FALSE;
}

bool wlh_port_make_private(struct wlh_private *security, bool directory)
{
  struct user user;
  DWORD flags = directory ? OBJECT_INHERIT_ACE | CONTAINER_INHERIT_ACE : 0;
  ACL *list = &security->list.acl;
  PSECURITY_DESCRIPTOR descriptor = &security->descriptor;
  security->attributes = (SECURITY_ATTRIBUTES){sizeof security->attributes, descriptor, FALSE};
  return find_user(&user) && InitializeAcl(list, sizeof security->list, ACL_REVISION) &&
         add_allow_entry(list, flags, WinNullSid, user.of.token.User.Sid) &&
         add_allow_entry(list, flags, WinLocalSystemSid, NULL) &&
         add_allow_entry(list, flags, WinBuiltinAdministratorsSid, NULL) &&
         InitializeSecurityDescriptor(descriptor, SECURITY_DESCRIPTOR_REVISION) &&
         SetSecurityDescriptorDacl(descriptor, TRUE, list, FALSE) &&
         SetSecurityDescriptorControl(descriptor, SE_DACL_PROTECTED, SE_DACL_PROTECTED);
}

static bool is_trusted(const struct user *user, PSID sid)
{
  static const WELL_KNOWN_SID_TYPE types[] = {
      WinLocalSystemSid, WinBuiltinAdministratorsSid, WinCreatorOwnerSid, WinCreatorOwnerRightsSid};
  if (EqualSid(sid, user->of.token.User.Sid)) return true;
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    if (IsWellKnownSid(sid, types[i])) return true;
  }
  return false;
}

/* Returns an account that has one of these rights but must not have it, or NULL. Entries that only
 * children inherit are checked on the children. */
static PSID find_stranger(const struct user *user, ACL *list, DWORD rights)
{
  ACL_SIZE_INFORMATION size;
  if (!GetAclInformation(list, &size, sizeof size, AclSizeInformation)) return NULL;
  for (DWORD i = 0; i < size.AceCount; i++) {
    void *entry;
    if (!GetAce(list, i, &entry)) continue;
    const ACE_HEADER *header = entry;
    ACCESS_ALLOWED_ACE *allowed = entry;
    bool allows = header->AceType == ACCESS_ALLOWED_ACE_TYPE ||
                  header->AceType == ACCESS_ALLOWED_CALLBACK_ACE_TYPE;
    if (!allows || (header->AceFlags & INHERIT_ONLY_ACE) || !(allowed->Mask & rights)) continue;
    if (!is_trusted(user, &allowed->SidStart)) return &allowed->SidStart;
  }
  return NULL;
}

/* `format` is for the path, the account's SID, and the path again. */
static enum wlh_status fail_because_of_account(
    struct wlh_failure *failure, const char *path, PSID who, const char *format)
{
  char *text = NULL;
  if (!ConvertSidToStringSidA(who, &text)) text = NULL;
  enum wlh_status status =
      wlh_fail(failure, WLH_UNSUPPORTED, format, path, text ? text : "another user", path);
  (void)LocalFree(text);
  return status;
}

enum wlh_status wlh_port_check_access(
    HANDLE handle, const char *path, bool directory, struct wlh_failure *failure)
{
  struct user user;
  PSID owner = NULL;
  ACL *list = NULL;
  PSECURITY_DESCRIPTOR descriptor = NULL;
  if (!find_user(&user))
    return wlh_port_fail_unsupported(failure, path, "cannot read its owner and access list");
  DWORD error = GetSecurityInfo(
      handle, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner, NULL,
      &list, NULL, &descriptor);
  if (error != ERROR_SUCCESS) {
    SetLastError(error);
    return wlh_port_fail_unsupported(failure, path, "cannot read its owner and access list");
  }
  enum wlh_status status = WLH_OK;
  PSID stranger = list ? find_stranger(&user, list, directory ? WRITES : WRITES | READS) : NULL;
  if (!list) {
    status = wlh_fail(
        failure, WLH_UNSUPPORTED,
        "%s has no access list, so every user could corrupt the locks. " PRIVATE, path, path);
  } else if (!is_trusted(&user, owner)) {
    status = fail_because_of_account(
        failure, path, owner,
        "%s belongs to another user, %s, who could corrupt the locks. " PRIVATE);
  } else if (stranger) {
    status = fail_because_of_account(
        failure, path, stranger,
        "%s gives rights to another user, %s, who could corrupt the locks. " PRIVATE);
  }
  (void)LocalFree(descriptor);
  return status;
}
