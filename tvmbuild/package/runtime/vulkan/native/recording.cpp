#include "recording.h"

#include "device.h"
#include "hazards.h"
#include "kernel.h"

namespace tvmbuild {
namespace {

// What the commands of a queue do to memory.
struct Commands {
  VkFlags stages, reads, writes;
};

constexpr Commands COPIES = {VK_PIPELINE_STAGE_TRANSFER_BIT, VK_ACCESS_TRANSFER_READ_BIT, VK_ACCESS_TRANSFER_WRITE_BIT};
constexpr Commands ALL = {COPIES.stages | VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                          COPIES.reads | VK_ACCESS_SHADER_READ_BIT, COPIES.writes | VK_ACCESS_SHADER_WRITE_BIT};

// Turns operations into commands.
class Recorder {
 public:
  Recorder(Device &device, Recording &recording)
      : device_(device),
        vk_(device.vk),
        recording_(recording),
        commands_(recording.last.engine == COMPUTE ? ALL : COPIES) {}

  bool run(VkQueryPool queries) {
    VkCommandBufferAllocateInfo allocate = {};
    allocate.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    allocate.commandPool = device_.queues[recording_.last.engine].command_pool;
    allocate.commandBufferCount = 1;
    if (!check(device_, vk_.AllocateCommandBuffers(device_.handle, &allocate, &recording_.commands), "record"))
      return false;
    VkCommandBufferBeginInfo begin = {};
    begin.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    if (!make_descriptor_pool() || !check(device_, vk_.BeginCommandBuffer(recording_.commands, &begin), "record"))
      return false;
    barrier();  // earlier submissions come first
    uint32_t query = 0;
    if (queries != 0) vk_.CmdResetQueryPool(recording_.commands, queries, 0, 2 * recording_.operations.count());
    for (Operation operation : recording_.operations) {
      if (queries != 0) write_time(queries, query++);
      if (operation.is_launch() ? !record_launch(operation) : !record_copy(operation.copy())) return false;
      if (queries != 0) write_time(queries, query++);
    }
    barrier_to(VK_PIPELINE_STAGE_HOST_BIT, VK_ACCESS_HOST_READ_BIT);
    return check(device_, vk_.EndCommandBuffer(recording_.commands), "record");
  }

 private:
  void list_memory(Memory *memory) {
    if (memory->mark == mark_) return;
    memory->mark = mark_;
    recording_.memories.add(memory);
  }

  void barrier() {
    barrier_to(commands_.stages, commands_.reads | commands_.writes);
    hazards_.clear();
  }

  void barrier_to(VkFlags stages, VkFlags accesses) {
    VkMemoryBarrier memory = {VK_STRUCTURE_TYPE_MEMORY_BARRIER, nullptr, commands_.writes, accesses};
    vk_.CmdPipelineBarrier(recording_.commands, commands_.stages, stages, 0, 1, &memory, 0, nullptr, 0, nullptr);
  }

