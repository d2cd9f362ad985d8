/* What Debian's C++ library asks of glibc and musl has not, for a program that was built for musl
 * with its own C++ library: that of Bun (tarball.js). */
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

/* For std::random_device. */
uint32_t arc4random(void)
{
  uint32_t number = 0;
  (void)getentropy(&number, sizeof number);
  return number;
}

/* It is not there: the caller asks dl_iterate_phdr. */
int _dl_find_object(void *address, void *result)
{
  (void)address;
  (void)result;
  return -1;
}

#if defined(__x86_64__)
/* musl does not find the C++ library's own: their version is an old one. */
unsigned __cpu_model[4];

int __cpu_indicator_init(void)
{
  return 0;
}
#endif

/* ---- what is to be destroyed with a thread ---- */

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
