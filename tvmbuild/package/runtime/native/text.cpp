#include "text.h"

#include <stdarg.h>
#include <stdio.h>

namespace tvmbuild {

void Text::add(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char text[1024];
  int length = vsnprintf(text, sizeof(text), format, arguments);
  va_end(arguments);
  if (length <= 0) return;
  size_t kept = static_cast<size_t>(length) < sizeof(text) ? static_cast<size_t>(length) : sizeof(text) - 1;
  memcpy(characters_.grow(kept), text, kept);
}

void Text::add_string(const char *value) {
  characters_.add('"');
  for (; *value != 0; value++) {
    unsigned char byte = static_cast<unsigned char>(*value);
    if (byte == '"' || byte == '\\')
      add("\\%c", byte);
    else if (byte < 0x20)
      add("\\u%04x", byte);
    else
      characters_.add(*value);
  }
  characters_.add('"');
}

}  // namespace tvmbuild
