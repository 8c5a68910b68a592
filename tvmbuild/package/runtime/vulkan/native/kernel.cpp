#include "kernel.h"

#include <stdio.h>

#include "device.h"
#include "failure.h"
#include "lock.h"
#include "pipeline_cache.h"

namespace tvmbuild {
namespace {

bool check_limits(const Device &device, const Kernel &kernel) {
  const VkPhysicalDeviceLimits &limits = device.info.limits();
  const char *name = device.info.name();
  for (uint32_t feature = 0; feature < FEATURES; feature++)
    if (kernel.features & ~device.info.features & (1u << feature))
      return fail("Vulkan: %s lacks %s, which kernel %s needs", name, FEATURE_NAMES[feature], kernel.name);
  uint64_t threads = 1;
  for (int axis = 0; axis < 3; axis++) {
    threads *= kernel.local[axis];
    if (kernel.local[axis] > limits.maxComputeWorkGroupSize[axis])
      return fail("Vulkan: kernel %s has groups of %u threads in %c, and %s allows %u", kernel.name, kernel.local[axis],
                  "xyz"[axis], name, limits.maxComputeWorkGroupSize[axis]);
  }
  if (threads > limits.maxComputeWorkGroupInvocations)
    return fail("Vulkan: kernel %s has groups of %llu threads, and %s allows %u", kernel.name,
                static_cast<unsigned long long>(threads), name, limits.maxComputeWorkGroupInvocations);
  if (kernel.shared_bytes > limits.maxComputeSharedMemorySize)
    return fail("Vulkan: kernel %s needs %u bytes of shared memory, and %s has %u", kernel.name, kernel.shared_bytes,
                name, limits.maxComputeSharedMemorySize);
  if (kernel.buffers > limits.maxPerStageDescriptorStorageBuffers)
    return fail("Vulkan: kernel %s has %u buffers, and %s allows %u", kernel.name, kernel.buffers, name,
                limits.maxPerStageDescriptorStorageBuffers);
  if (8 * kernel.scalars > limits.maxPushConstantsSize)
    return fail("Vulkan: kernel %s has %u scalars, and %s has %u bytes for them", kernel.name, kernel.scalars, name,
                limits.maxPushConstantsSize);
  return true;
}

bool make_layout(Device &device, const Kernel &kernel, KernelOnDevice &on) {
  VkDescriptorSetLayoutBinding bindings[MAX_BUFFERS] = {};
  for (uint32_t index = 0; index < kernel.buffers; index++)
    bindings[index] = {index, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1, VK_SHADER_STAGE_COMPUTE_BIT, nullptr};
  on.pushes = kernel.buffers <= device.info.push_descriptors && device.vk.push_descriptors != nullptr;
  VkDescriptorSetLayoutCreateInfo set = {};
  set.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  set.flags = on.pushes ? VK_DESCRIPTOR_SET_LAYOUT_CREATE_PUSH_DESCRIPTOR_BIT_KHR : 0u;
  set.bindingCount = kernel.buffers;
  set.pBindings = bindings;
  VkResult result = device.vk.CreateDescriptorSetLayout(device.handle, &set, nullptr, &on.set_layout);
  if (result != VK_SUCCESS) return check(device, result, "create a descriptor layout");
  VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 * kernel.scalars};
  VkPipelineLayoutCreateInfo layout = {};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.setLayoutCount = 1;
  layout.pSetLayouts = &on.set_layout;
  layout.pushConstantRangeCount = kernel.scalars > 0 ? 1 : 0;
  layout.pPushConstantRanges = &range;
  return check(device, device.vk.CreatePipelineLayout(device.handle, &layout, nullptr, &on.layout),
               "create a pipeline layout");
}

bool make_pipeline(Device &device, const Kernel &kernel, KernelOnDevice &on) {
  List<uint32_t> code;  // the module's bytes are not aligned
  memcpy(code.grow(kernel.words), kernel.spirv, 4 * static_cast<size_t>(kernel.words));
  VkShaderModuleCreateInfo shader = {};
  shader.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  shader.codeSize = 4 * static_cast<size_t>(kernel.words);
  shader.pCode = code.data();
  VkResult result = device.vk.CreateShaderModule(device.handle, &shader, nullptr, &on.shader);
  if (result == VK_SUCCESS) {
    VkComputePipelineCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
    info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
    info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
    info.stage.module = on.shader;
    info.stage.pName = "main";
    info.layout = on.layout;
    result = device.vk.CreateComputePipelines(device.handle, device.pipeline_cache, 1, &info, nullptr, &on.pipeline);
  }
  char what[sizeof(kernel.name) + 32];
  snprintf(what, sizeof(what), "compile kernel %s", kernel.name);
  return check(device, result, what);
}

void destroy(Device &device, KernelOnDevice *on) {
  if (on->pipeline) device.vk.DestroyPipeline(device.handle, on->pipeline, nullptr);
  if (on->shader) device.vk.DestroyShaderModule(device.handle, on->shader, nullptr);
  if (on->layout) device.vk.DestroyPipelineLayout(device.handle, on->layout, nullptr);
  if (on->set_layout) device.vk.DestroyDescriptorSetLayout(device.handle, on->set_layout, nullptr);
  delete on;
}

}  // namespace

