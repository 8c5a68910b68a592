// A Vulkan allocation: a large tensor's own block, or one that many small tensors share. Devices allow some thousands
// of allocations, and each takes long.
#pragma once
#include "list.h"
#include "vulkan_functions.h"

namespace tvmbuild {

struct Device;

enum class MemoryUse { KERNELS, STAGING };

struct Range {
  size_t offset, size;
};

struct Block : OnHeap {
  VkBuffer buffer;
  VkDeviceMemory memory;
  size_t size;
  char *mapped;      // null: only the device can access it
  uint64_t address;  // TVM's pointer
  bool is_reserved;  // the address is a reservation of ours
  bool is_shared, is_of_device;
  List<Range> free;  // the free places of a shared block, by offset
};

constexpr size_t LARGEST_SMALL = 256 << 10, SHARED_BLOCK = 4 << 20, PLACE_ALIGNMENT = 256;

// Null with the failure set.
Block *create_block(Device &device, size_t size, MemoryUse use);
void destroy_block(Device &device, Block *block);

// Take a place in a shared block. False if none is large enough. It is given back by the same size.
bool take_place(Block &block, size_t size, size_t &offset);
void give_place_back(Block &block, size_t size, size_t offset);

}  // namespace tvmbuild
