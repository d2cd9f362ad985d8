/* The tests of single modules of the core, in one program. */
#include "harness.h"

#include <unistd.h>

uint64_t stopped_clock;

uint64_t __real_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact);
uint64_t __wrap_wlk_port_now(bool exact)
{
  return stopped_clock ? stopped_clock : __real_wlk_port_now(exact);
}

int main(void)
{
  (void)alarm(1800); /* what waits for ever ends here */
  return run_tests();
}
