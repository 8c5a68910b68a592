#include "submission.h"

#include <time.h>
#include <unistd.h>

#include "device.h"
#include "lock.h"

namespace tvmbuild {
namespace {

constexpr uint64_t LOOKS_NS = 200000;  // spinning first: most waits are shorter than a wake-up
constexpr int MAX_FAILURES = 1000;     // of a driver that has no memory to wait with, a millisecond each

uint64_t now_ns() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000 + static_cast<uint64_t>(time.tv_nsec);
}

bool is_told(VkResult result) { return result == VK_SUCCESS || result == VK_ERROR_DEVICE_LOST; }

// The objects of a fence are in use until it is signalled: a wait that ends too early frees memory that is in use.
VkResult wait_for_fence(const Device &device, VkFence fence) {
  uint64_t end = now_ns() + LOOKS_NS;
  do {
    VkResult result = device.vk.GetFenceStatus(device.handle, fence);
    if (is_told(result)) return result;
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  } while (now_ns() < end);
  for (int failures = 0; failures < MAX_FAILURES;) {
    VkResult result = device.vk.WaitForFences(device.handle, 1, &fence, 1, ~0ull);
    if (is_told(result)) return result;
    if (result != VK_TIMEOUT) failures++, usleep(1000);  // VK_TIMEOUT: some drivers cannot wait as long as asked
  }
  return VK_ERROR_DEVICE_LOST;
}

VkResult wait_unlocked(Device &device, VkFence fence) {
  Unlock unlock(device.lock);
  return wait_for_fence(device, fence);
}

void reclaim(Device &device) {
  Fences &all = device.fences;
  size_t kept = 0;
  for (PendingFence &each : all.pending) {
    bool is_free = each.waiters == 0 && is_done(device, each.submission) &&
                   device.vk.GetFenceStatus(device.handle, each.fence) == VK_SUCCESS &&
                   device.vk.ResetFences(device.handle, 1, &each.fence) == VK_SUCCESS;
    if (is_free)
      all.free.add(each.fence);
    else
      all.pending[kept++] = each;
  }
  all.pending.shrink(kept);
}

PendingFence *find(Fences &all, const Submission &submission) {
  for (PendingFence &each : all.pending)
    if (each.submission.number == submission.number && each.submission.engine == submission.engine) return &each;
  return nullptr;
}

bool take_fence(Device &device, VkFence &fence) {
  List<VkFence> &free = device.fences.free;
  if (free.size() > 0) {
    fence = free.back();
    free.shrink(free.size() - 1);
    return true;
  }
  VkFenceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  return check(device, device.vk.CreateFence(device.handle, &info, nullptr, &fence), "create a fence");
}

bool create_timeline(Device &device, VkSemaphore &timeline) {
  VkSemaphoreTypeCreateInfo type = {};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info = {VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, &type, 0};
  return check(device, device.vk.CreateSemaphore(device.handle, &info, nullptr, &timeline), "create a semaphore");
}

bool create_queue(Device &device, Engine engine, uint32_t family, uint32_t index) {
  DeviceQueue &queue = device.queues[engine];
  device.vk.GetDeviceQueue(device.handle, family, index, &queue.handle);
  VkCommandPoolCreateInfo pool = {};
  pool.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
  pool.queueFamilyIndex = family;
  return check(device, device.vk.CreateCommandPool(device.handle, &pool, nullptr, &queue.command_pool),
               "create a command pool") &&
         (device.info.copy_queues == 0 || create_timeline(device, queue.timeline));
}

// What a submission waits for, and its own number, as values of the queues' timelines.
struct Timelines {
  VkTimelineSemaphoreSubmitInfo values;
  VkSemaphore semaphores[ENGINES];
  uint64_t waited[ENGINES], signalled;
  VkFlags stages[ENGINES];

  void fill(const Device &device, const Progress &reached, const Submission &submission, VkSubmitInfo &info) {
    for (uint32_t engine = 0; engine < ENGINES; engine++) {
      if (engine == submission.engine || reached.of[engine] <= device.queues[engine].completed) continue;
      uint32_t place = info.waitSemaphoreCount++;
      semaphores[place] = device.queues[engine].timeline;
      waited[place] = reached.of[engine];
      stages[place] = VK_PIPELINE_STAGE_ALL_COMMANDS_BIT;
    }
    signalled = submission.number;
    values = {
        VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO, nullptr, info.waitSemaphoreCount, waited, 1, &signalled};
    info.pNext = &values;
    info.pWaitSemaphores = semaphores;
    info.pWaitDstStageMask = stages;
    info.signalSemaphoreCount = 1;
    info.pSignalSemaphores = &device.queues[submission.engine].timeline;
  }
};

}  // namespace

bool create_queues(Device &device) {
  const DeviceInfo &info = device.info;
  return create_queue(device, COMPUTE, info.queue_family, 0) &&
         (info.copy_queues < 1 || create_queue(device, UPLOAD, info.copy_family, 0)) &&
         (info.copy_queues < 2 || create_queue(device, DOWNLOAD, info.copy_family, 1));
}

void destroy_queues(Device &device) {
  for (DeviceQueue &queue : device.queues) {
    if (queue.timeline != 0) device.vk.DestroySemaphore(device.handle, queue.timeline, nullptr);
    if (queue.command_pool != 0) device.vk.DestroyCommandPool(device.handle, queue.command_pool, nullptr);
  }
}

bool submit(Device &device, VkCommandBuffer commands, const Progress &reached, Submission &submission) {
  if (!check_alive(device)) return false;
  DeviceQueue &queue = device.queues[submission.engine];
  VkFence fence = 0;
  if (!take_fence(device, fence)) return false;
  submission.number = queue.last + 1;
  VkSubmitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  Timelines timelines;
  if (queue.timeline != 0) timelines.fill(device, reached, submission, info);
  VkResult result = device.vk.QueueSubmit(queue.handle, 1, &info, fence);
  if (result != VK_SUCCESS) {
    device.fences.free.add(fence);
    return check(device, result, "submit work");
  }
  queue.last = submission.number;
  device.fences.pending.add({submission, reached, fence, 0});
  return true;
}

bool is_done(const Device &device, const Submission &submission) {
  return submission.number <= device.queues[submission.engine].completed;
}

bool wait_for(Device &device, const Submission &submission, WhileWaiting how) {
  if (is_done(device, submission)) return true;
  if (!check_alive(device)) return false;
  PendingFence *waited = find(device.fences, submission);
  if (waited == nullptr) return true;  // reclaimed
  VkFence fence = waited->fence;
  waited->waiters++;
  VkResult result = how == WhileWaiting::UNLOCKED ? wait_unlocked(device, fence) : wait_for_fence(device, fence);
  waited = find(device.fences, submission);  // the list may have moved
  waited->waiters--;
  if (!check(device, result, "finish its work")) return false;
  Progress done = waited->after;
  done.reach(submission);
  for (uint32_t engine = 0; engine < ENGINES; engine++) {
    uint64_t &completed = device.queues[engine].completed;
    if (done.of[engine] > completed) completed = done.of[engine];
  }
  reclaim(device);
  return true;
}

bool wait_for(Device &device, const Progress &reached, WhileWaiting how) {
  const Progress wanted = reached;  // it may lie in memory that others change or free meanwhile
  for (uint32_t engine = 0; engine < ENGINES; engine++)
    if (!wait_for(device, Submission{static_cast<Engine>(engine), wanted.of[engine]}, how)) return false;
  return true;
}

}  // namespace tvmbuild
