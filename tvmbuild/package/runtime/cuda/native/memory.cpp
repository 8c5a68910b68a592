#include "memory.h"

#include <string.h>

#include "failure.h"

namespace tvmbuild {
namespace {

constexpr size_t MAX_ADDRESSES = size_t{1} << 48;  // the driver searches for more than it can address for a second

bool explain_shortage(Device &device, CUresult result, size_t size, const char *of_what) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return check(device, result, "allocate memory");
  size_t wanted = (size + (1 << 20) - 1) >> 20, available = 0, total = 0;
  if (!read_memory(device, available, total)) return false;
  return fail("CUDA: out of memory on %s: asked for %zu MiB%s, %zu MiB are free of %zu MiB", device.name, wanted,
              of_what, available >> 20, total >> 20);
}

// Whether the driver gives the card the address of the CPU.
bool is_shared(const CudaFunctions &cu, CUdeviceptr address) {
  CUmemorytype type = CU_MEMORYTYPE_DEVICE;
  CUdeviceptr there = 0;
  return cu.PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address) == CUDA_SUCCESS &&
         type == CU_MEMORYTYPE_HOST &&
         cu.PointerGetAttribute(&there, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, address) == CUDA_SUCCESS &&
         there == address;
}

// Wait for all kernels, because any of them may use page-locked memory in place. The driver cannot wait for a card
// while a graph is captured on it, and the capture would be lost: then this waits for the thread's own stream.
void wait_for_kernels(Device &device) {
  if (pthread_rwlock_trywrlock(&device.captures) != 0) {
    device.cu->StreamSynchronize(current_stream(device));
    return;
  }
  device.cu->CtxSynchronize();
  pthread_rwlock_unlock(&device.captures);
}

}  // namespace

bool read_memory(Device &device, size_t &available, size_t &total) {
  return check(device, device.cu->MemGetInfo(&available, &total), "tell its free memory");
}

bool allocate(Device &device, size_t size, void **address) {
  CUdeviceptr pointer = 0;
  CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
  if (size <= MAX_ADDRESSES)  // TVM allocates tensors without elements
    result = device.cu->MemAlloc(&pointer, size != 0 ? size : 1);
  if (result != CUDA_SUCCESS) return explain_shortage(device, result, size, "");
  *address = reinterpret_cast<void *>(pointer);
  return true;
}

void release(Device &device, void *address) {
  if (address == nullptr) return;
  if (is_shared(device, address, 1))
    release_page_locked(device, address);
  else
    device.cu->MemFree(reinterpret_cast<CUdeviceptr>(address));  // waits for the card's work
}

bool allocate_page_locked(Device &device, size_t size, void **address) {
  CUresult result =
      device.cu->MemHostAlloc(address, size != 0 ? size : 1, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  return result == CUDA_SUCCESS || explain_shortage(device, result, size, " of page-locked memory");
}

void release_page_locked(Device &device, void *address) {
  if (address == nullptr) return;
  if (device.shares_memory) wait_for_kernels(device);
  device.cu->MemFreeHost(address);
}

bool is_shared(const Device &device, const void *address, size_t size) {
  CUdeviceptr first = reinterpret_cast<CUdeviceptr>(address);
  return device.shares_memory && size > 0 && is_shared(*device.cu, first) && is_shared(*device.cu, first + size - 1);
}

bool copy_to_device(Device &device, const void *from, CUdeviceptr to, size_t size) {
  if (size == 0) return true;
  void *place = reinterpret_cast<void *>(to);
  if (is_shared(device, place, size)) {
    // Kernels that were launched earlier may still read it.
    if (!check(device, device.cu->StreamSynchronize(current_stream(device)), "finish its work")) return false;
    if (place != from) memcpy(place, from, size);
    return true;
  }
  // The driver copies from pageable memory through buffers of its own, and returns when it has read all.
  return check(device, device.cu->MemcpyHtoDAsync(to, from, size, current_stream(device)), "copy to its memory");
}

bool copy_to_host(Device &device, CUdeviceptr from, void *to, size_t size) {
  if (size == 0) return true;
  CUstream stream = current_stream(device);
  const void *place = reinterpret_cast<const void *>(from);
  if (is_shared(device, place, size)) {
    if (!check(device, device.cu->StreamSynchronize(stream), "finish its work")) return false;
    if (place != to) memcpy(to, place, size);
    return true;
  }
  return check(device, device.cu->MemcpyDtoHAsync(to, from, size, stream), "copy from its memory") &&
         check(device, device.cu->StreamSynchronize(stream), "finish its work");
}

bool copy_within(Device &device, CUdeviceptr from, CUdeviceptr to, size_t size) {
  if (size == 0 || from == to) return true;
  return check(device, device.cu->MemcpyDtoDAsync(to, from, size, current_stream(device)), "copy in its memory");
}

bool copy_between(Device &source, CUdeviceptr from, Device &target, CUdeviceptr to, size_t size) {
  if (size == 0) return true;
  // The source's work so far must be done; then the copy runs in the order of the target's stream.
  return use_device(source.index) &&
         check(source, source.cu->StreamSynchronize(current_stream(source)), "finish its work") &&
         use_device(target.index) &&
         check(target,
               target.cu->MemcpyPeerAsync(to, target.context, from, source.context, size, current_stream(target)),
               "copy from another card") &&
         check(target, target.cu->StreamSynchronize(current_stream(target)), "finish its work");
}

}  // namespace tvmbuild
