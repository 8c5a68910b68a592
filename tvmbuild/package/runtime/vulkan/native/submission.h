// Submissions to the device's queues. Each queue numbers its own in order; each has a fence, for which the host waits.
//
// A card has engines that copy while others compute, and queues of their own for them. Work on memory that another
// queue has used last waits for that on the device, by the queue's timeline semaphore.
#pragma once
#include "list.h"
#include "vulkan_functions.h"

namespace tvmbuild {

struct Device;

enum Engine : uint32_t { COMPUTE, UPLOAD, DOWNLOAD };
constexpr uint32_t ENGINES = 3;

struct Submission {
  Engine engine;
  uint64_t number;
};

// The latest of some submissions to each queue.
struct Progress {
  uint64_t of[ENGINES];
  void reach(const Submission &submission) {
    if (submission.number > of[submission.engine]) of[submission.engine] = submission.number;
  }
  void reach(const Progress &other) {
    for (uint32_t engine = 0; engine < ENGINES; engine++)
      if (other.of[engine] > of[engine]) of[engine] = other.of[engine];
  }
  bool operator==(const Progress &other) const { return memcmp(of, other.of, sizeof(of)) == 0; }
};

// The queue of an engine.
struct DeviceQueue {
  VkQueue handle;  // null: the device has no such engine
  VkCommandPool command_pool;
  VkSemaphore timeline;      // the number of the last submission that is done; 0: COMPUTE is the only queue
  uint64_t last, completed;  // numbers; all before a completed one are completed too
};

struct PendingFence {
  Submission submission;
  Progress after;  // what it waits for
  VkFence fence;
  int waiters;
};

struct Fences {
  List<PendingFence> pending;
  List<VkFence> free;
};

enum class WhileWaiting { UNLOCKED, LOCKED };

bool create_queues(Device &device);

// Destroy what `create_queues` created, of a device that was never used.
void destroy_queues(Device &device);

// Submit to an engine, with the device's lock held, after the work that other queues have `reached`.
bool submit(Device &device, VkCommandBuffer commands, const Progress &reached, Submission &submission);

bool is_done(const Device &device, const Submission &submission);

// Wait until submissions and all before them are done. Others may use the device meanwhile, unless it stays locked.
bool wait_for(Device &device, const Progress &reached, WhileWaiting how = WhileWaiting::UNLOCKED);
bool wait_for(Device &device, const Submission &submission, WhileWaiting how = WhileWaiting::UNLOCKED);

}  // namespace tvmbuild
