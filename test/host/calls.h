/* The system calls of the library, at which tests stand: the linker puts calls.c before them (Makefile).
 * A test that is linked with it defines these three. */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether a call is to fail. Calls have their own names, but "bucket" is opening the shared file, and
 * fcntl has the name of its command. */
bool call_fails(const char *name);

/* A call has returned. `descriptor` is its first argument, or -1. */
void call_made(const char *name, int descriptor, intptr_t result);

/* A descriptor is about to be closed. */
void call_closes(int descriptor);

#endif
