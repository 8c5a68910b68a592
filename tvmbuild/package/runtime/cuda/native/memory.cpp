#include "memory.h"

#include "failure.h"
#include "lock.h"

namespace tvmbuild {
namespace {

constexpr size_t SMALL = 64 << 10;                 // up to here the driver copies at once
constexpr size_t MAX_ADDRESSES = size_t{1} << 48;  // the driver searches for more than it can address for a second
constexpr size_t MIN_HALF = 256 << 10, MAX_HALF = 4 << 20;

bool is_page_locked(const Device &device, const void *address) {
  unsigned type = 0;
  CUresult result =
      device.cu->PointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, reinterpret_cast<CUdeviceptr>(address));
  return result == CUDA_SUCCESS && type == CU_MEMORYTYPE_HOST;
}

bool explain_shortage(Device &device, CUresult result, size_t size, const char *of_what) {
  if (result != CUDA_ERROR_OUT_OF_MEMORY) return check(device, result, "allocate memory");
  size_t wanted = (size + (1 << 20) - 1) >> 20, available = 0, total = 0;
  if (!read_memory(device, available, total)) return false;
  return fail("CUDA: out of memory on %s: asked for %zu MiB%s, %zu MiB are free of %zu MiB", device.name, wanted,
              of_what, available >> 20, total >> 20);
}

// Page-locked memory for copies. It grows to twice the size of the largest copy. The staging lock is held.
bool prepare_staging(Device &device, size_t size) {
  Staging &staging = device.staging;
  size_t wanted = MIN_HALF;
  while (wanted < size && wanted < MAX_HALF) wanted *= 2;
  if (staging.half >= wanted) return true;
  const CudaFunctions &cu = *device.cu;
  for (CUevent &event : staging.done) {
    CUresult result = event != nullptr ? cu.EventSynchronize(event) : cu.EventCreate(&event, CU_EVENT_DISABLE_TIMING);
    if (result != CUDA_SUCCESS) return check(device, result, "wait for copies");
  }
  void *memory = nullptr;
  CUresult result = cu.MemHostAlloc(&memory, 2 * wanted, CU_MEMHOSTALLOC_PORTABLE);
  if (result != CUDA_SUCCESS) return explain_shortage(device, result, 2 * wanted, " of page-locked memory for copies");
  if (staging.memory != nullptr) cu.MemFreeHost(staging.memory);
  staging.memory = static_cast<char *>(memory);
  staging.half = wanted;
  return true;
}

bool upload(Device &device, const char *from, CUdeviceptr to, size_t size, CUstream stream) {
  Lock lock(device.staging_lock);
  if (!prepare_staging(device, size)) return false;
  const CudaFunctions &cu = *device.cu;
  Staging &staging = device.staging;
  int half = 0;
  for (size_t done = 0; done < size; done += staging.half, half ^= 1) {
    size_t part = size - done < staging.half ? size - done : staging.half;
    char *place = staging.memory + half * staging.half;
    if (!check(device, cu.EventSynchronize(staging.done[half]), "wait for a copy")) return false;
    memcpy(place, from + done, part);
    if (!check(device, cu.MemcpyHtoDAsync(to + done, place, part, stream), "copy to its memory") ||
        !check(device, cu.EventRecord(staging.done[half], stream), "record a copy"))
      return false;
  }
  return true;
}

bool download(Device &device, CUdeviceptr from, char *to, size_t size, CUstream stream) {
  Lock lock(device.staging_lock);
  if (!prepare_staging(device, size)) return false;
  const CudaFunctions &cu = *device.cu;
  Staging &staging = device.staging;
  auto begin = [&](size_t start, int half) {
    size_t part = size - start < staging.half ? size - start : staging.half;
    return check(device, cu.MemcpyDtoHAsync(staging.memory + half * staging.half, from + start, part, stream),
                 "copy from its memory") &&
           check(device, cu.EventRecord(staging.done[half], stream), "record a copy");
  };
  for (CUevent event : staging.done)
    if (!check(device, cu.EventSynchronize(event), "wait for a copy")) return false;
  if (!begin(0, 0)) return false;
  int half = 0;
  for (size_t done = 0; done < size; done += staging.half, half ^= 1) {
    size_t next = done + staging.half;
    if (next < size && !begin(next, half ^ 1)) return false;
    if (!check(device, cu.EventSynchronize(staging.done[half]), "finish its work")) return false;
    memcpy(to + done, staging.memory + half * staging.half, size - done < staging.half ? size - done : staging.half);
  }
  return true;
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
  CUstream stream = current_stream(device);
  if (size > SMALL && !is_page_locked(device, from))
    return upload(device, static_cast<const char *>(from), to, size, stream);
  return check(device, device.cu->MemcpyHtoDAsync(to, from, size, stream), "copy to its memory");
}

bool copy_to_host(Device &device, CUdeviceptr from, void *to, size_t size) {
  if (size == 0) return true;
  CUstream stream = current_stream(device);
  if (size > SMALL && !is_page_locked(device, to)) return download(device, from, static_cast<char *>(to), size, stream);
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
