#include <stdio.h>
#include <string.h>

#include "device.h"
#include "device_attributes.h"
#include "device_info.h"
#include "failure.h"
#include "ffi.h"
#include "runtime.h"

namespace tvmbuild {
namespace {

constexpr int SPIRV_1_3 = 0x10300;

bool make_memory(const DeviceInfo &info, bool is_total, TVMFFIAny &result) {
  const VulkanLibrary *library = open_vulkan();
  VkDeviceSize total = 0, available = 0;
  if (library == nullptr) return false;
  read_memory(*library, info, total, available);
  result = make_int(static_cast<int64_t>(is_total ? total : available));
  return true;
}

const char *driver_name(const DeviceInfo &info) {
  return info.driver.driverName[0] != 0 ? info.driver.driverName : "unknown";
}

struct Property {
  const char *name;
  TVMFFIAny value;
};

bool find_property(const DeviceInfo &info, const char *name, TVMFFIAny &result) {
  const VkPhysicalDeviceLimits &limits = info.limits();
  auto has = [&info](uint32_t feature) { return make_bool((info.features & feature) != 0); };
  const Property properties[] = {
      {"supports_float16", has(FLOAT16)},
      {"supports_float32", make_bool(true)},
      {"supports_float64", has(FLOAT64)},
      {"supports_int8", has(INT8)},
      {"supports_int16", has(INT16)},
      {"supports_int32", make_bool(true)},
      {"supports_int64", has(INT64)},
      {"supports_8bit_buffer", has(STORAGE_8BIT)},
      {"supports_16bit_buffer", has(STORAGE_16BIT)},
      {"supports_storage_buffer_storage_class", make_bool(true)},
      {"supports_push_descriptor", make_bool(info.push_descriptors > 0)},
      {"supports_dedicated_allocation", make_bool(true)},
      {"supports_integer_dot_product", make_bool((info.features & DOT_PRODUCT) != 0 && info.has_fast_dot)},
      {"supports_cooperative_matrix", make_bool(false)},
      {"supported_subgroup_operations", make_int(0)},  // none is generated
      {"max_num_threads", make_int(limits.maxComputeWorkGroupInvocations)},
      {"max_threads_per_block", make_int(limits.maxComputeWorkGroupInvocations)},
      {"thread_warp_size", make_int(1)},
      {"max_block_size_x", make_int(limits.maxComputeWorkGroupSize[0])},
      {"max_block_size_y", make_int(limits.maxComputeWorkGroupSize[1])},
      {"max_block_size_z", make_int(limits.maxComputeWorkGroupSize[2])},
      {"max_push_constants_size", make_int(limits.maxPushConstantsSize)},
      {"max_uniform_buffer_range", make_int(limits.maxUniformBufferRange)},
      {"max_storage_buffer_range", make_int(limits.maxStorageBufferRange)},
      {"max_per_stage_descriptor_storage_buffer", make_int(limits.maxPerStageDescriptorStorageBuffers)},
      {"max_shared_memory_per_block", make_int(limits.maxComputeSharedMemorySize)},
      {"driver_version", make_int(info.properties.driverVersion)},
      {"vulkan_api_version", make_int(info.properties.apiVersion)},
      {"max_spirv_version", make_int(SPIRV_1_3)},
  };
  for (const Property &each : properties)
    if (strcmp(each.name, name) == 0) {
      result = each.value;
      return true;
    }
  const char *text = strcmp(name, "device_name") == 0   ? info.name()
                     : strcmp(name, "device_type") == 0 ? info.type()
                     : strcmp(name, "driver_name") == 0 ? driver_name(info)
                                                        : nullptr;
  return text == nullptr || make_string(text, strlen(text), result);
}

void describe(const DeviceInfo &info, Text &json) {
  const VkPhysicalDeviceLimits &limits = info.limits();
  uint32_t api = info.properties.apiVersion;
  json.add("{\"name\": ");
  json.add_string(info.name());
  json.add(", \"type\": \"%s\", \"api\": \"%u.%u.%u\", \"driver\": ", info.type(), version_major(api),
           version_minor(api), version_patch(api));
  json.add_string(driver_name(info));
  json.add(", \"driver_info\": ");
  json.add_string(info.driver.driverInfo);
  json.add(", \"driver_version\": %u, \"unified_memory\": %s, \"push_descriptors\": %u, \"timestamps\": %s",
           info.properties.driverVersion, info.is_unified ? "true" : "false", info.push_descriptors,
           info.timestamp_mask != 0 ? "true" : "false");
  json.add(", \"limits\": {\"max_threads_per_block\": %u, \"max_shared_memory_per_block\": %u",
           limits.maxComputeWorkGroupInvocations, limits.maxComputeSharedMemorySize);
  json.add(
      ", \"max_storage_buffer_range\": %u, \"min_storage_buffer_offset_alignment\": %llu, \"max_allocations\": %u}",
      limits.maxStorageBufferRange, static_cast<unsigned long long>(limits.minStorageBufferOffsetAlignment),
      limits.maxMemoryAllocationCount);
  json.add(", \"features\": [");
  const char *comma = "";
  for (uint32_t feature = 0; feature < FEATURES; feature++) {
    if (!(info.features >> feature & 1)) continue;
    json.add("%s\"%s\"", comma, FEATURE_NAMES[feature]);
    comma = ", ";
  }
  json.add("]}");
}

}  // namespace

bool read_attribute(int device, int kind, TVMFFIAny &result) {
  const DeviceInfo *info = find_device_info(device);
  if (kind == EXISTS) {
    result = make_int(info != nullptr);
    return true;
  }
  if (info == nullptr) return false;
  const VkPhysicalDeviceLimits &limits = info->limits();
  char text[64];
  uint32_t api = info->properties.apiVersion;
  switch (kind) {
    case MAX_THREADS_PER_BLOCK:
      result = make_int(limits.maxComputeWorkGroupInvocations);
      return true;
    case WARP_SIZE:
      result = make_int(1);  // a subgroup is not a warp
      return true;
    case MAX_SHARED_MEMORY_PER_BLOCK:
      result = make_int(limits.maxComputeSharedMemorySize);
      return true;
    case COMPUTE_VERSION:
      snprintf(text, sizeof(text), "%u.%u.%u", version_major(api), version_minor(api), version_patch(api));
      return make_string(text, strlen(text), result);
    case DEVICE_NAME:
      return make_string(info->name(), strlen(info->name()), result);
    case MAX_THREAD_DIMENSIONS:
      snprintf(text, sizeof(text), "[%u, %u, %u]", limits.maxComputeWorkGroupSize[0], limits.maxComputeWorkGroupSize[1],
               limits.maxComputeWorkGroupSize[2]);
      return make_string(text, strlen(text), result);
    case API_VERSION:
      result = make_int(api);
      return true;
    case DRIVER_VERSION:
      snprintf(text, sizeof(text), "%u", info->properties.driverVersion);
      return make_string(text, strlen(text), result);
    case TOTAL_GLOBAL_MEMORY:
    case AVAILABLE_GLOBAL_MEMORY:
      return make_memory(*info, kind == TOTAL_GLOBAL_MEMORY, result);
    default:
      return true;  // no value, as other backends answer
  }
}

bool read_target_property(int device, const char *name, size_t size, TVMFFIAny &result) {
  char text[64] = {};
  if (size >= sizeof(text)) return true;
  memcpy(text, name, size);
  const DeviceInfo *info = find_device_info(device);
  return info != nullptr && find_property(*info, text, result);
}

bool describe_devices(Text &json) {
  int count = count_devices();
  if (count == 0) return false;
  for (int device = 0; device < count; device++) {
    const DeviceInfo *info = find_device_info(device);
    if (info == nullptr) return false;
    json.add("%s", device == 0 ? "[" : ", ");
    describe(*info, json);
  }
  json.add("]");
  return true;
}

}  // namespace tvmbuild
