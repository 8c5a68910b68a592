// TVM's C interface, as far as it is needed: functions, values, errors.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// A failed call of ours as TVM's error; -1, what a function of the C interface returns then.
int raise_failure();

// For methods that TVM calls through a vtable. An exception of our own would meet the other C++ library of the process,
// so libtvm_ffi is made to throw one of its own through this frame. Nothing may be held that a destructor lets go of.
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

TVMFFIObjectHandle find_function(const char *name);  // a reference of the caller's own, or null
bool call_function(TVMFFIObjectHandle function, TVMFFIAny *arguments, int32_t count, TVMFFIAny &result);
bool register_function(const char *name, TVMFFISafeCallType function);

}  // namespace tvmbuild
