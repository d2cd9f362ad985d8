/* The host scope between processes: grants, hand-offs, wake-ups, and the death and the standstill of
 * those who take part. */
#include "../core/harness.h"
#include "cast.h"

#include <string.h>

static const char *program;

static struct played a, b, c;

static void begin_two(void)
{
  begin_play(program);
  enter(&a);
  enter(&b);
}

static void begin_three(void)
{
  begin_two();
  enter(&c);
}

TEST(hand_off, "a lock that one process releases is granted to the next that waits")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  releases(&a, 1);
  hear(&b, "event 2 granted");
  releases(&b, 2);
  is_granted(&a, "ask 3 n x i");
  end_play();
}

TEST(steal, "a theft is told to the process that held the lock")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  is_granted(&b, "ask 2 n x s");
  hear(&a, "event 1 stolen");
  end_play();
}

TEST(late_release, "the release of a lock that was stolen says so")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  stop_it(&a);
  is_granted(&b, "ask 2 n x s");
  tell(&a, "release 1");
  go_on(&a);
  char rest[100];
  hear_rest(&a, "1 WLH_", rest, sizeof rest);
  CHECK(strcmp(rest, "STOLEN") == 0 || strcmp(rest, "PENDING") == 0);
  end_play();
}

TEST(terminate, "an agent that is terminated leaves nothing behind")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&a, "terminate", "terminate WLH_OK");
  hear(&b, "event 2 granted");
  is_not_available(&a, "ask 3 n x i");
  end_play();
}

TEST(close_bucket, "a bucket that is closed gives back what it held")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&a, "close", "close");
  hear(&b, "event 2 granted");
  tell(&a, "open %s b", directory);
  hear(&a, "open WLH_OK");
  ask_for(&a, "ask 1 n x w", "1 WLH_PENDING");
  releases(&b, 2);
  hear(&a, "event 1 granted");
  end_play();
}

TEST(blocking, "a thread that blocks for a lock is woken by its grant")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "block 2 n", "2 WLH_PENDING");
  releases(&a, 1);
  hear(&b, "2 WLH_GRANTED");
  end_play();
}

TEST(blocking_itself, "a thread that would block for itself is refused")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&a, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&a, "wait 2", "2 WLH_DEADLOCK");
  releases(&a, 1);
  is_granted(&a, "ask 3 n x i");
  end_play();
}

TEST(query, "a snapshot has the locks and requests of all processes")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  is_granted(&b, "ask 3 m s w");
  ask_for(&a, "query 9", "9 WLH_PENDING");
  hear(&a, "event 9 snapshot held 2 pending 1 clients 2");
  end_play();
}

/* ---- death ---- */

TEST(dead_holder, "the lock of a process that was killed is granted to the next that waits")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(dead_after_rest, "who begins to wait while its helper rests is granted what a killed one held")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  hear_minded(&b, "no");
  is_granted(&b, "ask 2 m x w");
  hear_minded(&b, "yes"); /* because of that, so it rests again */
  ask_for(&b, "ask 3 n x w", "3 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 3 granted");
  end_play();
}

TEST(dead_waiter, "a process that was killed while it waited is passed over")
{
  begin_three();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&c, "ask 3 n x w", "3 WLH_PENDING");
  kill_it(&b);
  releases(&a, 1);
  hear(&c, "event 3 granted");
  end_play();
}

TEST(dead_next, "a lock that was granted to a process that is dead goes on")
{
  begin_three();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&c, "ask 3 n x w", "3 WLH_PENDING");
  stop_it(&b);
  releases(&a, 1);
  kill_it(&b);
  hear(&c, "event 3 granted");
  end_play();
}

TEST(dead_bystander, "the death of a bystander changes nothing")
{
  begin_three();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  is_granted(&c, "ask 3 m x w");
  kill_it(&c);
  is_granted(&b, "ask 4 m x w");
  CHECK(!has_said(&b, "event 2 granted"));
  releases(&a, 1);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(dead_late_waiter, "who comes to wait for a lock after its holder was killed is granted it")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  kill_it(&a);
  is_granted(&b, "ask 2 n x w");
  end_play();
}

TEST(dead_not_waiting, "who does not wait is granted the lock of a dead process")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  kill_it(&a);
  is_granted(&b, "ask 2 n x i");
  end_play();
}

TEST(dead_query, "a snapshot does not have the dead")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  is_granted(&b, "ask 2 m x w");
  kill_it(&a);
  ask_for(&b, "query 9", "9 WLH_PENDING");
  hear(&b, "event 9 snapshot held 1 pending 0 clients 1");
  end_play();
}

