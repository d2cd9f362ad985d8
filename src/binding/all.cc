/* The binding as one translation unit, for the reason that src/core/all.c gives. */
#include "addon.cc"
#include "environment.cc"
#include "host.cc"
#include "host_requests.cc"
#include "requests.cc"
#include "snapshots.cc"
#include "values.cc"
