// Allocation and copies for TVM. The functions take the device's lock themselves.
#pragma once
#include "device.h"

namespace tvmbuild {

bool allocate(Device &device, size_t size, MemoryUse use, void **address);
void release(Device &device, void *address);

// Both have finished with the host's bytes when they return.
bool copy_to_device(Device &device, const void *from, uint64_t to, size_t size);
bool copy_to_host(Device &device, uint64_t from, void *to, size_t size);

// Copy straight from memory of the host that the device knows, whose bytes must stay until the copy is done. Other
// memory is copied as by `copy_to_device`.
bool copy_from_host(Device &device, const void *from, uint64_t to, size_t size);

struct HostCopy {
  uint64_t from;
  void *to;
  size_t size;  // not 0
};

// The same for several places: one submission and one wait for all of them, as far as staging memory has room.
bool copy_all_to_host(Device &device, const List<HostCopy> &copies);

// Begin to copy to the host, on a stream and after what this thread has launched. `synchronize` of the stream ends it.
bool begin_copies_to_host(Device &device, WorkQueue *stream, const List<HostCopy> &copies);

bool copy_within(Device &device, uint64_t from, uint64_t to, size_t size);
bool copy_between(Device &source, uint64_t from, Device &target, uint64_t to, size_t size);

// Wait for the work that this thread, or its stream, launched.
bool synchronize(Device &device, WorkQueue *stream);

}  // namespace tvmbuild
