// A device's allocations. TVM's pointer is always an address of this process: the mapped memory if device and CPU share
// it, else a reserved range that is never touched, so that arithmetic and look-ups are alike.
#pragma once
#include "memory_block.h"
#include "submission.h"

namespace tvmbuild {

struct Memory : OnHeap {
  uint64_t id;  // never used again: a later allocation may have the same address
  uint64_t address;
  size_t size;
  Block *block;
  VkBuffer buffer;            // the block's
  uint64_t base;              // its offset in the buffer
  char *mapped;               // null: only the device can access it
  uint64_t readers, writers;  // queues with unsubmitted work on it, a bit each
  Progress uses;              // the latest submissions that touch it
  uint64_t mark;              // of the last recording that listed it
  bool is_stale;              // work that should have written it was discarded
};

// Null with the failure set. The device's lock is held in all of these.
Memory *allocate_memory(Device &device, size_t size, MemoryUse use);
void release_memory(Device &device, Memory *memory);

// The allocation that contains an address, or null.
Memory *find_memory(Device &device, uint64_t address);
void add_memory(Device &device, Memory *memory);
void remove_memory(Device &device, const Memory *memory);

}  // namespace tvmbuild