TEST(dead_all, "when all are dead, the next process finds nothing held")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  kill_it(&a);
  kill_it(&b);
  enter(&c);
  is_granted(&c, "ask 3 n x i");
  end_play();
}

TEST(reused_number, "who takes the number of a dead process does not inherit its locks")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  kill_it(&a);
  enter(&c);
  is_granted(&c, "ask 3 n x i");
  is_not_available(&b, "ask 4 n x i");
  end_play();
}

/* ---- standing still ---- */

TEST(stopped_outside, "a process that is stopped keeps its lock, and hinders nobody else")
{
  begin_three();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  stop_it(&a);
  is_granted(&c, "ask 3 m x w");
  CHECK(!has_said(&b, "event 2 granted"));
  go_on(&a);
  releases(&a, 1);
  hear(&b, "event 2 granted");
  end_play();
}

TEST(stopped_inside, "while a process is stopped inside the tables, calls of others come back")
{
  begin_three();
  is_granted(&b, "ask 2 n x w");
  tell(&a, "stop-inside");
  wait_stopped(&a);
  ask_for(&b, "release 2", "2 WLH_PENDING");
  ask_for(&b, "ask 3 m x w", "3 WLH_PENDING");
  ask_for(&b, "ask 4 m x i", "4 WLH_PENDING");
  ask_for(&b, "ask 5 m x w", "5 WLH_PENDING");
  ask_for(&b, "abort 5", "5 WLH_OK");
  ask_for(&b, "ask 6 m x w", "6 WLH_PENDING");
  ask_for(&b, "end 6", "6 ended");
  ask_for(&c, "ask 7 n x w", "7 WLH_PENDING");
  go_on(&a);
  hear(&a, "went on");
  hear(&b, "event 2 released");
  hear(&b, "event 3 granted");
  hear(&b, "event 4 not-available");
  hear(&c, "event 7 granted");
  releases(&b, 3);
  is_granted(&c, "ask 8 m x i");
  end_play();
}

TEST(aborted_while_stopped, "what comes after an abort in the same process never meets the request")
{
  begin_three();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  ask_for(&c, "ask 3 n x w", "3 WLH_PENDING");
  tell(&a, "stop-inside");
  wait_stopped(&a);
  ask_for(&b, "abort 2", "2 WLH_OK");
  ask_for(&b, "query 4", "4 WLH_PENDING");
  go_on(&a);
  hear(&a, "went on");
  hear(&b, "event 4 snapshot held 1 pending 1 clients 2");
  end_play();
}

TEST(killed_inside, "when a process is killed inside the tables, the others go on")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  ask_for(&b, "ask 2 n x w", "2 WLH_PENDING");
  tell(&a, "stop-inside");
  wait_stopped(&a);
  ask_for(&b, "ask 3 m x w", "3 WLH_PENDING");
  kill_it(&a);
  hear(&b, "event 2 granted");
  hear(&b, "event 3 granted");
  end_play();
}

TEST(blocking_while_stopped, "a thread that would block for itself is refused when it can be known")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  tell(&b, "stop-inside");
  wait_stopped(&b);
  ask_for(&a, "ask 2 n x w", "2 WLH_PENDING");
  tell(&a, "wait 2");
  hear(&a, "2 waits");
  go_on(&b);
  hear(&a, "2 WLH_DEADLOCK");
  releases(&a, 1);
  end_play();
}

TEST(closing_while_stopped, "a bucket is closed although another process stands still inside")
{
  begin_three();
  is_granted(&b, "ask 2 n x w");
  tell(&a, "stop-inside");
  wait_stopped(&a);
  ask_for(&b, "close", "close");
  ask_for(&c, "ask 3 n x w", "3 WLH_PENDING");
  go_on(&a);
  hear(&c, "event 3 granted");
  end_play();
}

TEST(thief_of_stopped, "a stopped victim does not hinder a thief")
{
  begin_two();
  is_granted(&a, "ask 1 n x w");
  stop_it(&a);
  is_granted(&b, "ask 2 n x s");
  go_on(&a);
  hear(&a, "event 1 stolen");
  end_play();
}

TEST(many_wakes, "a stopped process does not fill up the senders, and is told all in the end")
{
  begin_two();
  stop_it(&a);
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

int main(int argc, char **argv)
{
  (void)argc;
  program = argv[0];
  return run_tests();
}