KernelOnDevice *prepare_kernel(Device &device, Kernel &kernel) {
  KernelOnDevice *on = __atomic_load_n(&kernel.on[device.index], __ATOMIC_ACQUIRE);
  if (on != nullptr) return on;
  Lock lock(device.pipeline_lock);
  on = kernel.on[device.index];
  if (on != nullptr) return on;
  if (!check_alive(device) || !check_limits(device, kernel)) return nullptr;
  on = new KernelOnDevice();
  if (!make_layout(device, kernel, *on) || !make_pipeline(device, kernel, *on)) {
    destroy(device, on);
    return nullptr;
  }
  device.unsaved_pipelines++;
  __atomic_store_n(&kernel.on[device.index], on, __ATOMIC_RELEASE);
  return on;
}

void release_kernel(Device &device, Kernel &kernel) {
  if (kernel.on[device.index] == nullptr) return;
  destroy(device, kernel.on[device.index]);
  kernel.on[device.index] = nullptr;
}

uint64_t descriptor_range(const Device &device, const Memory &memory, uint64_t offset) {
  uint64_t left = (memory.size + 15) / 16 * 16 - offset, most = device.info.limits().maxStorageBufferRange;
  return left < most ? left : most;
}

static bool bind_buffer(Device &device, const Kernel &kernel, uint32_t index, uint64_t address, Binding &binding) {
  const VkPhysicalDeviceLimits &limits = device.info.limits();
  Memory *memory = find_memory(device, address);
  if (memory == nullptr)
    return fail("Vulkan: buffer %u of kernel %s lies in no memory of %s", index, kernel.name, device.info.name());
  uint64_t offset = address - memory->address;
  if (offset % limits.minStorageBufferOffsetAlignment != 0)
    return fail("Vulkan: buffer %u of kernel %s lies at byte %llu of its memory, and %s needs a multiple of %llu",
                index, kernel.name, static_cast<unsigned long long>(offset), device.info.name(),
                static_cast<unsigned long long>(limits.minStorageBufferOffsetAlignment));
  constexpr uint64_t rounding = 4096;  // TVM's pool takes whole pages
  if (memory->size - offset >= limits.maxStorageBufferRange + rounding)
    return fail("Vulkan: buffer %u of kernel %s has %llu bytes, and a kernel of %s reaches %u", index, kernel.name,
                static_cast<unsigned long long>(memory->size - offset), device.info.name(),
                limits.maxStorageBufferRange);
  binding = {memory, offset, kernel.is_written(index)};
  return true;
}

// The number of groups in each direction. The kernel itself skips the surplus groups of a last row.
static bool count_groups(const Device &device, const Kernel &kernel, const int64_t *extents, uint32_t *groups) {
  const VkPhysicalDeviceLimits &limits = device.info.limits();
  int64_t counts[3] = {1, 1, 1};
  for (int axis = 0; axis < 3; axis++)
    if (kernel.axes[axis] >= 0) counts[axis] = extents[kernel.axes[axis]];
  for (int axis = 1; axis < 3; axis++)
    if (kernel.axes[axis] == FOLDED && counts[0] > MAX_GROUPS) {
      counts[axis] = (counts[0] - 1) / MAX_GROUPS + 1;
      counts[0] = (counts[0] - 1) / counts[axis] + 1;
    }
  for (int axis = 0; axis < 3; axis++) {
    if (counts[axis] < 0 || counts[axis] > limits.maxComputeWorkGroupCount[axis])
      return fail("Vulkan: kernel %s is launched with %lld groups in %c, and %s allows %u", kernel.name,
                  static_cast<long long>(counts[axis]), "xyz"[axis], device.info.name(),
                  limits.maxComputeWorkGroupCount[axis]);
    groups[axis] = static_cast<uint32_t>(counts[axis]);
  }
  return true;
}

bool launch_kernel(Device &device, Kernel &kernel, const uint64_t *addresses, const uint64_t *scalars,
                   const int64_t *extents) {
  uint32_t groups[3];
  if (!count_groups(device, kernel, extents, groups)) return false;
  if (groups[0] == 0 || groups[1] == 0 || groups[2] == 0) return true;
  if (prepare_kernel(device, kernel) == nullptr) return false;
  Lock lock(device.lock);
  if (!check_alive(device)) return false;
  Binding bindings[MAX_BUFFERS];
  for (uint32_t index = 0; index < kernel.buffers; index++)
    if (!bind_buffer(device, kernel, index, addresses[index], bindings[index])) return false;
  return add_launch(device, current_queue(device), &kernel, groups, scalars, bindings);
}

}  // namespace tvmbuild
