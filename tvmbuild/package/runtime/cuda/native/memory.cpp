#include "memory.h"

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
  if (address != nullptr) device.cu->MemFree(reinterpret_cast<CUdeviceptr>(address));  // waits for the card's work
}

bool allocate_page_locked(Device &device, size_t size, void **address) {
  CUresult result = device.cu->MemHostAlloc(address, size != 0 ? size : 1, CU_MEMHOSTALLOC_PORTABLE);
  return result == CUDA_SUCCESS || explain_shortage(device, result, size, " of page-locked memory");
}

void release_page_locked(Device &device, void *address) {
  if (address != nullptr) device.cu->MemFreeHost(address);
}

bool copy_to_device(Device &device, const void *from, CUdeviceptr to, size_t size) {
  if (size == 0) return true;
  // The driver copies from pageable memory through buffers of its own, and returns when it has read all.
  return check(device, device.cu->MemcpyHtoDAsync(to, from, size, current_stream(device)), "copy to its memory");
}

bool copy_to_host(Device &device, CUdeviceptr from, void *to, size_t size) {
  if (size == 0) return true;
  CUstream stream = current_stream(device);
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
  return use_device(source.index) != nullptr &&
         check(source, source.cu->StreamSynchronize(current_stream(source)), "finish its work") &&
         use_device(target.index) != nullptr &&
         check(target,
               target.cu->MemcpyPeerAsync(to, target.context, from, source.context, size, current_stream(target)),
               "copy from another card") &&
         check(target, target.cu->StreamSynchronize(current_stream(target)), "finish its work");
}

}  // namespace tvmbuild
