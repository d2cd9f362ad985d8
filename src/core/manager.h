/* The lock manager (2.2): section 4 of the specification over the resources of one storage bucket.
 * Public part in weblocks.h; manager.c has the algorithms in the order of the specification. */
#ifndef WLK_MANAGER_H
#define WLK_MANAGER_H

#include "process.h"

/* Lock key: (m) process->mutex  (c) constant */
struct wlk_manager {
  struct wlk_entry entry;      /* in process->managers; its name is the bucket's, in `name` */
  struct wlk_process *process; /* (c) */
  struct wlk_table resources;  /* (m) of struct wlk_resource.entry: lock request queue map and held
                                  lock set in one */
  size_t requests;   /* (m) pending and held ones of all resources: the size of a snapshot */
  size_t labels;     /* (m) requests that have a label: likewise */
  size_t name_units; /* (m) code units in the names of all resources and labels: likewise */
  size_t openings;   /* (m) how often it is open; it exists as long as that is not 0 */
  uint16_t name[];   /* (c) */
};

#endif
