#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// Make a module of kind "vulkan" from its bytes, as TVM's value. False with the failure set.
bool make_module(const void *bytes, size_t size, TVMFFIAny &result);

// Find the functions of TVM that its members need. Call it once, before the first module.
bool prepare_modules();

}  // namespace tvmbuild
