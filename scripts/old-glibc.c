/* Lets binaries load with old versions of glibc: before 2.33 it had no functions of these names,
 * only the ones below, which newer versions still have. */
#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64
#include <sys/stat.h>

#if defined(__x86_64__)
#define OLD(name)    __asm__(".symver " #name "," #name "@GLIBC_2.2.5")
#define OLD_AT(name) __asm__(".symver " #name "," #name "@GLIBC_2.4")
enum { VERSION = 1 };
#else
#define OLD(name)    __asm__(".symver " #name "," #name "@GLIBC_2.17")
#define OLD_AT(name) OLD(name)
enum { VERSION = 0 };
#endif

int __xstat64(int version, const char *path, void *status);
int __lxstat64(int version, const char *path, void *status);
int __fxstat64(int version, int descriptor, void *status);
int __fxstatat64(int version, int descriptor, const char *path, void *status, int flags);
OLD(__xstat64);
OLD(__lxstat64);
OLD(__fxstat64);
OLD_AT(__fxstatat64);

/* The linker looks for these names. */
int old_stat(const char *path, struct stat *status) __asm__("stat64");
int old_stat(const char *path, struct stat *status)
{
  return __xstat64(VERSION, path, status);
}

int old_lstat(const char *path, struct stat *status) __asm__("lstat64");
int old_lstat(const char *path, struct stat *status)
{
  return __lxstat64(VERSION, path, status);
}

int old_fstat(int descriptor, struct stat *status) __asm__("fstat64");
int old_fstat(int descriptor, struct stat *status)
{
  return __fxstat64(VERSION, descriptor, status);
}

int old_fstatat(int descriptor, const char *path, struct stat *status, int flags)
    __asm__("fstatat64");
int old_fstatat(int descriptor, const char *path, struct stat *status, int flags)
{
  return __fxstatat64(VERSION, descriptor, path, status, flags);
}