  bool make_descriptor_pool() {
    uint32_t sets = 0, bindings = 0;
    for (Operation operation : recording_.operations) {
      if (!operation.is_launch()) continue;
      Launch launch = operation.launch();
      if (launch.on->pushes || launch.places == 0) continue;
      sets++;
      bindings += launch.places;
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

  bool record_launch(Operation operation) {
    const Launch launch = operation.launch();
    const Kernel &kernel = *launch.kernel;
    const KernelOnDevice &on = *launch.on;
    VkDescriptorBufferInfo infos[MAX_BUFFERS];
    bool conflicts = false;
    for (uint32_t index = 0; index < launch.places; index++) {
      const Place place = operation.place(index);
      const Memory &memory = *place.memory;
      list_memory(place.memory);
      infos[index] = {memory.buffer, memory.base + place.offset, descriptor_range(device_, memory, place.offset)};
      conflicts |= hazards_.conflicts(&memory, place.offset, memory.size, kernel.is_written(index));
    }
    if (conflicts) barrier();
    for (uint32_t index = 0; index < launch.places; index++) {
      const Place place = operation.place(index);
      hazards_.add(place.memory, place.offset, place.memory->size, kernel.is_written(index));
    }
    if (last_ != &on) vk_.CmdBindPipeline(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.pipeline);
    last_ = &on;
    if (launch.places > 0 && !bind(launch, infos)) return false;
    if (launch.scalars > 0)
      vk_.CmdPushConstants(recording_.commands, on.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0,
                           sizeof(uint64_t) * launch.scalars, operation.scalars());
    vk_.CmdDispatch(recording_.commands, launch.groups[0], launch.groups[1], launch.groups[2]);
    return true;
  }

  bool bind(const Launch &launch, const VkDescriptorBufferInfo *infos) {
    const KernelOnDevice &on = *launch.on;
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
    for (uint32_t index = 0; index < launch.places; index++)
      writes[index] = {VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, nullptr, set,           index,  0, 1,
                       VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,      nullptr, &infos[index], nullptr};
    if (on.pushes) {
      vk_.push_descriptors(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.layout, 0, launch.places, writes);
      return true;
    }
    vk_.UpdateDescriptorSets(device_.handle, launch.places, writes, 0, nullptr);
    vk_.CmdBindDescriptorSets(recording_.commands, VK_PIPELINE_BIND_POINT_COMPUTE, on.layout, 0, 1, &set, 0, nullptr);
    return true;
  }

  bool record_copy(const Copy &copy) {
    const Place &from = copy.from, &to = copy.to;
    list_memory(from.memory);
    list_memory(to.memory);
    if (hazards_.conflicts(from.memory, from.offset, from.offset + copy.size, false) ||
        hazards_.conflicts(to.memory, to.offset, to.offset + copy.size, true))
      barrier();
    hazards_.add(from.memory, from.offset, from.offset + copy.size, false);
    hazards_.add(to.memory, to.offset, to.offset + copy.size, true);
    VkBufferCopy region = {from.memory->base + from.offset, to.memory->base + to.offset, copy.size};
    vk_.CmdCopyBuffer(recording_.commands, from.memory->buffer, to.memory->buffer, 1, &region);
    return true;
  }

  // One operation at a time, so that each has its own time. All earlier work is done at both of its timestamps: at the
  // top of the pipe a timestamp is written while the operation before still runs.
  void write_time(VkQueryPool queries, uint32_t query) {
    if (query % 2 == 0) barrier();
    vk_.CmdWriteTimestamp(recording_.commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, queries, query);
  }

  Device &device_;
  const DeviceFunctions &vk_;
  Recording &recording_;
  const Commands commands_;
  Hazards hazards_;
  const KernelOnDevice *last_ = nullptr;
  uint64_t mark_ = ++device_.recordings.marks;
};

}  // namespace

Recording *record(Device &device, const Operations &operations, Engine engine, VkQueryPool queries) {
  Recording *recording = new Recording();
  recording->last.engine = engine;
  recording->operations.assign(operations);
  if (Recorder(device, *recording).run(queries)) return recording;
  destroy_recording(device, recording);
  return nullptr;
}

bool submit_recording(Device &device, Recording &recording) {
  Progress reached = {};
  for (const Memory *memory : recording.memories) reached.reach(memory->uses);
  if (!submit(device, recording.commands, reached, recording.last)) return false;
  for (Memory *memory : recording.memories) memory->uses.reach(recording.last);
  return true;
}

void destroy_recording(Device &device, Recording *recording) {
  if (recording->commands != nullptr) {
    VkCommandPool pool = device.queues[recording->last.engine].command_pool;
    device.vk.FreeCommandBuffers(device.handle, pool, 1, &recording->commands);
  }
  if (recording->descriptors) device.vk.DestroyDescriptorPool(device.handle, recording->descriptors, nullptr);
  delete recording;
}

}  // namespace tvmbuild
