#include "recording.h"

#include "device.h"
#include "hazards.h"
#include "kernel.h"

namespace tvmbuild {
namespace {

constexpr VkFlags STAGES = VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
constexpr VkFlags WRITES = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
constexpr VkFlags READS = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT;

// Turns words into commands.
class Recorder {
 public:
  Recorder(Device &device, Recording &recording) : device_(device), vk_(device.vk), recording_(recording) {}

  bool run(VkQueryPool queries) {
    VkCommandBufferAllocateInfo allocate = {};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = device_.command_pool;
    allocate.commandBufferCount = 1;
    if (!check(device_, vk_.AllocateCommandBuffers(device_.handle, &allocate, &recording_.commands), "record"))
      return false;
    VkCommandBufferBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    if (!make_descriptor_pool() || !check(device_, vk_.BeginCommandBuffer(recording_.commands, &begin), "record"))
      return false;
    barrier(STAGES, WRITES, STAGES, READS | WRITES);  // what was submitted before comes first
    const uint64_t *end = recording_.words.end();
    uint32_t query = 0;
    if (queries != 0) reset_queries(queries);
    for (const uint64_t *words = recording_.words.begin(); words != end; words += operation_size(words)) {
      if (queries != 0) write_time(queries, query++);
      if (*words == LAUNCH ? !record_launch(words) : !record_copy(words)) return false;
      if (queries != 0) write_time(queries, query++);
    }
    barrier(STAGES, WRITES, VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    return check(device_, vk_.EndCommandBuffer(recording_.commands), "record");
  }

 private:
  Memory *memory_of(uint64_t word) {
    Memory *memory = reinterpret_cast<Memory *>(word);
    if (memory->mark != mark_) memory->mark = mark_, recording_.memories.add(memory);
    return memory;
  }

  void barrier(VkFlags from, VkFlags source, VkFlags to, VkFlags destination) {
    VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, source, destination};
    vk_.CmdPipelineBarrier(recording_.commands, from, to, 0, 1, &memory, 0, nullptr, 0, nullptr);
    hazards_.clear();
  }

  bool make_descriptor_pool() {
    uint32_t sets = 0, bindings = 0;
    for (const uint64_t *words = recording_.words.begin(); words != recording_.words.end();
         words += operation_size(words)) {
      if (*words != LAUNCH) continue;
      const Kernel *kernel = reinterpret_cast<const Kernel *>(words[1]);
      if (kernel->on[device_.index]->pushes || kernel->buffers == 0) continue;
      sets++;
      bindings += kernel->buffers;
    }
    if (sets == 0) return true;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, bindings};
    VkDescriptorPoolCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    info.maxSets = sets;
    info.poolSizeCount = 1;
    info.pPoolSizes = &size;
    return check(device_, vk_.CreateDescriptorPool(device_.handle, &info, nullptr, &recording_.descriptors),
                 "create descriptors");
  }

  bool record_launch(const uint64_t *words) {
    const Kernel *kernel = reinterpret_cast<const Kernel *>(words[1]);
    const KernelOnDevice &on = *kernel->on[device_.index];
    VkDescriptorBufferInfo infos[MAX_BUFFERS];
    bool conflicts = false;
    for (uint32_t index = 0; index < kernel->buffers; index++) {
      const uint64_t *binding = words + LAUNCH_WORDS + BINDING_WORDS * index;
      Memory *memory = memory_of(binding[0]);
      infos[index] = {memory->buffer, memory->base + binding[2], descriptor_range(device_, *memory, binding[2])};
      conflicts |= hazards_.conflicts(memory, binding[2], memory->size, kernel->is_written(index));
    }
    if (conflicts) barrier(STAGES, WRITES, STAGES, READS | WRITES);
    for (uint32_t index = 0; index < kernel->buffers; index++) {
      const uint64_t *binding = words + LAUNCH_WORDS + BINDING_WORDS * index;
      Memory *memory = memory_of(binding[0]);
      hazards_.add(memory, binding[2], memory->size, kernel->is_written(index));
    }
    if (last_ != &on) vk_.CmdBindPipeline(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.pipeline);
    last_ = &on;
    if (kernel->buffers > 0 && !bind(*kernel, on, infos)) return false;
    if (kernel->scalars > 0)
      vk_.CmdPushConstants(recording_.commands, on.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 8 * kernel->scalars,
                           words + LAUNCH_WORDS + BINDING_WORDS * kernel->buffers);
    vk_.CmdDispatch(recording_.commands, static_cast<uint32_t>(words[4]), static_cast<uint32_t>(words[4] >> 32),
                    static_cast<uint32_t>(words[5]));
    return true;
  }

