// The copies of a call on a stream of their own: the host copies for one call while the device computes another.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// tvmbuild_vulkan.copy_in(stream, from, to, …): copy tensors of the host to tensors of the device on a stream. Kernels
// that are launched later run after it. The host's bytes may change when this returns.
int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// tvmbuild_vulkan.copy_out(stream, from, to, …): after the kernels that this thread has launched, copy tensors of the
// device to the host's memory (tensors or addresses). This does not wait: the bytes are there when the stream is
// synchronized. Calls whose inputs and outputs exceed 16 MiB of staging memory wait for each other.
int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

}  // namespace tvmbuild
