/* What a copy of the core shows, for process_test.c: built into shared libraries of its own. */
#include "../../src/core/weblocks.h"

__attribute__((visibility("default"))) enum wlk_status copy_join(struct wlk_process **process);
__attribute__((visibility("default"))) void copy_path(
    const struct wlk_process *process, char *path, size_t size);

enum wlk_status copy_join(struct wlk_process **process)
{
  return wlk_process_join(process);
}

void copy_path(const struct wlk_process *process, char *path, size_t size)
{
  wlk_process_path(process, path, size);
}
