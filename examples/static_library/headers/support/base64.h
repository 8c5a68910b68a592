// Streams of base64, by which the runtime writes an array as JSON.
#pragma once

#include <tvm/ffi/extra/base64.h>

#include <string>

#include "bytes_io.h"

namespace tvm::support {

class Base64OutStream : public Stream {
 public:
  explicit Base64OutStream(Stream *to) : to_(to), collect_(&bytes_) {}
  using Stream::Read;
  using Stream::Write;
  size_t Read(void * /* to */, size_t /* size */) final { return 0; }
  size_t Write(const void *from, size_t size) final { return collect_.Write(from, size); }
  void Finish() {
    ffi::String text = ffi::Base64Encode(ffi::Bytes(bytes_));
    to_->Write(text.data(), text.size());
  }

 private:
  Stream *to_;
  std::string bytes_;
  BytesOutStream collect_;
};

class Base64InStream : public Stream {
 public:
  explicit Base64InStream(Stream *from) : from_(from) {}
  using Stream::Read;
  using Stream::Write;
  void InitPosition() {
    std::string text;
    char part[1024];
    for (size_t count = 0; (count = from_->Read(part, sizeof(part))) != 0;) text.append(part, count);
    ffi::Bytes bytes = ffi::Base64Decode(ffi::String(text));
    bytes_.assign(bytes.data(), bytes.size());
  }
  size_t Read(void *to, size_t size) final {
    size_t count = std::min(size, bytes_.size() - at_);
    std::memcpy(to, bytes_.data() + at_, count);
    at_ += count;
    return count;
  }
  size_t Write(const void * /* from */, size_t /* size */) final { return 0; }

 private:
  Stream *from_;
  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace tvm::support
