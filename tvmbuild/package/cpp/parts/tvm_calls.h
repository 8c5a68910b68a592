// TVM's C interface: values, and calls of the functions that its libraries register. A part of tvmbuild.cpp.
#pragma once

#include <tvm/ffi/c_api.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "../tvmbuild.hpp"

namespace tvmbuild::detail {

// A value that TVM returned. The destructor releases it.
class Value {
 public:
  Value() {
    std::memset(&any_, 0, sizeof(any_));
    any_.type_index = kTVMFFINone;
  }
  explicit Value(TVMFFIObjectHandle object, int32_t type) : Value() {
    any_.type_index = type;
    any_.v_obj = static_cast<TVMFFIObject *>(object);
  }
  Value(Value &&other) noexcept : Value() { std::swap(any_, other.any_); }
  Value &operator=(Value &&other) noexcept {
    std::swap(any_, other.any_);
    return *this;
  }
  ~Value() {
    if (any_.type_index >= kTVMFFIStaticObjectBegin) TVMFFIObjectDecRef(any_.v_obj);
  }
  // Add a reference.
  static Value retain(TVMFFIObjectHandle object, int32_t type) {
    TVMFFIObjectIncRef(object);
    return Value(object, type);
  }
  // Hand the reference to the caller, who releases it.
  TVMFFIObjectHandle release() {
    TVMFFIObjectHandle object = any_.v_obj;
    any_.type_index = kTVMFFINone;
    return object;
  }
  TVMFFIAny *any() { return &any_; }
  const TVMFFIAny &view() const { return any_; }
  int32_t type() const { return any_.type_index; }
  TVMFFIObjectHandle object() const { return any_.v_obj; }

  std::string text() const {
    if (any_.type_index == kTVMFFISmallStr) return std::string(any_.v_bytes, any_.small_str_len);
    if (any_.type_index != kTVMFFIStr) return "";
    const TVMFFIByteArray *bytes = TVMFFIBytesGetByteArrayPtr(any_.v_obj);
    return std::string(bytes->data, bytes->size);
  }

 private:
  TVMFFIAny any_;
};

inline TVMFFIAny argument(int32_t type) {
  Value none;
  TVMFFIAny any = none.view();
  any.type_index = type;
  return any;
}
inline TVMFFIAny argument_of(int64_t value, int32_t type = kTVMFFIInt) {
  TVMFFIAny any = argument(type);
  any.v_int64 = value;
  return any;
}
inline TVMFFIAny argument_of(DLDevice device) {
  TVMFFIAny any = argument(kTVMFFIDevice);
  any.v_device = device;
  return any;
}
inline TVMFFIAny argument_of(DLDataType dtype) {
  TVMFFIAny any = argument(kTVMFFIDataType);
  any.v_dtype = dtype;
  return any;
}
inline TVMFFIAny argument_of(void *memory) {
  TVMFFIAny any = argument(kTVMFFIOpaquePtr);
  any.v_ptr = memory;
  return any;
}
inline TVMFFIAny argument_of(const char *text) {
  TVMFFIAny any = argument(kTVMFFIRawStr);
  any.v_c_str = text;
  return any;
}

// The first line of the error that a function of TVM has just set.
inline std::string take_raised() {
  TVMFFIObjectHandle error = nullptr;
  TVMFFIErrorMoveFromRaised(&error);
  if (error == nullptr) return "unknown error";
  const TVMFFIByteArray &message = TVMFFIErrorGetCellPtr(error)->message;
  std::string reason(message.data, message.size);
  TVMFFIObjectDecRef(error);
  return reason.substr(0, reason.find('\n'));
}

[[noreturn]] inline void throw_raised(const std::string &what) { throw Error(what + ": " + take_raised()); }

inline Value invoke(const Value &function, TVMFFIAny *arguments, size_t count, const std::string &what) {
  Value result;
  if (TVMFFIFunctionCall(function.object(), arguments, static_cast<int32_t>(count), result.any()) != 0)
    throw_raised(what);
  return result;
}

inline Value invoke(const Value &function, std::vector<TVMFFIAny> arguments, const std::string &what) {
  return invoke(function, arguments.data(), arguments.size(), what);
}

// Find a function. None: it does not exist.
inline Value look_up(const std::string &name) {
  TVMFFIByteArray bytes{name.data(), name.size()};
  TVMFFIObjectHandle found = nullptr;
  if (TVMFFIFunctionGetGlobal(&bytes, &found) != 0) throw_raised("looking for " + name);
  return found == nullptr ? Value() : Value(found, kTVMFFIFunction);
}

inline Value find_global(const std::string &name) {
  Value found = look_up(name);
  if (found.type() != kTVMFFIFunction) throw Error("this TVM runtime has no function " + name);
  return found;
}

inline Value find_function(const Value &module, const std::string &name) {
  Value found = invoke(find_global("ffi.ModuleGetFunction"),
                       {module.view(), argument_of(name.c_str()), argument_of(int64_t{0}, kTVMFFIBool)}, name);
  if (found.type() != kTVMFFIFunction) throw Error("mod.so has no function " + name);
  return found;
}

}  // namespace tvmbuild::detail
