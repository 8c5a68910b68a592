#include <stdio.h>
#include <string.h>

#include "device.h"
#include "device_attributes.h"
#include "failure.h"
#include "ffi.h"
#include "memory.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

struct Number {
  int kind;
  const char *property;  // the target's attribute, or null
  CUdevice_attribute attribute;
};

constexpr Number NUMBERS[] = {
    {MAX_THREADS_PER_BLOCK, "max_threads_per_block", CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK},
    {WARP_SIZE, "thread_warp_size", CU_DEVICE_ATTRIBUTE_WARP_SIZE},
    {MAX_SHARED_MEMORY_PER_BLOCK, "max_shared_memory_per_block", CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK},
    {MAX_CLOCK_RATE, nullptr, CU_DEVICE_ATTRIBUTE_CLOCK_RATE},
    {MULTI_PROCESSOR_COUNT, nullptr, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
    {MAX_REGISTERS_PER_BLOCK, "registers_per_block", CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK},
    {L2_CACHE_SIZE_BYTES, "l2_cache_size_bytes", CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE},
};

// Attributes are read without a context: asking whether there is a card must not take memory on it.
bool find_device(const CudaLibrary &library, int index, CUdevice &device) {
  return index >= 0 && index < library.devices && library.cu.DeviceGet(&device, index) == CUDA_SUCCESS;
}

int read(const CudaLibrary &library, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  library.cu.DeviceGetAttribute(&value, attribute, device);
  return value;
}

bool make_text(TVMFFIAny &result, const char *format, int first, int second, int third = 0) {
  char text[64];
  snprintf(text, sizeof(text), format, first, second, third);
  return make_string(text, strlen(text), result);
}

bool read_version(const CudaLibrary &library, CUdevice device, const char *format, TVMFFIAny &result) {
  return make_text(result, format, read(library, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
                   read(library, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
}

bool read_memory_size(const CudaLibrary &library, int index, CUdevice handle, bool is_total, TVMFFIAny &result) {
  size_t available = 0, total = 0;
  if (is_total) {
    library.cu.DeviceTotalMem(&total, handle);
  } else {
    UsedDevice device = use_device(index);
    if (!device || !read_memory(*device, available, total)) return false;
  }
  result = make_int(static_cast<int64_t>(is_total ? total : available));
  return true;
}

}  // namespace

bool read_attribute(int index, int kind, TVMFFIAny &result) {
  const CudaLibrary *library = open_cuda();
  CUdevice device = 0;
  bool exists = library != nullptr && find_device(*library, index, device);
  if (kind == EXISTS) {
    result = make_int(exists);
    return true;
  }
  if (library == nullptr) return false;
  if (!exists) return fail("CUDA: there is no device %d; the driver shows %d", index, library->devices);
  for (const Number &number : NUMBERS)
    if (number.kind == kind) {
      result = make_int(read(*library, device, number.attribute));
      return true;
    }
  char name[256] = {};
  switch (kind) {
    case COMPUTE_VERSION:
      return read_version(*library, device, "%d.%d", result);
    case DEVICE_NAME:
      library->cu.DeviceGetName(name, sizeof(name) - 1, device);
      return make_string(name, strlen(name), result);
    case MAX_THREAD_DIMENSIONS:
      return make_text(result, "[%d, %d, %d]", read(*library, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                       read(*library, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                       read(*library, device, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z));
    case API_VERSION:
    case DRIVER_VERSION:
      result = make_int(library->version);
      return true;
    case TOTAL_GLOBAL_MEMORY:
    case AVAILABLE_GLOBAL_MEMORY:
      return read_memory_size(*library, index, device, kind == TOTAL_GLOBAL_MEMORY, result);
    default:
      return true;  // no value, as other backends answer
  }
}

bool read_target_property(int index, const char *name, size_t size, TVMFFIAny &result) {
  const CudaLibrary *library = open_cuda();
  CUdevice device = 0;
  if (library == nullptr) return false;
  if (!find_device(*library, index, device))
    return fail("CUDA: there is no device %d; the driver shows %d", index, library->devices);
  for (const Number &number : NUMBERS)
    if (number.property != nullptr && strlen(number.property) == size && memcmp(number.property, name, size) == 0) {
      result = make_int(read(*library, device, number.attribute));
      return true;
    }
  bool is_arch = size == 4 && memcmp(name, "arch", size) == 0;
  return !is_arch || read_version(*library, device, "sm_%d%d", result);
}

bool describe_devices(Text &json) {
  const CudaLibrary *library = open_cuda();
  if (library == nullptr) return false;
  json.add("{\"driver\": \"%s\", \"devices\": [", describe_version(library->version));
  for (int index = 0; index < library->devices; index++) {
    CUdevice device = 0;
    char name[256] = {};
    if (!find_device(*library, index, device)) return fail("CUDA: the driver does not find its device %d", index);
    library->cu.DeviceGetName(name, sizeof(name) - 1, device);
    json.add("%s{\"name\": ", index == 0 ? "" : ", ");
    json.add_string(name);
    json.add(", \"arch\": \"sm_%d%d\", \"integrated\": %s}",
             read(*library, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
             read(*library, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
             read(*library, device, CU_DEVICE_ATTRIBUTE_INTEGRATED) != 0 ? "true" : "false");
  }
  json.add("]}");
  return true;
}

}  // namespace tvmbuild
