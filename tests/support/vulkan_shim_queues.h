// The part of vulkan_shim.cpp that shows queues which only copy, as cards have. Their work runs on the one real queue,
// in the order of the calls; on a card it would run beside that of other queues. So each use of memory must have an
// order by a semaphore, a fence or the queue itself (shim_order.h), and the process aborts at the first that has none.

[[noreturn]] void abort_for(const char *what, const char *more = "") {
  fprintf(stderr, "vulkan shim: mistake: %s%s\n", what, more);
  abort();
}

constexpr uint32_t COPY_FAMILY = 1;  // lavapipe has one family of its own
constexpr int MAX_USES = 2048, MAX_BOUND = 64;

struct UsedRange {
  uint64_t first, size;
  bool is_write;
};
struct NotedCommands {
  VkCommandBuffer handle;  // null: the place is free
  bool only_copies;
  int count;
  UsedRange uses[MAX_USES];
};
struct NotedBuffer {
  VkBuffer handle;
  VkDeviceSize size;
  bool is_concurrent;
};
struct NotedSet {
  VkDescriptorSet handle;
  int count;
  UsedRange uses[MAX_BOUND];
};
struct Signal {
  uint64_t semaphore, value;
  shim::Clock clock;
};
struct FenceClock {
  VkFence fence;
  shim::Clock clock;
};

// What one card's queues do. Buffers lie one after the other in an address space of the shim's own.
struct Noted {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  shim::Order order;
  NotedCommands commands[256];
  NotedBuffer buffers[4096];
  NotedSet sets[4096];  // the last ones
  Signal signals[4096];
  uint64_t set_count, signal_count;
  FenceClock fences[4096];
  VkCommandPool copy_pools[16];
  int objects;  // command pools and semaphores
};
Noted *noted_devices[16];

uint32_t count_copy_queues(const Shown &device) {
  uint32_t count = MAX_COPY_QUEUES;
  set("copy_queues", count);
  return device.is_card() ? count : 0;
}

// Null for a device without queues that only copy.
Noted *noted(const void *device) {
  const Shown &on = of(device);
  if (!on.has_copy_queues) return nullptr;
  Noted *&place = noted_devices[on.index];
  if (place == nullptr) {
    place = static_cast<Noted *>(calloc(1, sizeof(Noted)));
    for (int queue = 0; queue < 2; queue++) place->order.add_stream();
  }
  return place;
}

// Which card a command buffer is of: the only one that has it.
NotedCommands *find_commands(VkCommandBuffer handle, Noted **of_device = nullptr) {
  for (Noted *device : noted_devices) {
    if (device == nullptr) continue;
    for (NotedCommands &each : device->commands)
      if (each.handle == handle) {
        if (of_device != nullptr) *of_device = device;
        return &each;
      }
  }
  return nullptr;
}

template <class T, size_t count, class Handle>
T &place_for(T (&all)[count], Handle T::*member, Handle handle) {
  T *free = nullptr;
  for (T &each : all) {
    if (each.*member == handle) return each;
    if (each.*member == Handle() && free == nullptr) free = &each;
  }
  if (free == nullptr) abort_for("more objects than the shim counts");
  free->*member = handle;
  return *free;
}

UsedRange range_of(Noted &device, VkBuffer handle, uint64_t offset, uint64_t size, bool is_write) {
  for (NotedBuffer &each : device.buffers)
    if (each.handle == handle) {
      if (size == ~0ull) size = each.size - offset;
      return {(static_cast<uint64_t>(&each - device.buffers) << 40) + offset, size, is_write};
    }
  abort_for("a buffer that is not there");
}

void note_use(NotedCommands &commands, const UsedRange &use) {
  if (commands.count == MAX_USES) abort_for("more uses than the shim counts");
  commands.uses[commands.count++] = use;
}

