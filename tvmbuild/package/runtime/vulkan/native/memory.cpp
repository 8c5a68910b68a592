#include "memory.h"

#include "device.h"

namespace tvmbuild {
namespace {

size_t place_of(const List<Memory *> &table, uint64_t address) {  // the first one beyond the address
  size_t low = 0, high = table.size();
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (table[middle]->address <= address)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

Block *share_block(Device &device, size_t size, size_t &offset) {
  for (Block *block : device.blocks)
    if (take_place(*block, size, offset)) return block;
  Block *block = create_block(device, SHARED_BLOCK, MemoryUse::KERNELS);
  if (block == nullptr) return nullptr;
  block->is_shared = true;
  block->free.add({0, SHARED_BLOCK});
  device.blocks.add(block);
  take_place(*block, size, offset);
  return block;
}

}  // namespace

Memory *allocate_memory(Device &device, size_t size, MemoryUse use) {
  if (!check_alive(device)) return nullptr;
  if (size == 0) size = 1;  // TVM allocates tensors without elements
  size_t offset = 0;
  Block *block = use == MemoryUse::KERNELS && size <= LARGEST_SMALL ? share_block(device, size, offset)
                                                                    : create_block(device, size, use);
  if (block == nullptr) return nullptr;
  Memory *memory = new Memory();
  memory->id = ++device.memory_ids;
  memory->size = size;
  memory->block = block;
  memory->base = offset;
  memory->buffer = block->buffer;
  memory->address = block->address + offset;
  memory->mapped = block->mapped != nullptr ? block->mapped + offset : nullptr;
  return memory;
}

void release_memory(Device &device, Memory *memory) {
  Block *block = memory->block;
  if (!block->is_shared) {
    destroy_block(device, block);
  } else {
    give_place_back(*block, memory->size, memory->base);
    if (block->free[0].size == block->size && device.blocks.size() > 1) {
      size_t index = 0;
      while (device.blocks[index] != block) index++;
      device.blocks.remove(index);
      destroy_block(device, block);
    }
  }
  delete memory;
}

Memory *find_memory(Device &device, uint64_t address) {
  size_t place = place_of(device.memories, address);
  if (place == 0) return nullptr;
  Memory *memory = device.memories[place - 1];
  return address - memory->address < memory->size ? memory : nullptr;
}

void add_memory(Device &device, Memory *memory) {
  device.memories.insert(place_of(device.memories, memory->address), memory);
}

void remove_memory(Device &device, const Memory *memory) {
  size_t place = place_of(device.memories, memory->address);
  if (place > 0 && device.memories[place - 1] == memory) device.memories.remove(place - 1);
}

}  // namespace tvmbuild
