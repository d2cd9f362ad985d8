/* The mail of this process reports what other processes did to its requests. A thread must receive
 * the theft of its lock before the grant that followed the theft. So a critical section must take
 * all mail before it reports its own grants, and in the mail a theft precedes the grants that
 * followed it. */
#ifndef WLH_MAILBOX_H
#define WLH_MAILBOX_H

#include "records.h"

/* The caller must be inside, and the tables must not be lost. */
void wlh_mailbox_drain(struct wlh_bucket *bucket);

#endif
