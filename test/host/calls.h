/* Intercepts the system calls of the library: the linker puts calls.c in front of them (Makefile).
 * A test that is linked with it defines these three functions. */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* Decides whether a call fails. `name` is the function, but "bucket" for opening the shared file,
 * and the command (such as "F_SETLKW") for fcntl. */
bool call_fails(const char *name);

/* Called after each call. `descriptor` is its first argument, or -1. */
void call_made(const char *name, int descriptor, intptr_t result);

/* Called before a descriptor is closed. */
void call_closes(int descriptor);

#endif
