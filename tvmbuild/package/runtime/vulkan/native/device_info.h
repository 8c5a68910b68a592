// The properties and abilities of a device, asked once.
#pragma once
#include "vulkan_library.h"

namespace tvmbuild {

// Features that a kernel may need. The bits are those in a module's bytes.
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
  uint32_t push_descriptors;  // the largest number of buffers with them; 0: unsupported
  VkDeviceSize max_bytes;     // the largest allocation
  uint32_t queue_family;
  uint32_t copy_family, copy_queues;  // a family of queues that only copy, beside kernels; 0: unused
  uint64_t timestamp_mask;            // the valid bits, after which the clock wraps; 0: no timestamps
  bool has_memory_budget, is_unified, has_timelines;
  bool has_fast_dot;  // an instruction for products of four signed bytes
  bool has_extension_8bit, has_extension_float16, has_extension_dot, has_extension_timeline;

  const char *name() const { return properties.deviceName; }
  const char *type() const;
  const VkPhysicalDeviceLimits &limits() const { return properties.limits; }
};

// Whether TVMBUILD_VULKAN_WITHOUT has only features that can be left out. False with the failure set.
bool check_left_out_features();

// Read the properties. False, with the failure set, for a device that cannot compute.
bool read_device(const VulkanLibrary &library, VkPhysicalDevice physical, DeviceInfo &info);

// Bytes of the heaps in the device's own memory: all, and the free ones according to the driver.
void read_memory(const VulkanLibrary &library, const DeviceInfo &info, VkDeviceSize &total, VkDeviceSize &available);

// The type of memory among the `allowed` bits that has all these properties, and the most of the wished ones; or -1.
int find_memory_type(const DeviceInfo &info, uint32_t allowed, VkFlags needed, VkFlags wished);

}  // namespace tvmbuild
