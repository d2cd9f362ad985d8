/* The functions of the C++ runtime that the binding needs, for targets with a C compiler only. */
#include <stdlib.h>

void cxx_delete(void *memory, size_t size) __asm__("_ZdlPvm");
void cxx_delete(void *memory, size_t size)
{
  (void)size;
  free(memory);
}

/* Never called: no class of the binding has pure virtual functions. */
void __cxa_pure_virtual(void);
void __cxa_pure_virtual(void)
{
  abort();
}
