// Streams in memory.
#pragma once

#include <tvm/ffi/string.h>
#include <tvm/support/io.h>
#include <tvm/support/serializer.h>

#include <algorithm>
#include <cstring>
#include <string>

namespace tvm::support {

class BytesInStream : public Stream {
 public:
  explicit BytesInStream(const ffi::Bytes &bytes) : data_(bytes.data()), size_(bytes.size()) {}
  explicit BytesInStream(const std::string &bytes) : data_(bytes.data()), size_(bytes.size()) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void *to, size_t size) final {
    size_t count = std::min(size, size_ - at_);
    if (count != 0) std::memcpy(to, data_ + at_, count);
    at_ += count;
    return count;
  }
  size_t Write(const void * /* from */, size_t /* size */) final { return 0; }

 private:
  const char *data_;
  size_t size_, at_ = 0;
};

class BytesOutStream : public Stream {
 public:
  explicit BytesOutStream(std::string *bytes) : bytes_(bytes) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void * /* to */, size_t /* size */) final { return 0; }
  size_t Write(const void *from, size_t size) final {
    bytes_->append(static_cast<const char *>(from), size);
    return size;
  }

 private:
  std::string *bytes_;
};

}  // namespace tvm::support
