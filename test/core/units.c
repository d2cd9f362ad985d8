/* The tests of single modules of the core, in one program. */
#include "harness.h"

#include <unistd.h>

int main(void)
{
  (void)alarm(1800); /* ends a test that hangs */
  return run_tests();
}
