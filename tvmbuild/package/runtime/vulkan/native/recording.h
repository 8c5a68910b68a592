// Lists of operations as command buffers. A list that equals an earlier one submits the earlier command buffer: this
// replays an inference.
#pragma once
#include "memory.h"
#include "operations.h"

namespace tvmbuild {

struct Device;
struct Kernel;

struct Recording : OnHeap {
  Operations operations;
  uint64_t hash;
  List<Memory *> memories;
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;  // 0: they are pushed
  Submission last;               // its latest submission; all are to the same engine
  uint64_t used;                 // time of the last use: the oldest is forgotten
};

struct Recordings {
  List<Recording *> kept;
  uint64_t clock, marks;
};

// The command buffer for these operations, recorded unless it exists. The device's lock is held in all of these.
Recording *find_recording(Device &device, const Operations &operations, Engine engine);
// A recording that is not kept. With `queries` it writes a timestamp before and after each operation.
Recording *record(Device &device, const Operations &operations, Engine engine, VkQueryPool queries);
// Submit it, after all work on its memory.
bool submit_recording(Device &device, Recording &recording);
void destroy_recording(Device &device, Recording *recording);

// Forget the recordings that mention it, after their work is done.
void forget_memory(Device &device, const Memory *memory);
void forget_kernel(Device &device, const Kernel *kernel);

}  // namespace tvmbuild
