// A reader of bytes that may be damaged. After a read beyond the end, all later reads return nothing.
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <string.h>

namespace tvmbuild {

class Reader {
 public:
  Reader(const uint8_t *at, size_t left) : at_(at), left_(left) {}

  const uint8_t *bytes(size_t count) {
    if (!is_whole_ || count > left_) {
      is_whole_ = false;
      return nullptr;
    }
    const uint8_t *start = at_;
    at_ += count;
    left_ -= count;
    return start;
  }
  uint32_t number() { return read<uint32_t>(); }
  uint64_t long_number() { return read<uint64_t>(); }
  bool is_whole() const { return is_whole_; }
  size_t left() const { return left_; }

 private:
  template <class T>
  T read() {
    T value = 0;
    if (const uint8_t *from = bytes(sizeof(T))) memcpy(&value, from, sizeof(T));  // both machines are little endian
    return value;
  }

  const uint8_t *at_;
  size_t left_;
  bool is_whole_ = true;
};

}  // namespace tvmbuild
