/* Several copies of the core in one process: port_first_shared and wlk_process_join. Usage: process_test FOLDER, with
 * copy_one.so, copy_two.so (the same core) and copy_other.so (another WLK_ABI) in it. Each case runs in a process of its
 * own, since what was loaded first stays. */
#include "harness.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;

struct copy {
  enum wlk_status (*join)(struct wlk_process **process);
  void (*path)(const struct wlk_process *process, char *path, size_t size);
};

static bool load(const char *name, struct copy *copy)
{
  char path[1024];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* as Node.js loads addons */
  if (!library) return false;
  *(void **)&copy->join = dlsym(library, "copy_join");
  *(void **)&copy->path = dlsym(library, "copy_path");
  return copy->join && copy->path;
}

static bool in_child(bool (*run)(void))
{
  (void)fflush(stdout);
  pid_t child = fork();
  if (child == 0) _exit(run() ? 0 : 1);
  int status = 1;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
         WEXITSTATUS(status) == 0;
}

static bool share(void)
{
  struct copy one, two;
  struct wlk_process *first, *second;
  return load("copy_one.so", &one) && load("copy_two.so", &two) && one.join(&first) == WLK_OK &&
         two.join(&second) == WLK_OK && first == second;
}

static bool refuse(void)
{
  struct copy one, other;
  struct wlk_process *first, *second;
  char path[1024], own[1024];
  if (!load("copy_one.so", &one) || !load("copy_other.so", &other)) return false;
  if (one.join(&first) != WLK_OK || other.join(&second) != WLK_OTHER_VERSION) return false;
  other.path(second, path, sizeof path);
  other.path(NULL, own, sizeof own);
  return first == second && strstr(path, "copy_one.so") && strstr(own, "copy_other.so");
}

static pthread_barrier_t barrier;

static void *load_and_join(void *name)
{
  struct copy copy;
  struct wlk_process *process = NULL;
  (void)pthread_barrier_wait(&barrier);
  return load(name, &copy) && copy.join(&process) == WLK_OK ? process : NULL;
}

static bool race(void)
{
  pthread_t one, two;
  void *first = NULL, *second = NULL;
  char *names[] = {"copy_one.so", "copy_two.so"};
  (void)pthread_barrier_init(&barrier, NULL, 2);
  if (pthread_create(&one, NULL, load_and_join, names[0]) != 0) return false;
  if (pthread_create(&two, NULL, load_and_join, names[1]) != 0) return false;
  (void)pthread_join(one, &first);
  (void)pthread_join(two, &second);
  return first && first == second;
}

TEST(copies_share, "two copies that do not see each other find one state")
{
  CHECK(in_child(share));
}

TEST(copies_differ, "a copy of another version is refused, and both paths can be told")
{
  CHECK(in_child(refuse));
}

TEST(copies_race, "two threads that load different copies at the same moment find one state")
{
  for (int i = 0; i < 100; i++) CHECK(in_child(race));
}

int main(int argc, char **argv)
{
  if (argc < 2) return 2;
  folder = argv[1];
  return run_tests();
}
