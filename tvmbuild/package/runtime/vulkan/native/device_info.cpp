#include "device_info.h"

#include <string.h>

#include "failure.h"
#include "left_out.h"
#include "list.h"

namespace tvmbuild {

const char *const FEATURE_NAMES[FEATURES] = {
    "shaderFloat16",
    "shaderInt8",
    "shaderInt16",
    "shaderInt64",
    "shaderFloat64",
    "storageBuffer8BitAccess",
    "storageBuffer16BitAccess",
    "shaderIntegerDotProduct",
};

const char *DeviceInfo::type() const {
  static const char *const names[] = {"other", "integrated", "discrete", "virtual", "cpu"};
  return properties.deviceType <= VK_PHYSICAL_DEVICE_TYPE_CPU ? names[properties.deviceType] : "other";
}

namespace {

struct Extensions {
  List<VkExtensionProperties> all;
  bool has(const char *name) const {
    for (const VkExtensionProperties &each : all)
      if (strcmp(each.extensionName, name) == 0) return true;
    return false;
  }
};

// Put a structure in front of a chain.
template <class T>
void chain(void *&head, T &structure, VkStructureType type) {
  structure.sType = type;
  structure.pNext = head;
  head = &structure;
}

void read_properties(const VulkanLibrary &library, const Extensions &extensions, DeviceInfo &info) {
  VkPhysicalDeviceProperties2 properties = {};
  VkPhysicalDeviceIDProperties identity = {};
  VkPhysicalDeviceMaintenance3Properties maintenance = {};
  VkPhysicalDevicePushDescriptorPropertiesKHR push = {};
  VkPhysicalDeviceShaderIntegerDotProductProperties dot = {};
  void *head = nullptr;
  chain(head, identity, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  chain(head, maintenance, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  if (extensions.has("VK_KHR_push_descriptor"))
    chain(head, push, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PUSH_DESCRIPTOR_PROPERTIES_KHR);
  if (info.properties.apiVersion >= make_version(1, 2) || extensions.has("VK_KHR_driver_properties"))
    chain(head, info.driver, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  if (info.properties.apiVersion >= make_version(1, 3) || extensions.has("VK_KHR_shader_integer_dot_product"))
    chain(head, dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_PROPERTIES);
  properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
  properties.pNext = head;
  library.vk.GetPhysicalDeviceProperties2(info.physical, &properties);
  info.properties = properties.properties;
  memcpy(info.uuid, identity.deviceUUID, sizeof(info.uuid));
  info.push_descriptors = push.maxPushDescriptors;
  info.has_fast_dot = dot.integerDotProduct4x8BitPackedSignedAccelerated;
  info.max_bytes = maintenance.maxMemoryAllocationSize;
}

void read_features(const VulkanLibrary &library, const Extensions &extensions, DeviceInfo &info) {
  VkPhysicalDeviceFeatures2 features = {};
  VkPhysicalDevice16BitStorageFeatures storage16 = {};
  VkPhysicalDevice8BitStorageFeatures storage8 = {};
  VkPhysicalDeviceShaderFloat16Int8Features small = {};
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {};
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {};
  uint32_t version = info.properties.apiVersion;
  info.has_extension_8bit = version < make_version(1, 2) && extensions.has("VK_KHR_8bit_storage");
  info.has_extension_float16 = version < make_version(1, 2) && extensions.has("VK_KHR_shader_float16_int8");
  info.has_extension_dot = version < make_version(1, 3) && extensions.has("VK_KHR_shader_integer_dot_product");
  info.has_extension_timeline = version < make_version(1, 2) && extensions.has("VK_KHR_timeline_semaphore");
  void *head = nullptr;
  chain(head, storage16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES);
  if (version >= make_version(1, 2) || info.has_extension_8bit)
    chain(head, storage8, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES);
  if (version >= make_version(1, 2) || info.has_extension_float16)
    chain(head, small, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES);
  if (version >= make_version(1, 3) || info.has_extension_dot)
    chain(head, dot, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES);
  if (version >= make_version(1, 2) || info.has_extension_timeline)
    chain(head, timeline, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.pNext = head;
  library.vk.GetPhysicalDeviceFeatures2(info.physical, &features);
  const VkPhysicalDeviceFeatures &core = features.features;
  info.features = (small.shaderFloat16 ? FLOAT16 : 0u) | (small.shaderInt8 ? INT8 : 0u) |
                  (core.shaderInt16 ? INT16 : 0u) | (core.shaderInt64 ? INT64 : 0u) |
                  (core.shaderFloat64 ? FLOAT64 : 0u) | (storage8.storageBuffer8BitAccess ? STORAGE_8BIT : 0u) |
                  (storage16.storageBuffer16BitAccess ? STORAGE_16BIT : 0u) |
                  (dot.shaderIntegerDotProduct ? DOT_PRODUCT : 0u);
  info.has_timelines = timeline.timelineSemaphore;
}

// Whether a family has the card's copy engines. Those of video engines copy, too, and have flags of their own.
bool only_copies(VkFlags flags) {
  constexpr VkFlags OTHERS = VK_QUEUE_SPARSE_BINDING_BIT | VK_QUEUE_PROTECTED_BIT;
  return (flags & ~OTHERS) == VK_QUEUE_TRANSFER_BIT;
}

// A family that only computes runs beside the desktop's drawing, and is faster (5 % on an H200).
bool choose_queue_families(const VulkanLibrary &library, DeviceInfo &info) {
  uint32_t count = 0;
  library.vk.GetPhysicalDeviceQueueFamilyProperties(info.physical, &count, nullptr);
  List<VkQueueFamilyProperties> families;
  families.grow(count);
  library.vk.GetPhysicalDeviceQueueFamilyProperties(info.physical, &count, families.data());
  int best = -1;
  for (uint32_t index = 0; index < count; index++) {
    VkFlags flags = families[index].queueFlags;
    bool draws = flags & VK_QUEUE_GRAPHICS_BIT, computes = flags & VK_QUEUE_COMPUTE_BIT;
    bool copies = only_copies(flags) && info.has_timelines && !info.is_unified;
    if (copies && families[index].queueCount > info.copy_queues)
      info.copy_family = index, info.copy_queues = families[index].queueCount;
    if (!computes || families[index].queueCount == 0) continue;
    if (best < 0 || (!draws && families[static_cast<size_t>(best)].queueFlags & VK_QUEUE_GRAPHICS_BIT))
      best = static_cast<int>(index);
  }
  if (best < 0) return fail("Vulkan: %s cannot compute", info.name());
  info.queue_family = static_cast<uint32_t>(best);
  uint32_t bits = families[info.queue_family].timestampValidBits;
  info.timestamp_mask = bits >= 64 ? ~0ull : (1ull << bits) - 1;
  return true;
}

constexpr char LEFT_OUT[] = "TVMBUILD_VULKAN_WITHOUT";

void leave_out(DeviceInfo &info) {
  auto is_named = [](const char *word) { return is_left_out(LEFT_OUT, word); };
  if (is_named("unified_memory")) info.is_unified = false;
  if (is_named("push_descriptors")) info.push_descriptors = 0;
  if (is_named("timestamps")) info.timestamp_mask = 0;
  if (is_named("copy_queues")) info.copy_queues = 0;
  for (uint32_t feature = 0; feature < FEATURES; feature++)
    if (is_named(FEATURE_NAMES[feature])) info.features &= ~(1u << feature);
}

}  // namespace

bool check_left_out_features() {
  const char *words[4 + FEATURES] = {"unified_memory", "push_descriptors", "timestamps", "copy_queues"};
  for (uint32_t feature = 0; feature < FEATURES; feature++) words[4 + feature] = FEATURE_NAMES[feature];
  return check_left_out(LEFT_OUT, words, 4 + FEATURES);
}

bool read_device(const VulkanLibrary &library, VkPhysicalDevice physical, DeviceInfo &info) {
  info = DeviceInfo();
  info.physical = physical;
  library.vk.GetPhysicalDeviceProperties(physical, &info.properties);
  if (info.properties.apiVersion < make_version(1, 1))
    return fail("Vulkan: %s has only Vulkan 1.0, and 1.1 is needed", info.name());
  uint32_t count = 0;
  Extensions extensions;
  library.vk.EnumerateDeviceExtensionProperties(physical, nullptr, &count, nullptr);
  extensions.all.grow(count);
  library.vk.EnumerateDeviceExtensionProperties(physical, nullptr, &count, extensions.all.data());
  extensions.all.shrink(count);
  read_properties(library, extensions, info);
  read_features(library, extensions, info);
  info.has_memory_budget = extensions.has("VK_EXT_memory_budget");
  VkPhysicalDeviceMemoryProperties2 memory = {};
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  library.vk.GetPhysicalDeviceMemoryProperties2(physical, &memory);
  info.memory = memory.memoryProperties;
  bool shares = info.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU ||
                info.properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU;
  // AMD's integrated devices map uncached memory, which is read at a hundredth of the speed: copies are faster.
  VkFlags mapped = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                   VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  info.is_unified = shares && find_memory_type(info, ~0u, mapped, 0) >= 0;
  if (!choose_queue_families(library, info)) return false;
  leave_out(info);
  return true;
}

void read_memory(const VulkanLibrary &library, const DeviceInfo &info, VkDeviceSize &total, VkDeviceSize &available) {
  VkPhysicalDeviceMemoryProperties2 memory = {};
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {};
  void *head = nullptr;
  if (info.has_memory_budget) chain(head, budget, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT);
  memory.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  memory.pNext = head;
  library.vk.GetPhysicalDeviceMemoryProperties2(info.physical, &memory);
  total = available = 0;
  for (uint32_t heap = 0; heap < info.memory.memoryHeapCount; heap++) {
    if (!(info.memory.memoryHeaps[heap].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT)) continue;
    VkDeviceSize size = info.memory.memoryHeaps[heap].size;
    VkDeviceSize left = budget.heapBudget[heap] - budget.heapUsage[heap];
    total += size;
    available += !info.has_memory_budget ? size : budget.heapBudget[heap] > budget.heapUsage[heap] ? left : 0;
  }
}

int find_memory_type(const DeviceInfo &info, uint32_t allowed, VkFlags needed, VkFlags wished) {
  int best = -1, best_score = -1;
  for (uint32_t type = 0; type < info.memory.memoryTypeCount; type++) {
    VkFlags flags = info.memory.memoryTypes[type].propertyFlags;
    if (!(allowed >> type & 1) || (flags & needed) != needed) continue;
    int score = __builtin_popcount(flags & wished);
    if (score > best_score) best = static_cast<int>(type), best_score = score;
  }
  return best;
}

}  // namespace tvmbuild
