// Memory of the host that the device copies from by itself, so that inputs of calls in flight need no staging memory.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// tvmbuild_vulkan.allocate_host(device, tensor): an uninitialised tensor of the CPU with the tensor's shape and dtype.
int allocate_host(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

}  // namespace tvmbuild
