/* Jobs: snapshots, and the opening of the file. Agents request them (wlh_start_snapshot,
 * wlh_bucket_open_file), and only the helper does them. */
#ifndef WLH_JOB_H
#define WLH_JOB_H

#include "records.h"

/* Does the first deferred operation if it is a job. The caller must have mu, and be outside. */
void wlh_do_job(struct wlh_bucket *bucket);

/* Records the failure; the caller posts the event. The caller must have qmu. */
void wlh_record_job_failure(struct wlh_item *item, enum wlh_status status);

#endif
