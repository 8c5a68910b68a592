// The needed part of TVM's C interface: functions, values, errors.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// Whether tvm_ffi is of the version that this library is made for. False with the failure set.
bool check_version();

// Set a failed call of ours as TVM's error. Returns -1, the failure code of functions of the C interface.
int raise_failure();

// For methods that TVM calls through a vtable. An exception of our own would meet the other C++ library of the process,
// so libtvm_ffi is made to throw one of its own through this frame. The caller must hold nothing that a destructor
// would release.
[[noreturn]] void throw_failure();

TVMFFIAny none();
TVMFFIAny make_int(int64_t value);
TVMFFIAny make_bool(bool value);
TVMFFIAny make_pointer(void *value);
bool make_string(const char *text, size_t size, TVMFFIAny &value);
bool make_bytes(const void *bytes, size_t size, TVMFFIAny &value);

// The characters of a string or of bytes; null for anything else.
const char *read_text(const TVMFFIAny &value, size_t &size);
bool read_int(const TVMFFIAny &value, int64_t &number);
size_t count_bytes(const DLTensor &tensor);

TVMFFIObjectHandle find_function(const char *name);  // returns a new reference, or null
bool call_function(TVMFFIObjectHandle function, TVMFFIAny *arguments, int32_t count, TVMFFIAny &result);
bool register_function(const char *name, TVMFFISafeCallType function);

}  // namespace tvmbuild
