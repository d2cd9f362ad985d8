/* The mail of this process reports what other processes did to its requests. In the mail, a theft
 * precedes the grants that followed it. A thread must receive them in this order, so a critical
 * section must take all mail before it reports its own grants. */
#ifndef WLH_MAILBOX_H
#define WLH_MAILBOX_H

#include "records.h"

/* The caller must be inside, and the tables must not be lost. */
void wlh_mailbox_drain(struct wlh_bucket *bucket);

#endif
