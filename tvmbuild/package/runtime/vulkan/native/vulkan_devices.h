// The structures by which Vulkan describes devices. Unused parts of a structure are gaps of the right size.
#pragma once
#include "vulkan_basics.h"

namespace tvmbuild {

struct VkApplicationInfo {
  VkStructureType sType;
  const void *pNext;
  const char *pApplicationName;
  uint32_t applicationVersion;
  const char *pEngineName;
  uint32_t engineVersion, apiVersion;
};
struct VkInstanceCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  const VkApplicationInfo *pApplicationInfo;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
};
struct VkExtensionProperties {
  char extensionName[256];
  uint32_t specVersion;
};
struct VkPhysicalDeviceLimits {
  uint32_t gap_0[6], maxUniformBufferRange, maxStorageBufferRange, maxPushConstantsSize, maxMemoryAllocationCount,
      gap_40[2];
  VkDeviceSize gap_48[2];
  uint32_t gap_64[3], maxPerStageDescriptorStorageBuffers, gap_80[34], maxComputeSharedMemorySize;
  uint32_t maxComputeWorkGroupCount[3], maxComputeWorkGroupInvocations, maxComputeWorkGroupSize[3], gap_248[14];
  size_t minMemoryMapAlignment;
  VkDeviceSize gap_312[2], minStorageBufferOffsetAlignment;
  uint32_t gap_336[21];
  VkBool32 timestampComputeAndGraphics;
  float timestampPeriod;
  uint32_t gap_428[15];
  VkDeviceSize gap_488[2];
};
struct VkPhysicalDeviceProperties {
  uint32_t apiVersion, driverVersion, vendorID, deviceID;
  VkPhysicalDeviceType deviceType;
  char deviceName[256];
  uint8_t pipelineCacheUUID[16];
  VkPhysicalDeviceLimits limits;
  VkBool32 sparseProperties[5];
};
struct VkPhysicalDeviceProperties2 {
  VkStructureType sType;
  void *pNext;
  VkPhysicalDeviceProperties properties;
};
struct VkPhysicalDeviceIDProperties {
  VkStructureType sType;
  void *pNext;
  uint8_t deviceUUID[16], driverUUID[16], deviceLUID[8];
  uint32_t deviceNodeMask;
  VkBool32 deviceLUIDValid;
};
struct VkPhysicalDeviceDriverProperties {
  VkStructureType sType;
  void *pNext;
  uint32_t driverID;
  char driverName[256], driverInfo[256];
  uint8_t conformanceVersion[4];
};
struct VkPhysicalDeviceMaintenance3Properties {
  VkStructureType sType;
  void *pNext;
  uint32_t maxPerSetDescriptors;
  VkDeviceSize maxMemoryAllocationSize;
};
struct VkPhysicalDevicePushDescriptorPropertiesKHR {
  VkStructureType sType;
  void *pNext;
  uint32_t maxPushDescriptors;
};
struct VkPhysicalDeviceShaderIntegerDotProductProperties {
  VkStructureType sType;
  void *pNext;
  VkBool32 gap_0[4], integerDotProduct4x8BitPackedSignedAccelerated, gap_5[25];
};

struct VkPhysicalDeviceFeatures {
  VkBool32 gap_0[39], shaderFloat64, shaderInt64, shaderInt16, gap_42[13];
};
struct VkPhysicalDeviceFeatures2 {
  VkStructureType sType;
  void *pNext;
  VkPhysicalDeviceFeatures features;
};
struct VkPhysicalDevice16BitStorageFeatures {
  VkStructureType sType;
  void *pNext;
  VkBool32 storageBuffer16BitAccess, uniformAndStorageBuffer16BitAccess, storagePushConstant16, storageInputOutput16;
};
struct VkPhysicalDevice8BitStorageFeatures {
  VkStructureType sType;
  void *pNext;
  VkBool32 storageBuffer8BitAccess, uniformAndStorageBuffer8BitAccess, storagePushConstant8;
};
struct VkPhysicalDeviceShaderFloat16Int8Features {
  VkStructureType sType;
  void *pNext;
  VkBool32 shaderFloat16, shaderInt8;
};
struct VkPhysicalDeviceTimelineSemaphoreFeatures {
  VkStructureType sType;
  void *pNext;
  VkBool32 timelineSemaphore;
};
struct VkPhysicalDeviceShaderIntegerDotProductFeatures {
  VkStructureType sType;
  void *pNext;
  VkBool32 shaderIntegerDotProduct;
};

struct VkMemoryType {
  VkFlags propertyFlags;
  uint32_t heapIndex;
};
struct VkMemoryHeap {
  VkDeviceSize size;
  VkFlags flags;
};
struct VkPhysicalDeviceMemoryProperties {
  uint32_t memoryTypeCount;
  VkMemoryType memoryTypes[32];
  uint32_t memoryHeapCount;
  VkMemoryHeap memoryHeaps[16];
};
struct VkPhysicalDeviceMemoryProperties2 {
  VkStructureType sType;
  void *pNext;
  VkPhysicalDeviceMemoryProperties memoryProperties;
};
struct VkPhysicalDeviceMemoryBudgetPropertiesEXT {
  VkStructureType sType;
  void *pNext;
  VkDeviceSize heapBudget[16], heapUsage[16];
};
struct VkQueueFamilyProperties {
  VkFlags queueFlags;
  uint32_t queueCount, timestampValidBits, minImageTransferGranularity[3];
};

struct VkDeviceQueueCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueFamilyIndex, queueCount;
  const float *pQueuePriorities;
};
struct VkDeviceCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueCreateInfoCount;
  const VkDeviceQueueCreateInfo *pQueueCreateInfos;
  uint32_t enabledLayerCount;
  const char *const *ppEnabledLayerNames;
  uint32_t enabledExtensionCount;
  const char *const *ppEnabledExtensionNames;
  const VkPhysicalDeviceFeatures *pEnabledFeatures;
};

}  // namespace tvmbuild
