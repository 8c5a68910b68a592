// What a device is and can do, asked once.
#pragma once
#include "vulkan_library.h"

namespace tvmbuild {

// Bits as in a module's bytes: what a kernel may need.
enum Feature : uint32_t {
  FLOAT16 = 1u << 0,
  INT8 = 1u << 1,
  INT16 = 1u << 2,
  INT64 = 1u << 3,
  FLOAT64 = 1u << 4,
  STORAGE_8BIT = 1u << 5,
  STORAGE_16BIT = 1u << 6,
  DOT_PRODUCT = 1u << 7,
};
constexpr uint32_t FEATURES = 8;
extern const char *const FEATURE_NAMES[FEATURES];

struct DeviceInfo {
  VkPhysicalDevice physical;
  VkPhysicalDeviceProperties properties;
  VkPhysicalDeviceMemoryProperties memory;
  VkPhysicalDeviceDriverProperties driver;
  uint8_t uuid[16];
  uint32_t features;          // bits of Feature
  uint32_t push_descriptors;  // how many buffers a kernel may have with them; 0: none
  VkDeviceSize max_bytes;     // of one allocation
  uint32_t queue_family;
  uint64_t timestamp_mask;  // of the bits that count, after which the clock begins anew; 0: there is none
  bool has_memory_budget, is_unified;
  bool has_fast_dot;  // an instruction of its own for products of four signed bytes
  bool has_extension_8bit, has_extension_float16, has_extension_dot;

  const char *name() const { return properties.deviceName; }
  const char *type() const;
  const VkPhysicalDeviceLimits &limits() const { return properties.limits; }
};

// False, with the failure set, for a device that cannot compute.
bool read_device(const VulkanLibrary &library, VkPhysicalDevice physical, DeviceInfo &info);

// Bytes of the heaps in the device's own memory: all, and what is free as far as the driver says.
void read_memory(const VulkanLibrary &library, const DeviceInfo &info, VkDeviceSize &total, VkDeviceSize &available);

// The type of memory among `allowed` bits with all these properties, with as many of the wished ones as there are; -1.
int find_memory_type(const DeviceInfo &info, uint32_t allowed, VkFlags needed, VkFlags wished);

}  // namespace tvmbuild
