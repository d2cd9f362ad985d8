#include "port.h"

#include <stdarg.h>
#include <stdio.h>

enum wlh_status wlh_fail(
    struct wlh_failure *failure, enum wlh_status status, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(failure->text, sizeof failure->text, format, arguments);
  va_end(arguments);
  failure->status = status;
  return status;
}
