/* Jobs report a result to their agent: snapshots (wlh_start_snapshot) and the opening of the file
 * (wlh_bucket_open_file), which only the helper does, and publications (wlh_publish_later), which
 * are done with the deferred operations. */
#ifndef WLH_JOB_H
#define WLH_JOB_H

#include "records.h"

/* Does the first deferred operation if it is a job for the helper. The caller must have mu, and be
 * outside. */
void wlh_do_job(struct wlh_bucket *bucket);

/* Records the failure; the caller posts the event. The caller must have qmu. */
void wlh_record_job_failure(struct wlh_item *item, enum wlh_status status);

#endif
