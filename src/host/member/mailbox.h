/* The mail of this process: what others did to its requests. A thread must receive the theft of its
 * lock before the grant that followed it. So a critical section takes all mail before it reports
 * its own grants, and in the mail a theft precedes its grants. */
#ifndef WLH_MAILBOX_H
#define WLH_MAILBOX_H

#include "records.h"

/* Takes all mail and notifies the agents. Inside, and the tables are not lost. */
void wlh_mailbox_drain(struct wlh_bucket *bucket);

#endif
