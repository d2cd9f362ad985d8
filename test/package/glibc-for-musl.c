/* Functions of glibc that Debian's C++ library needs and musl lacks, for a program that was built
 * for musl with another C++ library: Bun (tarball.js). */
#define _GNU_SOURCE 1
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <time.h>
#include <unistd.h>

char __libc_single_threaded;

unsigned long __getauxval(unsigned long type)
{
  return getauxval(type);
}

size_t __strftime_l(char *text, size_t size, const char *format, const struct tm *time, locale_t at)
{
  return strftime_l(text, size, format, time, at);
}

/* std::random_device needs it. */
uint32_t arc4random(void)
{
  uint32_t number = 0;
  (void)getentropy(&number, sizeof number);
  return number;
}

/* It fails, so that the caller uses dl_iterate_phdr. */
int _dl_find_object(void *address, void *result)
{
  (void)address;
  (void)result;
  return -1;
}

#if defined(__x86_64__)
/* musl does not find those of the C++ library, which have an old version. */
unsigned __cpu_model[4];

int __cpu_indicator_init(void)
{
  return 0;
}
#endif

/* ---- destructors of a thread ---- */

struct ending {
  void (*destroy)(void *);
  void *object;
  struct ending *next;
};

static pthread_key_t endings;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void end(void *first)
{
  for (struct ending *ending = first, *next; ending; ending = next) {
    next = ending->next;
    ending->destroy(ending->object);
    free(ending);
  }
}

static void make_key(void)
{
  (void)pthread_key_create(&endings, end);
}

int __cxa_thread_atexit_impl(void (*destroy)(void *), void *object, void *library)
{
  (void)library;
  (void)pthread_once(&once, make_key);
  struct ending *ending = malloc(sizeof *ending);
  if (!ending) return -1;
  *ending = (struct ending){destroy, object, pthread_getspecific(endings)};
  return pthread_setspecific(endings, ending);
}