  bool bind(const Kernel &kernel, const KernelOnDevice &on, const VkDescriptorBufferInfo *infos) {
    VkDescriptorSet set = 0;
    if (!on.pushes) {
      VkDescriptorSetAllocateInfo allocate = {};
      allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
      allocate.descriptorPool = recording_.descriptors;
      allocate.descriptorSetCount = 1;
      allocate.pSetLayouts = &on.set_layout;
      if (!check(device_, vk_.AllocateDescriptorSets(device_.handle, &allocate, &set), "allocate descriptors"))
        return false;
    }
    VkWriteDescriptorSet writes[MAX_BUFFERS];
    for (uint32_t index = 0; index < kernel.buffers; index++)
      writes[index] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, nullptr, set, index, 0, 1,
                       VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, nullptr, &infos[index], nullptr};
    if (on.pushes) {
      vk_.push_descriptors(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.layout, 0, kernel.buffers, writes);
      return true;
    }
    vk_.UpdateDescriptorSets(device_.handle, kernel.buffers, writes, 0, nullptr);
    vk_.CmdBindDescriptorSets(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.layout, 0, 1, &set, 0, nullptr);
    return true;
  }

  bool record_copy(const uint64_t *words) {
    Memory *from = memory_of(words[1]), *to = memory_of(words[4]);
    VkBufferCopy region = {from->base + words[3], to->base + words[6], words[7]};
    if (hazards_.conflicts(from, words[3], words[3] + words[7], false) ||
        hazards_.conflicts(to, words[6], words[6] + words[7], true))
      barrier(STAGES, WRITES, STAGES, READS | WRITES);
    hazards_.add(from, words[3], words[3] + words[7], false);
    hazards_.add(to, words[6], words[6] + words[7], true);
    vk_.CmdCopyBuffer(recording_.commands, from->buffer, to->buffer, 1, &region);
    return true;
  }

  void reset_queries(VkQueryPool queries) {
    uint32_t count = 0;
    for (const uint64_t *words = recording_.words.begin(); words != recording_.words.end();
         words += operation_size(words))
      count += 2;
    vk_.CmdResetQueryPool(recording_.commands, queries, 0, count);
  }

  // One operation at a time, so that each has a time of its own. All that came before is done at the first of its two
  // times as well: at the top of the pipe a time is written while the operation before still runs.
  void write_time(VkQueryPool queries, uint32_t query) {
    if (query % 2 == 0) barrier(STAGES, WRITES, STAGES, READS | WRITES);
    vk_.CmdWriteTimestamp(recording_.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, query);
  }

  Device &device_;
  const DeviceFunctions &vk_;
  Recording &recording_;
  Hazards hazards_;
  const KernelOnDevice *last_ = nullptr;
  uint64_t mark_ = ++device_.recordings.marks;
};

}  // namespace

size_t operation_size(const uint64_t *words) {
  if (*words == COPY) return COPY_WORDS;
  const Kernel *kernel = reinterpret_cast<const Kernel *>(words[1]);
  return LAUNCH_WORDS + BINDING_WORDS * kernel->buffers + kernel->scalars;
}

Recording *record(Device &device, const List<uint64_t> &words, VkQueryPool queries) {
  Recording *recording = new Recording();
  recording->words.assign(words);
  if (Recorder(device, *recording).run(queries)) return recording;
  destroy_recording(device, recording);
  return nullptr;
}

void destroy_recording(Device &device, Recording *recording) {
  if (recording->commands != nullptr)
    device.vk.FreeCommandBuffers(device.handle, device.command_pool, 1, &recording->commands);
  if (recording->descriptors) device.vk.DestroyDescriptorPool(device.handle, recording->descriptors, nullptr);
  delete recording;
}

}  // namespace tvmbuild
