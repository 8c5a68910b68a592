// The structures that describe work to Vulkan.
#pragma once
#include "vulkan_basics.h"

namespace tvmbuild {

struct VkMemoryAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkDeviceSize allocationSize;
  uint32_t memoryTypeIndex;
};
struct VkMemoryRequirements {
  VkDeviceSize size, alignment;
  uint32_t memoryTypeBits;
};
struct VkBufferCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  VkDeviceSize size;
  VkFlags usage;
  uint32_t sharingMode, queueFamilyIndexCount;
  const uint32_t *pQueueFamilyIndices;
};
struct VkFenceCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
};
struct VkSemaphoreCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
};
struct VkSemaphoreTypeCreateInfo {
  VkStructureType sType;
  const void *pNext;
  uint32_t semaphoreType;
  uint64_t initialValue;
};
struct VkQueryPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queryType, queryCount;
  VkFlags pipelineStatistics;
};
struct VkSubmitInfo {
  VkStructureType sType;
  const void *pNext;
  uint32_t waitSemaphoreCount;
  const uint64_t *pWaitSemaphores;
  const VkFlags *pWaitDstStageMask;
  uint32_t commandBufferCount;
  const VkCommandBuffer *pCommandBuffers;
  uint32_t signalSemaphoreCount;
  const uint64_t *pSignalSemaphores;
};
struct VkTimelineSemaphoreSubmitInfo {
  VkStructureType sType;
  const void *pNext;
  uint32_t waitSemaphoreValueCount;
  const uint64_t *pWaitSemaphoreValues;
  uint32_t signalSemaphoreValueCount;
  const uint64_t *pSignalSemaphoreValues;
};
struct VkShaderModuleCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  size_t codeSize;
  const uint32_t *pCode;
};
struct VkPipelineCacheCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  size_t initialDataSize;
  const void *pInitialData;
};
struct VkPipelineShaderStageCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags, stage;
  VkShaderModule module;
  const char *pName;
  const void *pSpecializationInfo;
};
struct VkComputePipelineCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  VkPipelineShaderStageCreateInfo stage;
  VkPipelineLayout layout;
  VkPipeline basePipelineHandle;
  int32_t basePipelineIndex;
};
struct VkPushConstantRange {
  VkFlags stageFlags;
  uint32_t offset, size;
};
struct VkPipelineLayoutCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t setLayoutCount;
  const VkDescriptorSetLayout *pSetLayouts;
  uint32_t pushConstantRangeCount;
  const VkPushConstantRange *pPushConstantRanges;
};
struct VkDescriptorSetLayoutBinding {
  uint32_t binding, descriptorType, descriptorCount;
  VkFlags stageFlags;
  const uint64_t *pImmutableSamplers;
};
struct VkDescriptorSetLayoutCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t bindingCount;
  const VkDescriptorSetLayoutBinding *pBindings;
};
struct VkDescriptorPoolSize {
  uint32_t type, descriptorCount;
};
struct VkDescriptorPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t maxSets, poolSizeCount;
  const VkDescriptorPoolSize *pPoolSizes;
};
struct VkDescriptorSetAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkDescriptorPool descriptorPool;
  uint32_t descriptorSetCount;
  const VkDescriptorSetLayout *pSetLayouts;
};
struct VkDescriptorBufferInfo {
  VkBuffer buffer;
  VkDeviceSize offset, range;
};
struct VkWriteDescriptorSet {
  VkStructureType sType;
  const void *pNext;
  VkDescriptorSet dstSet;
  uint32_t dstBinding, dstArrayElement, descriptorCount, descriptorType;
  const void *pImageInfo;
  const VkDescriptorBufferInfo *pBufferInfo;
  const uint64_t *pTexelBufferView;
};
struct VkCommandPoolCreateInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  uint32_t queueFamilyIndex;
};
struct VkCommandBufferAllocateInfo {
  VkStructureType sType;
  const void *pNext;
  VkCommandPool commandPool;
  uint32_t level, commandBufferCount;
};
struct VkCommandBufferBeginInfo {
  VkStructureType sType;
  const void *pNext;
  VkFlags flags;
  const void *pInheritanceInfo;
};
struct VkMemoryBarrier {
  VkStructureType sType;
  const void *pNext;
  VkFlags srcAccessMask, dstAccessMask;
};
struct VkBufferCopy {
  VkDeviceSize srcOffset, dstOffset, size;
};

}  // namespace tvmbuild
