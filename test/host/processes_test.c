/* The host scope between processes: grants, hand-offs, wake-ups, and the death and the standstill of
 * those who take part. */
#include "../core/harness.h"
#include "cast.h"

#include <string.h>

#define HOLD_AND_WAIT "ab enters; a gets 1 n; b waits 2 n; "
#define ALL_THREE     "abc enters; a gets 1 n; b waits 2 n; "

static const struct story stories[] = {
    {"a lock that one process releases is granted to the next that waits",
     HOLD_AND_WAIT "a releases 1; b hears 2 granted; b releases 2; a gets 3 n x i"},
    {"a theft is told to the process that held the lock",
     "ab enters; a gets 1 n; b gets 2 n x s; a hears 1 stolen"},
    {"the release of a lock that was stolen says so",
     "ab enters; a gets 1 n; a stops; b gets 2 n x s; a: release 1; a goes-on; stolen or later"},
    {"an agent that is terminated leaves nothing behind",
     HOLD_AND_WAIT "a: terminate = terminate WLH_OK; b hears 2 granted; a lacks 3 n"},
    {"a bucket that is closed gives back what it held",
     HOLD_AND_WAIT "a: close = close; b hears 2 granted; a opens; a waits 1 n; b releases 2; "
                   "a hears 1 granted"},
    {"a thread that blocks for a lock is woken by its grant",
     "ab enters; a gets 1 n; b: block 2 n = 2 WLH_PENDING; a releases 1; b says 2 WLH_GRANTED"},
    {"a thread that would block for itself is refused",
     "ab enters; a gets 1 n; a waits 2 n; a: wait 2 = 2 WLH_DEADLOCK; a releases 1; a gets 3 n x "
     "i"},
    {"a snapshot has the locks and requests of all processes",
     HOLD_AND_WAIT "b gets 3 m s w; a: query 9 = 9 WLH_PENDING; "
                   "a hears 9 snapshot held 2 pending 1 clients 2"},

    {"the lock of a process that was killed is granted to the next that waits",
     HOLD_AND_WAIT "a dies; b hears 2 granted"},
    /* It watches because of 2, and so it rests again before 3. */
    {"who begins to wait while its helper rests is granted what a killed one held",
     "ab enters; a gets 1 n; b rests; b gets 2 m; b watches; b waits 3 n; a dies; b hears 3 "
     "granted"},
    {"a process that was killed while it waited is passed over",
     ALL_THREE "c waits 3 n; b dies; a releases 1; c hears 3 granted"},
    {"a lock that was granted to a process that is dead goes on",
     ALL_THREE "c waits 3 n; b stops; a releases 1; b dies; c hears 3 granted"},
    {"the death of a bystander changes nothing",
     ALL_THREE "c gets 3 m; c dies; b gets 4 m; b has-not-heard 2 granted; a releases 1; "
               "b hears 2 granted"},
    {"who comes to wait for a lock after its holder was killed is granted it",
     "ab enters; a gets 1 n; a dies; b gets 2 n"},
    {"who does not wait is granted the lock of a dead process",
     "ab enters; a gets 1 n; a dies; b gets 2 n x i"},
    {"a snapshot does not have the dead",
     "ab enters; a gets 1 n; b gets 2 m; a dies; b: query 9 = 9 WLH_PENDING; "
     "b hears 9 snapshot held 1 pending 0 clients 1"},
    {"when all are dead, the next process finds nothing held",
     HOLD_AND_WAIT "ab dies; c enters; c gets 3 n x i"},
    {"who takes the number of a dead process does not inherit its locks",
     "ab enters; a gets 1 n; a dies; c enters; c gets 3 n x i; b lacks 4 n"},

    {"a process that is stopped keeps its lock, and hinders nobody else",
     ALL_THREE "a stops; c gets 3 m; b has-not-heard 2 granted; a goes-on; a releases 1; "
               "b hears 2 granted"},
    {"while a process is stopped inside the tables, calls of others come back",
     "abc enters; b gets 2 n; a stops-inside; b: release 2 = 2 WLH_PENDING; b waits 3 m; "
     "b waits 4 m x i; b waits 5 m; b: abort 5 = 5 WLH_OK; b waits 6 m; b: end 6 = 6 ended; "
     "c waits 7 n; a goes-on; a says went on; b hears 2 released; b hears 3 granted; "
     "b hears 4 not-available; c hears 7 granted; b releases 3; c gets 8 m x i"},
    {"what comes after an abort in the same process never meets the request",
     ALL_THREE "c waits 3 n; a stops-inside; b: abort 2 = 2 WLH_OK; b: query 4 = 4 WLH_PENDING; "
               "a goes-on; a says went on; b hears 4 snapshot held 1 pending 1 clients 2"},
    {"when a process is killed inside the tables, the others go on",
     HOLD_AND_WAIT "a stops-inside; b waits 3 m; a dies; b hears 2 granted; b hears 3 granted"},
    {"a thread that would block for itself is refused when it can be known",
     "ab enters; a gets 1 n; b stops-inside; a waits 2 n; a: wait 2 = 2 waits; b goes-on; "
     "a says 2 WLH_DEADLOCK; a releases 1"},
    {"a bucket is closed although another process stands still inside",
     "abc enters; b gets 2 n; a stops-inside; b: close = close; c waits 3 n; a goes-on; "
     "c hears 3 granted"},
    {"a stopped victim does not hinder a thief",
     "ab enters; a gets 1 n; a stops; b gets 2 n x s; a goes-on; a hears 1 stolen"},
};

/* The answer of `a` to its release: at once, or put off, as the tables can be in use. */
static void hear_stolen(const char *step)
{
  char rest[100];
  CHECK(strcmp(step, "stolen or later") == 0);
  hear_rest(&a, "1 WLH_", rest, sizeof rest);
  CHECK(strcmp(rest, "STOLEN") == 0 || strcmp(rest, "PENDING") == 0);
}

TEST(many_wakes, "a stopped process does not fill up the senders, and is told all in the end")
{
  begin_play();
  play("ab enters; a stops");
  for (int i = 1; i <= 300; i++) {
    tell(&a, "ask %d n%d x w", i, i);
  }
  go_on(&a);
  for (int i = 1; i <= 300; i++) hear_either(&a, i, "WLH_GRANTED", "granted");
  stop_it(&a);
  for (int i = 1; i <= 300; i++) {
    tell(&b, "ask %d n%d x s", i, i);
    hear_either(&b, i, "WLH_GRANTED", "granted");
  }
  go_on(&a);
  for (int i = 1; i <= 300; i++) hear(&a, "event %d stolen", i);
  end_play();
}

int main(void)
{
  run_stories(stories, sizeof stories / sizeof *stories, hear_stolen);
  return run_tests();
}
