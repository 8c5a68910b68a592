// The copies of a call on a stream of their own, so that they run beside the kernels of other calls.
#pragma once
#include <tvm/ffi/c_api.h>

namespace tvmbuild {

// tvmbuild_cuda.copy_in(stream, from, to, …): copy tensors of the host to tensors of a card on a stream, and let the
// kernels that this thread launches next wait for it. Page-locked memory must not change until then.
int copy_in(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

// tvmbuild_cuda.copy_out(stream, from, to, …): copy tensors of a card to tensors in page-locked memory on a stream,
// after the kernels that this thread has launched. This does not wait.
int copy_out(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result);

}  // namespace tvmbuild
