#include "memory.h"

#include <sys/mman.h>

#include "device.h"
#include "failure.h"

namespace tvmbuild {
namespace {

constexpr VkFlags SHARED = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr size_t PAGE = 4096;

bool explain_shortage(Device &device, VkResult result, size_t size) {
  if (result == VK_ERROR_TOO_MANY_OBJECTS)
    return fail("Vulkan: %s has no room for one more allocation; it allows %u", device.info.name(),
                device.info.limits().maxMemoryAllocationCount);
  VkDeviceSize total, available;
  read_memory(*device.library, device.info, total, available);
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY)
    return fail("Vulkan: out of memory on %s: asked for %zu MiB, %llu MiB are free of %llu MiB", device.info.name(),
                (size + (1 << 20) - 1) >> 20, static_cast<unsigned long long>(available >> 20),
                static_cast<unsigned long long>(total >> 20));
  return check(device, result, "allocate memory");
}

bool fill_memory(Device &device, Memory &memory, MemoryUse use) {
  const DeviceFunctions &vk = device.vk;
  if (device.info.most_bytes > 0 && memory.size > device.info.most_bytes)
    return explain_shortage(device, VK_ERROR_OUT_OF_DEVICE_MEMORY, memory.size);
  VkBufferCreateInfo buffer = {};
  buffer.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  buffer.size = (memory.size + 15) / 16 * 16;  // kernels may load whole vectors
  buffer.usage = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT |
                 (use == MemoryUse::KERNELS ? VK_BUFFER_USAGE_STORAGE_BUFFER_BIT : 0u);
  VkResult result = vk.CreateBuffer(device.handle, &buffer, nullptr, &memory.buffer);
  if (result != VK_SUCCESS) return explain_shortage(device, result, memory.size);
  VkMemoryRequirements needs;
  vk.GetBufferMemoryRequirements(device.handle, memory.buffer, &needs);
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
  result = vk.AllocateMemory(device.handle, &info, nullptr, &memory.memory);
  if (result != VK_SUCCESS) return explain_shortage(device, result, memory.size);
  result = vk.BindBufferMemory(device.handle, memory.buffer, memory.memory, 0);
  if (result != VK_SUCCESS) return check(device, result, "bind memory");
  if (is_mapped) {
    result = vk.MapMemory(device.handle, memory.memory, 0, ~0ull, 0, &memory.mapped);
    if (result != VK_SUCCESS) return check(device, result, "map memory");
    memory.address = reinterpret_cast<uint64_t>(memory.mapped);
    return true;
  }
  void *range = mmap(nullptr, (memory.size + PAGE - 1) / PAGE * PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return fail("Vulkan: no addresses are left for %zu bytes", memory.size);
  memory.address = reinterpret_cast<uint64_t>(range);
  memory.is_reserved = true;
  return true;
}

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

}  // namespace

Memory *allocate_memory(Device &device, size_t size, MemoryUse use) {
  if (!check_alive(device)) return nullptr;
  Memory *memory = new Memory();
  memory->id = ++device.memory_ids;
  memory->size = size > 0 ? size : 1;  // TVM allocates tensors without elements
  if (fill_memory(device, *memory, use)) return memory;
  release_memory(device, memory);
  return nullptr;
}

void release_memory(Device &device, Memory *memory) {
  if (memory->buffer) device.vk.DestroyBuffer(device.handle, memory->buffer, nullptr);
  if (memory->memory) device.vk.FreeMemory(device.handle, memory->memory, nullptr);
  if (memory->is_reserved) munmap(reinterpret_cast<void *>(memory->address), (memory->size + PAGE - 1) / PAGE * PAGE);
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
