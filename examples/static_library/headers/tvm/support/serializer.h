// The form of values in a stream: numbers in little-endian order, and lengths of 64 bits before texts and lists.
#pragma once

#include <dlpack/dlpack.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/endian.h>
#include <tvm/ffi/string.h>
#include <tvm/support/io.h>

#include <string>
#include <type_traits>
#include <vector>

static_assert(TVM_FFI_IO_NO_ENDIAN_SWAP, "only little-endian machines are known");

namespace tvm::support {

template <typename T>
struct Serializer<T, std::enable_if_t<std::is_arithmetic_v<T> || std::is_enum_v<T>>> {
  static void Write(Stream *stream, const T &value) { stream->Write(&value, sizeof(T)); }
  static bool Read(Stream *stream, T *value) { return stream->Read(value, sizeof(T)) == sizeof(T); }
};

template <>
struct Serializer<DLDataType> {
  static void Write(Stream *stream, const DLDataType &value) {
    stream->Write(value.code);
    stream->Write(value.bits);
    stream->Write(value.lanes);
  }
  static bool Read(Stream *stream, DLDataType *value) {
    return stream->Read(&value->code) && stream->Read(&value->bits) && stream->Read(&value->lanes);
  }
};

template <>
struct Serializer<DLDevice> {
  static void Write(Stream *stream, const DLDevice &value) {
    stream->Write(static_cast<int32_t>(value.device_type));
    stream->Write(value.device_id);
  }
  static bool Read(Stream *stream, DLDevice *value) {
    int32_t type = 0;
    if (!stream->Read(&type) || !stream->Read(&value->device_id)) return false;
    value->device_type = static_cast<DLDeviceType>(type);
    return true;
  }
};

template <>
struct Serializer<std::string> {
  static void Write(Stream *stream, const std::string &value) {
    stream->Write(static_cast<uint64_t>(value.size()));
    stream->Write(value.data(), value.size());
  }
  static bool Read(Stream *stream, std::string *value) {
    uint64_t size = 0;
    if (!stream->Read(&size)) return false;
    value->resize(size);
    return size == 0 || stream->Read(value->data(), size) == size;
  }
};

template <>
struct Serializer<ffi::String> {
  static void Write(Stream *stream, const ffi::String &value) { stream->Write(std::string(value)); }
  static bool Read(Stream *stream, ffi::String *value) {
    std::string text;
    if (!stream->Read(&text)) return false;
    *value = ffi::String(text);
    return true;
  }
};

template <typename T>
struct Serializer<std::vector<T>> {
  static void Write(Stream *stream, const std::vector<T> &values) {
    stream->Write(static_cast<uint64_t>(values.size()));
    stream->WriteArray(values.data(), values.size());
  }
  static bool Read(Stream *stream, std::vector<T> *values) {
    uint64_t count = 0;
    if (!stream->Read(&count)) return false;
    values->resize(count);
    return stream->ReadArray(values->data(), count);
  }
};

template <typename T>
struct Serializer<ffi::Array<T>> {
  static void Write(Stream *stream, const ffi::Array<T> &values) {
    stream->Write(static_cast<uint64_t>(values.size()));
    for (const T &each : values) stream->Write(each);
  }
  static bool Read(Stream *stream, ffi::Array<T> *values) {
    uint64_t count = 0;
    if (!stream->Read(&count)) return false;
    ffi::Array<T> read;
    for (uint64_t i = 0; i < count; i++) {
      T value;
      if (!stream->Read(&value)) return false;
      read.push_back(value);
    }
    *values = read;
    return true;
  }
};

}  // namespace tvm::support
