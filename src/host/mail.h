/* Mail: what others have done to requests of this process. It is taken inside, and told to the
 * agents.
 *
 * A thread that was robbed hears of it before it hears that the name was granted since: so all mail
 * is taken before a turn tells a grant that it made itself. In the mail itself a theft stands
 * before the grants that it led to. */
#ifndef WLH_MAIL_H
#define WLH_MAIL_H

#include "records.h"

/* Takes all mail, and tells the agents. Inside, and the tables are not lost. */
void wlh_mail_take(struct wlh_bucket *bucket);

#endif
