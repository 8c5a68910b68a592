#include "failure.h"

#include <stdarg.h>
#include <stdio.h>

namespace tvmbuild {

static thread_local char reason[2048];

bool fail(const char *format, ...) {
  char text[sizeof(reason)];  // an argument may be the previous reason
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  __builtin_memcpy(reason, text, sizeof(reason));
  return false;
}

const char *failure() { return reason; }

}  // namespace tvmbuild
