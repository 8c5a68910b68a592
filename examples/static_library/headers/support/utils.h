// Small functions of the runtime.
#pragma once

#include <string>

namespace tvm::support {

inline bool IsNumber(const std::string &text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace tvm::support
