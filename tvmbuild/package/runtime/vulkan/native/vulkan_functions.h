// Vulkan's functions, found at run time, because a machine without a driver must be able to load this library.
#pragma once
#include "vulkan_commands.h"
#include "vulkan_devices.h"

namespace tvmbuild {

// X(name, result, parameters)
#define TVMBUILD_INSTANCE_FUNCTIONS(X)                                                                       \
  X(EnumeratePhysicalDevices, VkResult, (VkInstance, uint32_t *, VkPhysicalDevice *))                        \
  X(EnumerateDeviceExtensionProperties, VkResult,                                                            \
    (VkPhysicalDevice, const char *, uint32_t *, VkExtensionProperties *))                                   \
  X(GetPhysicalDeviceProperties, void, (VkPhysicalDevice, VkPhysicalDeviceProperties *))                     \
  X(GetPhysicalDeviceProperties2, void, (VkPhysicalDevice, VkPhysicalDeviceProperties2 *))                   \
  X(GetPhysicalDeviceFeatures2, void, (VkPhysicalDevice, VkPhysicalDeviceFeatures2 *))                       \
  X(GetPhysicalDeviceMemoryProperties2, void, (VkPhysicalDevice, VkPhysicalDeviceMemoryProperties2 *))       \
  X(GetPhysicalDeviceQueueFamilyProperties, void, (VkPhysicalDevice, uint32_t *, VkQueueFamilyProperties *)) \
  X(CreateDevice, VkResult, (VkPhysicalDevice, const VkDeviceCreateInfo *, const void *, VkDevice *))        \
  X(GetDeviceProcAddr, VulkanFunction, (VkDevice, const char *))

#define TVMBUILD_DEVICE_FUNCTIONS(X)                                                                                   \
  X(DestroyDevice, void, (VkDevice, const void *))                                                                     \
  X(GetDeviceQueue, void, (VkDevice, uint32_t, uint32_t, VkQueue *))                                                   \
  X(DeviceWaitIdle, VkResult, (VkDevice))                                                                              \
  X(AllocateMemory, VkResult, (VkDevice, const VkMemoryAllocateInfo *, const void *, VkDeviceMemory *))                \
  X(FreeMemory, void, (VkDevice, VkDeviceMemory, const void *))                                                        \
  X(MapMemory, VkResult, (VkDevice, VkDeviceMemory, VkDeviceSize, VkDeviceSize, VkFlags, void **))                     \
  X(CreateBuffer, VkResult, (VkDevice, const VkBufferCreateInfo *, const void *, VkBuffer *))                          \
  X(DestroyBuffer, void, (VkDevice, VkBuffer, const void *))                                                           \
  X(GetBufferMemoryRequirements, void, (VkDevice, VkBuffer, VkMemoryRequirements *))                                   \
  X(BindBufferMemory, VkResult, (VkDevice, VkBuffer, VkDeviceMemory, VkDeviceSize))                                    \
  X(CreateFence, VkResult, (VkDevice, const VkFenceCreateInfo *, const void *, VkFence *))                             \
  X(ResetFences, VkResult, (VkDevice, uint32_t, const VkFence *))                                                      \
  X(GetFenceStatus, VkResult, (VkDevice, VkFence))                                                                     \
  X(WaitForFences, VkResult, (VkDevice, uint32_t, const VkFence *, VkBool32, uint64_t))                                \
  X(CreateSemaphore, VkResult, (VkDevice, const VkSemaphoreCreateInfo *, const void *, VkSemaphore *))                 \
  X(DestroySemaphore, void, (VkDevice, VkSemaphore, const void *))                                                     \
  X(CreateQueryPool, VkResult, (VkDevice, const VkQueryPoolCreateInfo *, const void *, VkQueryPool *))                 \
  X(DestroyQueryPool, void, (VkDevice, VkQueryPool, const void *))                                                     \
  X(GetQueryPoolResults, VkResult, (VkDevice, VkQueryPool, uint32_t, uint32_t, size_t, void *, VkDeviceSize, VkFlags)) \
  X(CreateShaderModule, VkResult, (VkDevice, const VkShaderModuleCreateInfo *, const void *, VkShaderModule *))        \
  X(DestroyShaderModule, void, (VkDevice, VkShaderModule, const void *))                                               \
  X(CreatePipelineCache, VkResult, (VkDevice, const VkPipelineCacheCreateInfo *, const void *, VkPipelineCache *))     \
  X(GetPipelineCacheData, VkResult, (VkDevice, VkPipelineCache, size_t *, void *))                                     \
  X(CreateComputePipelines, VkResult,                                                                                  \
    (VkDevice, VkPipelineCache, uint32_t, const VkComputePipelineCreateInfo *, const void *, VkPipeline *))            \
  X(DestroyPipeline, void, (VkDevice, VkPipeline, const void *))                                                       \
  X(CreatePipelineLayout, VkResult, (VkDevice, const VkPipelineLayoutCreateInfo *, const void *, VkPipelineLayout *))  \
  X(DestroyPipelineLayout, void, (VkDevice, VkPipelineLayout, const void *))                                           \
  X(CreateDescriptorSetLayout, VkResult,                                                                               \
    (VkDevice, const VkDescriptorSetLayoutCreateInfo *, const void *, VkDescriptorSetLayout *))                        \
  X(DestroyDescriptorSetLayout, void, (VkDevice, VkDescriptorSetLayout, const void *))                                 \
  X(CreateDescriptorPool, VkResult, (VkDevice, const VkDescriptorPoolCreateInfo *, const void *, VkDescriptorPool *))  \
  X(DestroyDescriptorPool, void, (VkDevice, VkDescriptorPool, const void *))                                           \
  X(AllocateDescriptorSets, VkResult, (VkDevice, const VkDescriptorSetAllocateInfo *, VkDescriptorSet *))              \
  X(UpdateDescriptorSets, void, (VkDevice, uint32_t, const VkWriteDescriptorSet *, uint32_t, const void *))            \
  X(CreateCommandPool, VkResult, (VkDevice, const VkCommandPoolCreateInfo *, const void *, VkCommandPool *))           \
  X(DestroyCommandPool, void, (VkDevice, VkCommandPool, const void *))                                                 \
  X(AllocateCommandBuffers, VkResult, (VkDevice, const VkCommandBufferAllocateInfo *, VkCommandBuffer *))              \
  X(FreeCommandBuffers, void, (VkDevice, VkCommandPool, uint32_t, const VkCommandBuffer *))                            \
  X(BeginCommandBuffer, VkResult, (VkCommandBuffer, const VkCommandBufferBeginInfo *))                                 \
  X(EndCommandBuffer, VkResult, (VkCommandBuffer))                                                                     \
  X(CmdBindPipeline, void, (VkCommandBuffer, uint32_t, VkPipeline))                                                    \
  X(CmdBindDescriptorSets, void,                                                                                       \
    (VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t, const VkDescriptorSet *, uint32_t,               \
     const uint32_t *))                                                                                                \
  X(CmdPushConstants, void, (VkCommandBuffer, VkPipelineLayout, VkFlags, uint32_t, uint32_t, const void *))            \
  X(CmdDispatch, void, (VkCommandBuffer, uint32_t, uint32_t, uint32_t))                                                \
  X(CmdCopyBuffer, void, (VkCommandBuffer, VkBuffer, VkBuffer, uint32_t, const VkBufferCopy *))                        \
  X(CmdPipelineBarrier, void,                                                                                          \
    (VkCommandBuffer, VkFlags, VkFlags, VkFlags, uint32_t, const VkMemoryBarrier *, uint32_t, const void *, uint32_t,  \
     const void *))                                                                                                    \
  X(CmdResetQueryPool, void, (VkCommandBuffer, VkQueryPool, uint32_t, uint32_t))                                       \
  X(CmdWriteTimestamp, void, (VkCommandBuffer, VkFlags, VkQueryPool, uint32_t))                                        \
  X(QueueSubmit, VkResult, (VkQueue, uint32_t, const VkSubmitInfo *, VkFence))

typedef void (*VulkanFunction)();
typedef VulkanFunction (*GetInstanceProcAddr)(VkInstance, const char *);
typedef void (*CmdPushDescriptorSet)(VkCommandBuffer, uint32_t, VkPipelineLayout, uint32_t, uint32_t,
                                     const VkWriteDescriptorSet *);

#define TVMBUILD_MEMBER(name, result, parameters) result(*name) parameters;
struct InstanceFunctions {
  TVMBUILD_INSTANCE_FUNCTIONS(TVMBUILD_MEMBER)
};
struct DeviceFunctions {
  TVMBUILD_DEVICE_FUNCTIONS(TVMBUILD_MEMBER)
  CmdPushDescriptorSet push_descriptors;  // null without the extension
};
#undef TVMBUILD_MEMBER

}  // namespace tvmbuild
