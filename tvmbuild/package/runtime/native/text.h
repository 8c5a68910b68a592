// A text that grows, for JSON.
#pragma once
#include "list.h"

namespace tvmbuild {

class Text {
 public:
  __attribute__((format(printf, 2, 3))) void add(const char *format, ...);
  // A JSON string, quoted.
  void add_string(const char *value);
  const char *data() const { return characters_.data() != nullptr ? characters_.data() : ""; }
  size_t size() const { return characters_.size(); }

 private:
  List<char> characters_;
};

}  // namespace tvmbuild
