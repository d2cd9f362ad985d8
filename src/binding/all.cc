/* The binding as one translation unit, see src/core/all.c. */
#include "addon.cc"
#include "environment.cc"
#include "host.cc"
#include "host_requests.cc"
#include "process_group.cc"
#include "requests.cc"
#include "snapshots.cc"
#include "values.cc"