template <>
void Hooks::GetDeviceQueue::change(VkDevice device, uint32_t family, uint32_t index, VkQueue *queue) {
  Shown &on = of(device);
  if (family == COPY_FAMILY && on.has_copy_queues) {
    *queue = reinterpret_cast<VkQueue>(&on.copy_queues[index]);
    return;
  }
  next(device, family, index, queue);
  on.queue = *queue;
}

template <>
VkResult Hooks::CreateCommandPool::change(VkDevice device, const VkCommandPoolCreateInfo *info, const void *no,
                                          VkCommandPool *pool) {
  Noted *all = noted(device);
  VkCommandPoolCreateInfo changed = *info;
  if (all != nullptr) changed.queueFamilyIndex = 0;
  VkResult result = next(device, &changed, no, pool);
  if (all != nullptr && result == VK_SUCCESS) all->objects++;
  if (all == nullptr || result != VK_SUCCESS || info->queueFamilyIndex != COPY_FAMILY) return result;
  for (VkCommandPool &each : all->copy_pools)
    if (each == 0) return each = *pool, result;
  abort_for("more command pools than the shim counts");
}

template <>
void Hooks::DestroyCommandPool::change(VkDevice device, VkCommandPool pool, const void *no) {
  if (Noted *all = noted(device)) {
    all->objects--;
    for (VkCommandPool &each : all->copy_pools)
      if (each == pool) each = 0;
  }
  next(device, pool, no);
}

template <>
VkResult Hooks::CreateSemaphore::change(VkDevice device, const VkSemaphoreCreateInfo *info, const void *no,
                                        VkSemaphore *semaphore) {
  VkResult result = next(device, info, no, semaphore);
  if (Noted *all = result == VK_SUCCESS ? noted(device) : nullptr) all->objects++;
  return result;
}

template <>
void Hooks::DestroySemaphore::change(VkDevice device, VkSemaphore semaphore, const void *no) {
  if (Noted *all = noted(device)) all->objects--;
  next(device, semaphore, no);
}

template <>
void Hooks::DestroyDevice::change(VkDevice device, const void *no) {
  Noted *all = noted(device);
  if (all != nullptr && all->objects != 0) abort_for("a device that is destroyed before its queues' objects");
  next(device, no);
}

template <>
VkResult Hooks::AllocateCommandBuffers::change(VkDevice device, const VkCommandBufferAllocateInfo *info,
                                               VkCommandBuffer *commands) {
  VkResult result = next(device, info, commands);
  Noted *all = noted(device);
  if (all == nullptr || result != VK_SUCCESS) return result;
  NotedCommands &mine = place_for(all->commands, &NotedCommands::handle, *commands);
  mine.count = 0;
  mine.only_copies = false;
  for (VkCommandPool each : all->copy_pools) mine.only_copies |= each == info->commandPool;
  return result;
}

template <>
void Hooks::FreeCommandBuffers::change(VkDevice device, VkCommandPool pool, uint32_t count,
                                       const VkCommandBuffer *commands) {
  if (NotedCommands *mine = find_commands(*commands)) mine->handle = nullptr;
  next(device, pool, count, commands);
}

template <>
VkResult Hooks::CreateBuffer::change(VkDevice device, const VkBufferCreateInfo *info, const void *no,
                                     VkBuffer *buffer) {
  Noted *all = noted(device);
  if (all == nullptr) return next(device, info, no, buffer);
  VkBufferCreateInfo changed = *info;
  changed.sharingMode = 0;
  changed.queueFamilyIndexCount = 0;
  VkResult result = next(device, &changed, no, buffer);
  if (result != VK_SUCCESS) return result;
  NotedBuffer &mine = place_for(all->buffers, &NotedBuffer::handle, *buffer);
  mine.size = info->size;
  bool names_both = info->queueFamilyIndexCount == 2 && info->pQueueFamilyIndices[1] == COPY_FAMILY;
  if (info->sharingMode != VK_SHARING_MODE_CONCURRENT || !names_both)
    abort_for("a buffer that one family of queues has alone");
  return result;
}

