// Streams of bytes as TVM's runtime uses them. TVM's wheels have the runtime's sources without these headers, so this
// folder has its own, with what the runtime needs to read an executable and no more.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tvm::support {

template <typename T, typename = void>
struct Serializer;

class Stream {
 public:
  virtual ~Stream() = default;
  virtual size_t Read(void *to, size_t size) = 0;
  virtual size_t Write(const void *from, size_t size) = 0;

  template <typename T>
  void Write(const T &value) {
    Serializer<T>::Write(this, value);
  }
  template <typename T>
  bool Read(T *value) {
    return Serializer<T>::Read(this, value);
  }
  template <typename T>
  void WriteArray(const T *values, size_t count) {
    for (size_t i = 0; i < count; i++) Write<T>(values[i]);
  }
  template <typename T>
  bool ReadArray(T *values, size_t count) {
    for (size_t i = 0; i < count; i++) {
      if (!Read<T>(values + i)) return false;
    }
    return true;
  }
};

}  // namespace tvm::support
