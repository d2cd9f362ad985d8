/* The binding as one translation unit, for the reason that src/core/all.c gives. */
#include "addon.cc"
#include "environment.cc"
#include "values.cc"
