// Submissions to the device: numbered in order, with a fence each.
#pragma once
#include "list.h"
#include "vulkan_functions.h"

namespace tvmbuild {

struct Device;

struct Submission {
  uint64_t number;
  VkFence fence;
  int waiters;
};

struct Submissions {
  List<Submission> pending;  // by number
  List<VkFence> free_fences;
  uint64_t last, completed;  // numbers; all before a completed one are completed too
};

enum class WhileWaiting { UNLOCKED, LOCKED };

// Submit, with the device's lock held. `number` is set to the submission's number.
bool submit(Device &device, VkCommandBuffer commands, uint64_t &number);

// Wait until a submission and all before it are done. Others may use the device meanwhile, unless it stays locked.
bool wait_for(Device &device, uint64_t number, WhileWaiting how = WhileWaiting::UNLOCKED);

}  // namespace tvmbuild
