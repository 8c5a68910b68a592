#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// A module of kind "vulkan" from its bytes, as TVM's value; false with the failure set.
bool make_module(const void *bytes, size_t size, TVMFFIAny &result);

// What its members need of TVM; once, before the first module.
bool prepare_modules();

}  // namespace tvmbuild