template <>
void Hooks::DestroyBuffer::change(VkDevice device, VkBuffer buffer, const void *no) {
  if (Noted *all = noted(device)) {
    pthread_mutex_lock(&all->lock);
    NotedBuffer &mine = place_for(all->buffers, &NotedBuffer::handle, buffer);
    uint64_t first = static_cast<uint64_t>(&mine - all->buffers) << 40;
    const shim::Use *user = all->order.find_user(first, mine.size);
    if (user != nullptr && !of(device).is_lost) abort_for("memory is released under ", user->what);
    mine.handle = 0;
    pthread_mutex_unlock(&all->lock);
  }
  next(device, buffer, no);
}

template <>
void Hooks::CmdCopyBuffer::change(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                  const VkBufferCopy *regions) {
  Noted *device = nullptr;
  if (NotedCommands *mine = find_commands(commands, &device)) {
    note_use(*mine, range_of(*device, from, regions->srcOffset, regions->size, false));
    note_use(*mine, range_of(*device, to, regions->dstOffset, regions->size, true));
  }
  next(commands, from, to, count, regions);
}

template <>
void Hooks::CmdDispatch::change(VkCommandBuffer commands, uint32_t x, uint32_t y, uint32_t z) {
  NotedCommands *mine = find_commands(commands);
  if (mine != nullptr && mine->only_copies) abort_for("a kernel on a queue that only copies");
  next(commands, x, y, z);
}

template <>
void Hooks::CmdPipelineBarrier::change(VkCommandBuffer commands, VkFlags from, VkFlags to, VkFlags flags,
                                       uint32_t count, const VkMemoryBarrier *memory, uint32_t no_buffers,
                                       const void *buffers, uint32_t no_images, const void *images) {
  NotedCommands *mine = find_commands(commands);
  VkFlags accesses = memory->srcAccessMask | memory->dstAccessMask;
  bool computes = ((from | to) & VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT) ||
                  (accesses & (VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT));
  if (mine != nullptr && mine->only_copies && computes) abort_for("a kernel's barrier on a queue that only copies");
  next(commands, from, to, flags, count, memory, no_buffers, buffers, no_images, images);
}

// A kernel may write each of its buffers.
CmdPushDescriptorSet push_descriptors;

void push_and_note(VkCommandBuffer commands, uint32_t point, VkPipelineLayout layout, uint32_t set, uint32_t count,
                   const VkWriteDescriptorSet *writes) {
  Noted *device = nullptr;
  if (NotedCommands *mine = find_commands(commands, &device))
    for (uint32_t index = 0; index < count; index++) {
      const VkDescriptorBufferInfo &info = *writes[index].pBufferInfo;
      note_use(*mine, range_of(*device, info.buffer, info.offset, info.range, true));
    }
  push_descriptors(commands, point, layout, set, count, writes);
}

NotedSet &set_of(Noted &all, VkDescriptorSet handle) {
  for (NotedSet &each : all.sets)
    if (each.handle == handle) return each;
  NotedSet &oldest = all.sets[all.set_count++ % (sizeof(all.sets) / sizeof(NotedSet))];
  oldest = {handle, 0, {}};
  return oldest;
}

template <>
void Hooks::UpdateDescriptorSets::change(VkDevice device, uint32_t count, const VkWriteDescriptorSet *writes,
                                         uint32_t copies, const void *no) {
  if (Noted *all = noted(device)) {
    NotedSet &set = set_of(*all, writes->dstSet);
    set.count = 0;
    for (uint32_t index = 0; index < count; index++) {
      const VkDescriptorBufferInfo &info = *writes[index].pBufferInfo;
      set.uses[set.count++] = range_of(*all, info.buffer, info.offset, info.range, true);
    }
  }
  next(device, count, writes, copies, no);
}

