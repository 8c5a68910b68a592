#include "ffi.h"

#include <stdlib.h>
#include <string.h>

#include "failure.h"
#include "name.h"

// ffi::Module::VisitContextSymbols(TypedFunction const&), which calls the function and throws if that fails.
extern "C" void tvm_visit_context_symbols(const TVMFFIObjectHandle *function) __asm__(
    "_ZN3tvm3ffi6Module19VisitContextSymbolsERKNS0_13TypedFunctionIFvNS0_6StringEPvEEE");

namespace tvmbuild {

int raise_failure() {
  // TVMFFIErrorSetRaisedFromCStr would look up a backtrace in the symbols of all libraries: a second beside PyTorch.
  const char *reason = failure();
  TVMFFIByteArray kind = {"RuntimeError", strlen("RuntimeError")}, message = {reason, strlen(reason)};
  TVMFFIByteArray backtrace = {"", 0};
  TVMFFIObjectHandle error = nullptr;
  if (TVMFFIErrorCreate(&kind, &message, &backtrace, &error) == 0) {
    TVMFFIErrorSetRaised(error);
    TVMFFIObjectDecRef(error);
  } else {
    TVMFFIErrorSetRaisedFromCStr("RuntimeError", reason);
  }
  return -1;
}

static int fail_again(void *, const TVMFFIAny *, int32_t, TVMFFIAny *) { return raise_failure(); }

void throw_failure() {
  static TVMFFIObjectHandle thrower;  // never released
  TVMFFIObjectHandle function = __atomic_load_n(&thrower, __ATOMIC_ACQUIRE);
  if (function == nullptr && TVMFFIFunctionCreate(nullptr, fail_again, nullptr, &function) == 0)
    __atomic_store_n(&thrower, function, __ATOMIC_RELEASE);
  if (function != nullptr) tvm_visit_context_symbols(&function);
  abort();  // it did not throw: this TVM differs from the one that register.cpp expects
}

TVMFFIAny none() { return TVMFFIAny(); }

TVMFFIAny make_int(int64_t value) {
  TVMFFIAny any = {};
  any.type_index = kTVMFFIInt;
  any.v_int64 = value;
  return any;
}

TVMFFIAny make_bool(bool value) {
  TVMFFIAny any = make_int(value);
  any.type_index = kTVMFFIBool;
  return any;
}

TVMFFIAny make_pointer(void *value) {
  TVMFFIAny any = {};
  any.type_index = kTVMFFIOpaquePtr;
  any.v_ptr = value;
  return any;
}

bool make_string(const char *text, size_t size, TVMFFIAny &value) {
  TVMFFIByteArray bytes = {text, size};
  return TVMFFIStringFromByteArray(&bytes, &value) == 0 || fail(TVMBUILD_TITLE ": TVM makes no string");
}

bool make_bytes(const void *data, size_t size, TVMFFIAny &value) {
  TVMFFIByteArray bytes = {static_cast<const char *>(data), size};
  return TVMFFIBytesFromByteArray(&bytes, &value) == 0 || fail(TVMBUILD_TITLE ": TVM makes no bytes");
}

const char *read_text(const TVMFFIAny &value, size_t &size) {
  TVMFFIByteArray bytes = {nullptr, 0};
  switch (value.type_index) {
    case kTVMFFISmallStr:
    case kTVMFFISmallBytes:
      bytes = TVMFFISmallBytesGetContentByteArray(&value);
      break;
    case kTVMFFIStr:
    case kTVMFFIBytes:
      bytes = *TVMFFIBytesGetByteArrayPtr(value.v_obj);
      break;
    case kTVMFFIByteArrayPtr:
      bytes = *static_cast<const TVMFFIByteArray *>(value.v_ptr);
      break;
    case kTVMFFIRawStr:
      bytes = {value.v_c_str, strlen(value.v_c_str)};
      break;
    default:
      break;
  }
  size = bytes.size;
  return bytes.data;
}

bool read_int(const TVMFFIAny &value, int64_t &number) {
  number = value.v_int64;
  return value.type_index == kTVMFFIInt || value.type_index == kTVMFFIBool;
}

size_t count_bytes(const DLTensor &tensor) {
  size_t size = (static_cast<size_t>(tensor.dtype.bits) * tensor.dtype.lanes + 7) / 8;
  for (int32_t axis = 0; axis < tensor.ndim; axis++) size *= static_cast<size_t>(tensor.shape[axis]);
  return size;
}

TVMFFIObjectHandle find_function(const char *name) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle found = nullptr;
  return TVMFFIFunctionGetGlobal(&text, &found) == 0 ? found : nullptr;
}

bool call_function(TVMFFIObjectHandle function, TVMFFIAny *arguments, int32_t count, TVMFFIAny &result) {
  result = none();
  return TVMFFIFunctionCall(function, arguments, count, &result) == 0 ||
         fail(TVMBUILD_TITLE ": a function of TVM's failed");
}

bool register_function(const char *name, TVMFFISafeCallType function) {
  TVMFFIByteArray text = {name, strlen(name)};
  TVMFFIObjectHandle handle = nullptr;
  bool is_done =
      TVMFFIFunctionCreate(nullptr, function, nullptr, &handle) == 0 && TVMFFIFunctionSetGlobal(&text, handle, 0) == 0;
  if (handle != nullptr) TVMFFIObjectDecRef(handle);
  return is_done || fail(TVMBUILD_TITLE ": the function %s is registered already", name);
}

bool check_version() {
  TVMFFIVersion version;
  TVMFFIGetVersion(&version);
  if (version.major == TVM_FFI_VERSION_MAJOR && version.minor == TVM_FFI_VERSION_MINOR &&
      version.patch == TVM_FFI_VERSION_PATCH)
    return true;
  return fail("tvm_ffi is of version %u.%u.%u; this library is made for %d.%d.%d", version.major, version.minor,
              version.patch, TVM_FFI_VERSION_MAJOR, TVM_FFI_VERSION_MINOR, TVM_FFI_VERSION_PATCH);
}

}  // namespace tvmbuild
