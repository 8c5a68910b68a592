#include "memory_block.h"

#include <sys/mman.h>

#include "device.h"
#include "failure.h"

namespace tvmbuild {
namespace {

constexpr VkFlags SHARED = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr size_t PAGE = 4096;

bool explain_shortage(Device &device, VkResult result, size_t size, MemoryUse use) {
  if (result == VK_ERROR_TOO_MANY_OBJECTS)
    return fail("Vulkan: %s has no room for one more allocation; it allows %u", device.info.name(),
                device.info.limits().maxMemoryAllocationCount);
  if (result != VK_ERROR_OUT_OF_DEVICE_MEMORY && result != VK_ERROR_OUT_OF_HOST_MEMORY)
    return check(device, result, "allocate memory");
  size_t wanted = (size + (1 << 20) - 1) >> 20;
  if (use == MemoryUse::STAGING)
    return fail("Vulkan: out of memory on %s: asked for %zu MiB for copies", device.info.name(), wanted);
  VkDeviceSize total, available, most = device.info.max_bytes;
  read_memory(*device.library, device.info, total, available);
  if (!device.info.has_memory_budget) available = total > device.allocated ? total - device.allocated : 0;
  if (most > 0 && size > most && size <= available)
    return fail("Vulkan: out of memory on %s: asked for %zu MiB, and one allocation may have %llu MiB",
                device.info.name(), wanted, static_cast<unsigned long long>(most >> 20));
  return fail("Vulkan: out of memory on %s: asked for %zu MiB, %llu MiB are free of %llu MiB", device.info.name(),
              wanted, static_cast<unsigned long long>(available >> 20), static_cast<unsigned long long>(total >> 20));
}

bool fill(Device &device, Block &block, MemoryUse use) {
  const DeviceFunctions &vk = device.vk;
  if (device.info.max_bytes > 0 && block.size > device.info.max_bytes)
    return explain_shortage(device, VK_ERROR_OUT_OF_DEVICE_MEMORY, block.size, use);
  VkBufferCreateInfo buffer = {};
  buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  buffer.size = (block.size + 15) / 16 * 16;  // kernels may load whole vectors
  const uint32_t families[] = {device.info.queue_family, device.info.copy_family};
  if (device.info.copy_queues > 0) {
    buffer.sharingMode = VK_SHARING_MODE_CONCURRENT;
    buffer.queueFamilyIndexCount = 2;
    buffer.pQueueFamilyIndices = families;
  }
  buffer.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 (use == MemoryUse::KERNELS ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT : 0u);
  VkResult result = vk.CreateBuffer(device.handle, &buffer, nullptr, &block.buffer);
  if (result != VK_SUCCESS) return explain_shortage(device, result, block.size, use);
  VkMemoryRequirements needs;
  vk.GetBufferMemoryRequirements(device.handle, block.buffer, &needs);
  bool is_mapped = use == MemoryUse::STAGING || device.info.is_unified;
  VkFlags needed = is_mapped ? SHARED : static_cast<VkFlags>(VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT);
  VkFlags wished = is_mapped ? VK_MEMORY_PROPERTY_HOST_CACHED_BIT : 0u;
  if (use == MemoryUse::KERNELS) needed |= VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  int type = find_memory_type(device.info, needs.memoryTypeBits, needed, wished);
  if (type < 0) return fail("Vulkan: %s has no memory of the needed kind", device.info.name());
  VkMemoryAllocateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  info.allocationSize = needs.size;
  info.memoryTypeIndex = static_cast<uint32_t>(type);
  result = vk.AllocateMemory(device.handle, &info, nullptr, &block.memory);
  if (result != VK_SUCCESS) return explain_shortage(device, result, block.size, use);
  result = vk.BindBufferMemory(device.handle, block.buffer, block.memory, 0);
  if (result != VK_SUCCESS) return check(device, result, "bind memory");
  if (is_mapped) {
    void *mapped = nullptr;
    result = vk.MapMemory(device.handle, block.memory, 0, ~0ull, 0, &mapped);
    if (result != VK_SUCCESS) return check(device, result, "map memory");
    block.mapped = static_cast<char *>(mapped);
    block.address = reinterpret_cast<uint64_t>(mapped);
    return true;
  }
  void *range = mmap(nullptr, (block.size + PAGE - 1) / PAGE * PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return fail("Vulkan: no addresses are left for %zu bytes", block.size);
  block.address = reinterpret_cast<uint64_t>(range);
  block.is_reserved = true;
  return true;
}

size_t round_up(size_t size) { return (size + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT; }

}  // namespace

Block *create_block(Device &device, size_t size, MemoryUse use) {
  Block *block = new Block();
  block->size = size;
  if (fill(device, *block, use)) {
    block->is_of_device = use == MemoryUse::KERNELS;
    if (block->is_of_device) device.allocated += block->size;
    return block;
  }
  destroy_block(device, block);
  return nullptr;
}

void destroy_block(Device &device, Block *block) {
  if (block->is_of_device) device.allocated -= block->size;
  if (block->buffer) device.vk.DestroyBuffer(device.handle, block->buffer, nullptr);
  if (block->memory) device.vk.FreeMemory(device.handle, block->memory, nullptr);
  if (block->is_reserved) munmap(reinterpret_cast<void *>(block->address), (block->size + PAGE - 1) / PAGE * PAGE);
  delete block;
}

bool take_place(Block &block, size_t size, size_t &offset) {
  size = round_up(size);
  for (size_t index = 0; index < block.free.size(); index++) {
    Range &range = block.free[index];
    if (range.size < size) continue;
    offset = range.offset;
    range.offset += size;
    range.size -= size;
    if (range.size == 0) block.free.remove(index);
    return true;
  }
  return false;
}

void give_place_back(Block &block, size_t size, size_t offset) {
  size = round_up(size);
  size_t index = 0;
  while (index < block.free.size() && block.free[index].offset < offset) index++;
  block.free.insert(index, {offset, size});
  const size_t borders[] = {index + 1, index};
  for (size_t at : borders) {  // together with the free places on both sides
    if (at == 0 || at >= block.free.size()) continue;
    Range &before = block.free[at - 1], &after = block.free[at];
    if (before.offset + before.size != after.offset) continue;
    before.size += after.size;
    block.free.remove(at);
  }
}

}  // namespace tvmbuild
