// Lists of operations as command buffers. A list that equals an earlier one submits the command buffer of then: that is
// the replay of an inference. Memory and kernels are told by numbers that are never used again.
#pragma once
#include "memory.h"

namespace tvmbuild {

struct Device;
struct Kernel;
struct KernelOnDevice;

// The words of an operation.
//   launch: LAUNCH, kernel, its pipeline, its number, x | y << 32, z, three a buffer (memory, number, offset), the
//           scalars
//   copy:   COPY, memory, number, offset, memory, number, offset, bytes
enum Operation : uint64_t { LAUNCH = 1, COPY = 2 };
constexpr size_t LAUNCH_WORDS = 6, BINDING_WORDS = 3, COPY_WORDS = 8;

struct Recording : OnHeap {
  List<uint64_t> words;
  uint64_t hash;
  List<Memory *> memories;
  VkCommandBuffer commands;
  VkDescriptorPool descriptors;  // 0 where they are pushed
  uint64_t last;                 // its latest submission
  uint64_t used;                 // when, for the one to forget
};

struct Recordings {
  List<Recording *> kept;
  uint64_t clock, marks;
};

// The command buffer for these operations, recorded unless it is there. The device's lock is held in all of these.
Recording *find_recording(Device &device, const List<uint64_t> &words);
// One that is not kept; with `queries` it writes a timestamp before and after each operation.
Recording *record(Device &device, const List<uint64_t> &words, VkQueryPool queries);
void destroy_recording(Device &device, Recording *recording);

// What mentions them is forgotten, after its work is done.
void forget_memory(Device &device, const Memory *memory);
void forget_kernel(Device &device, const Kernel *kernel);

size_t operation_size(const uint64_t *words);

}  // namespace tvmbuild
