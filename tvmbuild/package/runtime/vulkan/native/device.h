// A device in use: its queue, its memory, and the work that waits for it.
#pragma once
#include <pthread.h>

#include "device_choice.h"
#include "memory.h"
#include "profile.h"
#include "recording.h"
#include "submission.h"
#include "work_queue.h"

namespace tvmbuild {

// One lock guards all of it, but for pipelines, which take long to make and have a lock of their own.
struct Device : OnHeap {
  const VulkanLibrary *library;
  DeviceInfo info;
  int index;
  VkDevice handle;
  DeviceFunctions vk;
  VkQueue queue;
  VkCommandPool command_pool;
  pthread_mutex_t lock;
  bool is_lost;
  char given_up[512];  // why, of what was given up last

  List<Memory *> memories;  // by address
  List<Block *> blocks;     // shared ones
  uint64_t memory_ids;
  uint64_t allocated;  // bytes of its own memory
  WorkQueue work_queues[MAX_WORK_QUEUES];
  Submissions submissions;
  Recordings recordings;

  pthread_mutex_t pipeline_lock;
  VkPipelineCache pipeline_cache;
  int unsaved_pipelines;
  uint64_t saved_at;

  bool is_profiling;
  List<OperationTime> times;  // of this profile
};

// How many devices there are; 0 with the failure set where there is no driver.
int count_devices();

// What a device is, without making use of it; null with the failure set where there is none.
const DeviceInfo *find_device_info(int index);

// The device, started at its first use; null with the failure set.
Device *use_device(int index);

// Only those that are in use; null for others.
Device *started_device(int index);

// Every later call fails with these words too, once a device is lost.
bool check_alive(Device &device);
bool check(Device &device, VkResult result, const char *what);

}  // namespace tvmbuild
