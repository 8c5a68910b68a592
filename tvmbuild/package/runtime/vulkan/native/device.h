// A device in use: its queues, its memory, and the work that waits for it.
#pragma once
#include <pthread.h>

#include "device_choice.h"
#include "memory.h"
#include "profile.h"
#include "recording.h"
#include "submission.h"
#include "work_queue.h"

namespace tvmbuild {

// One lock guards all fields except pipelines, which take long to make and have their own lock.
struct Device : OnHeap {
  const VulkanLibrary *library;
  DeviceInfo info;
  int index;
  VkDevice handle;
  DeviceFunctions vk;
  DeviceQueue queues[ENGINES];
  Fences fences;
  pthread_mutex_t lock;
  bool is_lost;
  char given_up[512];  // the reason of the last failure that discarded work

  List<Memory *> memories;  // sorted by address
  List<Block *> blocks;     // shared ones
  uint64_t memory_ids;
  uint64_t allocated;  // bytes of the device's own memory
  WorkQueue work_queues[MAX_WORK_QUEUES];
  Recordings recordings;

  pthread_mutex_t pipeline_lock;
  VkPipelineCache pipeline_cache;
  int unsaved_pipelines;
  uint64_t saved_at;

  bool is_profiling;
  List<OperationTime> times;  // of the current profile
};

// The number of devices. 0 with the failure set if there is no driver.
int count_devices();

// The properties of a device, without starting it. Null with the failure set if there is none.
const DeviceInfo *find_device_info(int index);

// The device, started at its first use. Null with the failure set.
Device *use_device(int index);

// The device if it is started, else null.
Device *started_device(int index);

// Once a device is lost, every later call fails with the same words.
bool check_alive(Device &device);
bool check(Device &device, VkResult result, const char *what);

}  // namespace tvmbuild