template <>
void Hooks::CmdBindDescriptorSets::change(VkCommandBuffer commands, uint32_t point, VkPipelineLayout layout,
                                          uint32_t first, uint32_t count, const VkDescriptorSet *sets, uint32_t offsets,
                                          const uint32_t *no) {
  Noted *device = nullptr;
  if (NotedCommands *mine = find_commands(commands, &device)) {
    const NotedSet &set = set_of(*device, *sets);
    for (int index = 0; index < set.count; index++) note_use(*mine, set.uses[index]);
  }
  next(commands, point, layout, first, count, sets, offsets, no);
}

void log_queue(int queue) {
  FILE *log = getenv("SHIM_LOG") != nullptr ? fopen(getenv("SHIM_LOG"), "a") : nullptr;
  if (log == nullptr) return;
  fprintf(log, "%d\n", queue);
  fclose(log);
}

// Order a submission behind what it waits for, and look at its uses of memory.
void note_submission(Noted &all, int queue, const VkSubmitInfo &info, VkFence fence) {
  auto *values = static_cast<const VkTimelineSemaphoreSubmitInfo *>(info.pNext);
  if (values == nullptr || values->waitSemaphoreValueCount != info.waitSemaphoreCount ||
      values->signalSemaphoreValueCount != 1)
    abort_for("a submission without the values of its semaphores");
  all.order.begin(queue);
  for (uint32_t index = 0; index < info.waitSemaphoreCount; index++) {
    const Signal *found = nullptr;
    for (const Signal &each : all.signals)
      if (each.semaphore == info.pWaitSemaphores[index] && each.value == values->pWaitSemaphoreValues[index])
        found = &each;
    if (found == nullptr) abort_for("a wait for what was not submitted");
    all.order.wait(queue, found->clock);
  }
  const NotedCommands &mine = place_for(all.commands, &NotedCommands::handle, *info.pCommandBuffers);
  if (mine.only_copies != (queue > 0)) abort_for("commands of another family of queues");
  const char *what = queue > 0 ? "copies on their own queue" : "kernels";
  for (int index = 0; index < mine.count; index++) {
    const UsedRange &use = mine.uses[index];
    const shim::Use *other = all.order.add(queue, use.first, use.size, use.is_write, what);
    if (other != nullptr && other->stream != queue) abort_for("no order of kernels and copies: ", other->what);
  }
  Signal &signal = all.signals[all.signal_count++ % (sizeof(all.signals) / sizeof(Signal))];
  signal = {*info.pSignalSemaphores, *values->pSignalSemaphoreValues, all.order.of(queue)};
  place_for(all.fences, &FenceClock::fence, fence).clock = all.order.of(queue);
}

template <>
VkResult Hooks::QueueSubmit::change(VkQueue queue, uint32_t count, const VkSubmitInfo *info, VkFence fence) {
  Shown &on = of(queue);
  Noted *all = noted(queue);
  int number = copy_queue_of(on, queue);
  VkResult result = next(number > 0 ? on.queue : queue, count, info, fence);
  if (all == nullptr || result != VK_SUCCESS) return result;
  pthread_mutex_lock(&all->lock);
  log_queue(number);
  note_submission(*all, number, *info, fence);
  pthread_mutex_unlock(&all->lock);
  return result;
}

void note_fence(VkDevice device, VkFence fence) {
  Noted *all = noted(device);
  if (all == nullptr) return;
  pthread_mutex_lock(&all->lock);
  all->order.host_waits(place_for(all->fences, &FenceClock::fence, fence).clock);
  pthread_mutex_unlock(&all->lock);
}

template <>
VkResult Hooks::GetFenceStatus::change(VkDevice device, VkFence fence) {
  VkResult result = next(device, fence);
  if (result == VK_SUCCESS) note_fence(device, fence);
  return result;
}

template <>
VkResult Hooks::WaitForFences::change(VkDevice device, uint32_t count, const VkFence *fences, VkBool32 all,
                                      uint64_t timeout) {
  VkResult result = next(device, count, fences, all, timeout);
  if (result == VK_SUCCESS) note_fence(device, *fences);
  return result;
}
