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
  Submissions &all = device.submissions;
  size_t kept = 0;
  for (Submission &each : all.pending) {
    bool is_done = each.waiters == 0 && each.number <= all.completed &&
                   device.vk.GetFenceStatus(device.handle, each.fence) == VK_SUCCESS &&
                   device.vk.ResetFences(device.handle, 1, &each.fence) == VK_SUCCESS;
    if (is_done)
      all.free_fences.add(each.fence);
    else
      all.pending[kept++] = each;
  }
  all.pending.shrink(kept);
}

Submission *find(Submissions &all, uint64_t number) {
  for (Submission &each : all.pending)
    if (each.number == number) return &each;
  return nullptr;
}

}  // namespace

bool submit(Device &device, VkCommandBuffer commands, uint64_t &number) {
  if (!check_alive(device)) return false;
  Submissions &all = device.submissions;
  VkFence fence = 0;
  if (all.free_fences.size() > 0) {
    fence = all.free_fences.back();
    all.free_fences.shrink(all.free_fences.size() - 1);
  } else {
    VkFenceCreateInfo info = {};
    info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    if (!check(device, device.vk.CreateFence(device.handle, &info, nullptr, &fence), "create a fence")) return false;
  }
  VkSubmitInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &commands;
  VkResult result = device.vk.QueueSubmit(device.queue, 1, &info, fence);
  if (result != VK_SUCCESS) {
    all.free_fences.add(fence);
    return check(device, result, "submit work");
  }
  number = ++all.last;
  all.pending.add({number, fence, 0});
  return true;
}

bool wait_for(Device &device, uint64_t number, WhileWaiting how) {
  Submissions &all = device.submissions;
  if (number <= all.completed) return true;
  if (!check_alive(device)) return false;
  Submission *waited = find(all, number);
  if (waited == nullptr) return true;  // reclaimed
  VkFence fence = waited->fence;
  waited->waiters++;
  VkResult result = how == WhileWaiting::UNLOCKED ? wait_unlocked(device, fence) : wait_for_fence(device, fence);
  find(all, number)->waiters--;  // the list may have moved
  if (!check(device, result, "finish its work")) return false;
  if (number > all.completed) all.completed = number;
  reclaim(device);
  return true;
}

}  // namespace tvmbuild
