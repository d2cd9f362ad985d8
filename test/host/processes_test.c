/* The host scope between processes: grants, deaths, and processes that stand still. torn_test,
 * steps_test and torture have all of that at any moment. */
#include "../core/harness.h"
#include "cast.h"

#define HOLD_AND_WAIT "ab enters; a gets 1 n; b waits 2 n; "
#define ALL_THREE     "abc enters; a gets 1 n; b waits 2 n; "

static const struct story stories[] = {
    {"a lock that one process releases is granted to the next that waits",
     HOLD_AND_WAIT "a releases 1; b hears 2 granted; b releases 2; a gets 3 n x i"},
    {"a theft is reported to the process that held the lock, even if it was stopped meanwhile",
     "ab enters; a gets 1 n; a stops; b gets 2 n x s; a goes-on; a hears 1 stolen"},
    {"the lock of a process that was killed is granted to the next that waits",
     HOLD_AND_WAIT "a dies; b hears 2 granted"},
    /* It watches because of 2, and so it rests again before 3. */
    {"a process that begins to wait while its helper rests is granted the lock of a dead one",
     "ab enters; a gets 1 n; b rests; b gets 2 m; b watches; b waits 3 n; a dies; b hears 3 "
     "granted"},
    {"a process that waits again is granted the lock of a dead one that joined meanwhile",
     "ab enters; a gets 1 n; b rests; b waits 2 n; b watches; b: abort 2 = 2 WLH_OK; c enters; "
     "a releases 1; c gets 3 n; b waits 4 n; c dies; b hears 4 granted"},
    {"a snapshot does not have the dead",
     "ab enters; a gets 1 n; b gets 2 m; a dies; b: query 9 = 9 WLH_PENDING; "
     "b hears 9 snapshot held 1 pending 0 clients 1"},
    {"a process that is stopped keeps its lock, and delays no other",
     ALL_THREE "a stops; c gets 3 m; b has-not-heard 2 granted; a goes-on; a releases 1; "
               "b hears 2 granted"},
    {"while a process is stopped inside the tables, calls of others return",
     "abc enters; b gets 2 n; a stops-inside; b: release 2 = 2 WLH_PENDING; b waits 3 m; "
     "b waits 4 m x i; b waits 5 m; b: abort 5 = 5 WLH_OK; b waits 6 m; b: end 6 = 6 ended; "
     "c waits 7 n; a goes-on; a says went on; b hears 2 released; b hears 3 granted; "
     "b hears 4 not-available; c hears 7 granted; b releases 3; c gets 8 m x i"},
    {"a bucket is closed although another process stands still inside",
     "abc enters; b gets 2 n; a stops-inside; b: close = close; c waits 3 n; a goes-on; "
     "c hears 3 granted"},
};

TEST(many_wakes, "a stopped process blocks no sender, and receives everything once it goes on")
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
  run_stories(stories, sizeof stories / sizeof *stories, NULL);
  return run_tests();
}
