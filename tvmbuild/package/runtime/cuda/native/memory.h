// Allocation and copies for TVM, in the order of this thread's stream.
#pragma once
#include <tvm/ffi/c_api.h>

#include "device.h"

namespace tvmbuild {

bool allocate(Device &device, size_t size, void **address);
void release(Device &device, void *address);
// Page-locked memory of the CPU, which the card copies from and to by itself.
bool allocate_page_locked(Device &device, size_t size, void **address);
void release_page_locked(Device &device, void *address);
// Whether the memory of an address is page-locked memory that this card's kernels use in place.
bool is_shared(const Device &device, const void *address, size_t size);

// The host's bytes may change when this returns, unless they are page-locked.
bool copy_to_device(Device &device, const void *from, CUdeviceptr to, size_t size);
// The bytes are there when this returns.
bool copy_to_host(Device &device, CUdeviceptr from, void *to, size_t size);
bool copy_within(Device &device, CUdeviceptr from, CUdeviceptr to, size_t size);
bool copy_between(Device &source, CUdeviceptr from, Device &target, CUdeviceptr to, size_t size);

bool read_memory(Device &device, size_t &available, size_t &total);

}  // namespace tvmbuild
