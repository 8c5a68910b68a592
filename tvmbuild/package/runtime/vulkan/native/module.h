#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// Make a module of kind "vulkan" from its bytes, as TVM's value. False with the failure set.
bool make_module(const void *bytes, size_t size, TVMFFIAny &result);

}  // namespace tvmbuild
