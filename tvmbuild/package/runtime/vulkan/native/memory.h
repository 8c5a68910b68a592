// A device's allocations. What TVM takes for a pointer is always an address of this process: the mapped memory where
// device and CPU share it, else a range that is reserved and never touched, so that arithmetic and look-ups are alike.
#pragma once
#include "memory_block.h"

namespace tvmbuild {

struct Memory : OnHeap {
  uint64_t id;  // never used again: a later allocation may have the same address
  uint64_t address;
  size_t size;
  Block *block;
  VkBuffer buffer;            // the block's
  uint64_t base;              // where in it
  char *mapped;               // null: only the device reaches it
  uint64_t readers, writers;  // queues with unsubmitted work on it, a bit each
  uint64_t last_use;          // the latest submission that touches it
  uint64_t mark;              // of the recording that listed it last
  bool is_stale;              // what should have been written was given up
};

// Null with the failure set. The device's lock is held in all of these.
Memory *allocate_memory(Device &device, size_t size, MemoryUse use);
void release_memory(Device &device, Memory *memory);

// The allocation that an address lies in, or null.
Memory *find_memory(Device &device, uint64_t address);
void add_memory(Device &device, Memory *memory);
void remove_memory(Device &device, const Memory *memory);

}  // namespace tvmbuild
