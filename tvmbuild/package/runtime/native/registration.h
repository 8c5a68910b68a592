#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// Check this TVM, and register the functions that every runtime has. False with the failure set.
bool register_runtime();

// The function that gives TVM the DeviceAPI, for one more kind.
int give_api(void *, const TVMFFIAny *, int32_t, TVMFFIAny *result);

}  // namespace tvmbuild
