// The exported functions of this library: for plugin.py and, registered through them, for TVM.
#include "copies.h"
#include "failure.h"
#include "ffi.h"
#include "host_memory.h"
#include "lane_copies.h"
#include "pipeline_cache.h"
#include "profile.h"
#include "registration.h"

#define TVMBUILD_EXPORT extern "C" __attribute__((visibility("default")))

namespace tvmbuild {
namespace {

// Arguments: pairs of a tensor and the host address that gets its bytes.
int copy_tensors(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  List<HostCopy> copies;
  Device *device = nullptr;
  for (int32_t index = 0; index + 1 < count; index += 2) {
    if (arguments[index].type_index != kTVMFFITensor || arguments[index + 1].type_index != kTVMFFIOpaquePtr)
      return fail("Vulkan: tensors and addresses are what can be copied"), raise_failure();
    const DLTensor *tensor = TVMFFITensorGetDLTensorPtr(arguments[index].v_obj);
    Device *used = tensor->device.device_type == kDLVulkan ? use_device(tensor->device.device_id) : nullptr;
    if (tensor->device.device_type != kDLVulkan || (device != nullptr && used != device))
      return fail("Vulkan: only tensors of one device are copied together"), raise_failure();
    if (used == nullptr) return raise_failure();
    device = used;
    size_t size = count_bytes(*tensor);
    uint64_t address = reinterpret_cast<uint64_t>(tensor->data) + tensor->byte_offset;
    if (size > 0) copies.add({address, arguments[index + 1].v_ptr, size});
  }
  return device == nullptr || copy_all_to_host(*device, copies) ? 0 : raise_failure();
}

Device *profiled_device(const TVMFFIAny *arguments, int32_t count) {
  int64_t index = 0;
  if (count > 0 && !read_int(arguments[0], index)) index = -1;
  return use_device(static_cast<int>(index));
}

int begin_profile(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  *result = none();
  Device *device = profiled_device(arguments, count);
  return device != nullptr && start_profile(*device) ? 0 : raise_failure();
}

int count_profile(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  Device *device = profiled_device(arguments, count);
  if (device == nullptr) return raise_failure();
  *result = make_int(count_profiled(*device));
  return 0;
}

int end_profile(void *, const TVMFFIAny *arguments, int32_t count, TVMFFIAny *result) {
  Device *device = profiled_device(arguments, count);
  Text json;
  return device != nullptr && stop_profile(*device, json) && make_string(json.data(), json.size(), *result)
             ? 0
             : raise_failure();
}

}  // namespace
}  // namespace tvmbuild

// Register the kind "vulkan" with TVM. -1 if the library was made for another TVM, or if this TVM has the kind already.
TVMBUILD_EXPORT int tvmbuild_vulkan_register() {
  using namespace tvmbuild;
  bool is_done = register_runtime() && register_function("tvmbuild_vulkan.copy_to_host", copy_tensors) &&
                 register_function("tvmbuild_vulkan.allocate_host", allocate_host) &&
                 register_function("tvmbuild_vulkan.copy_in", copy_in) &&
                 register_function("tvmbuild_vulkan.copy_out", copy_out) &&
                 register_function("tvmbuild_vulkan.profile_start", begin_profile) &&
                 register_function("tvmbuild_vulkan.profile_count", count_profile) &&
                 register_function("tvmbuild_vulkan.profile_stop", end_profile);
  return is_done ? 0 : -1;
}

// The reason why the last call in this thread failed.
TVMBUILD_EXPORT const char *tvmbuild_vulkan_failure() { return tvmbuild::failure(); }

// Set the folder that keeps compiled kernels between processes.
TVMBUILD_EXPORT void tvmbuild_vulkan_set_folder(const char *folder) { tvmbuild::set_pipeline_folder(folder); }
