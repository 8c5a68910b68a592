// A libvulkan.so.1 before the real one: it shows other devices, older drivers and faults that this machine has not.
//
//   SHIM_REAL     the real loader
//   SHIM_DEVICES  "RTX 4090:discrete,Iris Xe:integrated": one real device, lavapipe where it is there, once for each;
//                 a discrete one has memory that the CPU does not reach
//   SHIM_HIDE     extensions, features and functions that are not there, with commas between
//   SHIM_SET      "maxStorageBufferRange=134217728,…": the numbers below; heap is a card's memory in bytes, copy_queues
//                 the number of its queues that only copy (2)
//   SHIM_LOG      a file for the number of the queue of each submission to a card with queues that only copy
//   SHIM_FAIL     "vkQueueSubmit:-4@3,vkCreateDevice:-3,vkGetFenceStatus:1@2-9#1": what a call returns; the third
//                 one of a device, every one, the second to ninth of device 1 alone. After -4 the device stays lost.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shim_order.h"
#include "vulkan_functions.h"

using namespace tvmbuild;

namespace {

constexpr VkResult MAP_FAILED = static_cast<VkResult>(-5);
constexpr VkFlags LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, CACHED = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
constexpr VkFlags SHARED = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
constexpr VkMemoryType CARD_TYPES[] = {{LOCAL, 0}, {SHARED, 1}, {LOCAL | SHARED, 0}, {SHARED | CACHED, 1}};
const char *const TYPES[] = {"other", "integrated", "discrete", "virtual", "cpu"};

// Which text of an option's words begins with `name` and `mark`: what follows; null: none.
const char *find_word(const char *option, const char *name, char mark) {
  const char *text = getenv(option);
  size_t length = strlen(name);
  for (; text != nullptr && *text != 0; text = strchr(text, ','), text += text != nullptr) {
    if (strncmp(text, name, length) == 0 && (text[length] == mark || (mark == ',' && text[length] == 0)))
      return text + length + 1;
    if (strchr(text, ',') == nullptr) break;
  }
  return nullptr;
}

bool is_hidden(const char *name) { return find_word("SHIM_HIDE", name, ',') != nullptr; }

template <class T>
void set(const char *name, T &value) {
  if (const char *text = find_word("SHIM_SET", name, '=')) value = static_cast<T>(strtoull(text, nullptr, 10));
}

constexpr uint32_t MAX_COPY_QUEUES = 2;

struct Shown {
  VkInstance instance;  // null: the place is free
  VkPhysicalDevice real;
  int index;
  char name[256];
  uint32_t type;  // of another kind than the real one only where SHIM_DEVICES says so
  bool is_changed;
  VkDevice device;
  VkQueue queue;
  char copy_queues[MAX_COPY_QUEUES];  // their addresses are the queues' handles
  bool has_copy_queues;               // in use
  bool is_lost;
  VkDeviceSize used;
  bool is_card() const { return is_changed && type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU; }
};

GetInstanceProcAddr find_real;
InstanceFunctions real;
Shown shown[64];
struct Allocation {
  VkDeviceMemory memory;
  VkDeviceSize size;
  uint32_t type;
} allocations[4096];

// The number of a queue that only copies, from 1; 0 for any other handle.
int copy_queue_of(const Shown &device, const void *handle) {
  for (uint32_t index = 0; index < MAX_COPY_QUEUES; index++)
    if (&device.copy_queues[index] == handle) return static_cast<int>(index) + 1;
  return 0;
}

Shown &of(const void *handle) {
  for (Shown &each : shown)
    if (handle != nullptr && (each.device == handle || each.queue == handle || copy_queue_of(each, handle) > 0))
      return each;
  return shown[0];
}
Shown &shown_by(VkPhysicalDevice handle) { return *reinterpret_cast<Shown *>(handle); }

VkDeviceSize heap_size() {
  VkDeviceSize size = 256 << 20;
  set("heap", size);
  return size;
}

// What SHIM_FAIL wants of the call with this number.
VkResult planned(const char *name, int device, int number) {
  const char *rule = find_word("SHIM_FAIL", name, ':');
  if (rule == nullptr) return VK_SUCCESS;
  char *end;
  long result = strtol(rule, &end, 10), first = 1, last = 1L << 30;
  if (*end == '@') first = last = strtol(end + 1, &end, 10);
  if (*end == '-') last = strtol(end + 1, &end, 10);
  if (*end == '#' && strtol(end + 1, &end, 10) != device) return VK_SUCCESS;
  return first <= number && number <= last ? static_cast<VkResult>(result) : VK_SUCCESS;
}

enum Id {
#define SHIM_ID(name, result, parameters) ID_##name,
  TVMBUILD_DEVICE_FUNCTIONS(SHIM_ID)
};
const char *const NAMES[] = {
#define SHIM_NAME(name, result, parameters) "vk" #name,
    TVMBUILD_DEVICE_FUNCTIONS(SHIM_NAME)};
void wait_idle(VkDevice device);

VkResult before(Id id, const void *handle) {
  static int calls[sizeof(NAMES) / sizeof(*NAMES)][16];
  Shown &device = of(handle);
  bool tells_loss = id == ID_QueueSubmit || id == ID_WaitForFences || id == ID_GetFenceStatus ||
                    id == ID_DeviceWaitIdle || id == ID_GetQueryPoolResults;
  if (device.is_lost && tells_loss) return VK_ERROR_DEVICE_LOST;
  VkResult result = planned(NAMES[id], device.index, __atomic_add_fetch(&calls[id][device.index], 1, __ATOMIC_RELAXED));
  if (result != VK_ERROR_DEVICE_LOST) return result;
  wait_idle(device.device);  // a lost device computes no more
  device.is_lost = true;
  return result;
}

// A device's function, as it is but for what SHIM_FAIL says.
template <Id id, class Function>
struct Hook;
template <Id id, class Result, class First, class... Rest>
struct Hook<id, Result (*)(First, Rest...)> {
  static inline Result (*next)(First, Rest...);
  static Result call(First first, Rest... rest) {
    if constexpr (__is_same(Result, VkResult))
      if (VkResult result = before(id, reinterpret_cast<const void *>(first))) return result;
    return change(first, rest...);
  }
  static Result change(First first, Rest... rest) { return next(first, rest...); }
};
#define SHIM_TYPE(name, result, parameters) using name = Hook<ID_##name, result(*) parameters>;
struct Hooks {
  TVMBUILD_DEVICE_FUNCTIONS(SHIM_TYPE)
};

template <>
void Hooks::GetBufferMemoryRequirements::change(VkDevice device, VkBuffer buffer, VkMemoryRequirements *needs) {
  next(device, buffer, needs);
  if (of(device).is_card()) needs->memoryTypeBits = 15;
}

template <>
VkResult Hooks::AllocateMemory::change(VkDevice device, const VkMemoryAllocateInfo *info, const void *no,
                                       VkDeviceMemory *memory) {
  Shown &on = of(device);
  if (!on.is_card()) return next(device, info, no, memory);
  VkMemoryAllocateInfo changed = *info;
  VkDeviceSize used = CARD_TYPES[info->memoryTypeIndex].heapIndex == 0 ? info->allocationSize : 0;
  if (on.used + used > heap_size()) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
  VkPhysicalDeviceMemoryProperties2 found = {};
  found.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
  real.GetPhysicalDeviceMemoryProperties2(on.real, &found);
  changed.memoryTypeIndex = 0;
  while ((found.memoryProperties.memoryTypes[changed.memoryTypeIndex].propertyFlags & SHARED) != SHARED)
    changed.memoryTypeIndex++;
  VkResult result = next(device, &changed, no, memory);
  if (result != VK_SUCCESS) return result;
  on.used += used;
  Allocation *place = allocations;
  while (place->memory != 0) place++;
  *place = {*memory, used, info->memoryTypeIndex};
  return result;
}

template <>
void Hooks::FreeMemory::change(VkDevice device, VkDeviceMemory memory, const void *no) {
  for (Allocation &each : allocations)
    if (memory != 0 && each.memory == memory) of(device).used -= each.size, each.memory = 0;
  next(device, memory, no);
}

template <>
VkResult Hooks::MapMemory::change(VkDevice device, VkDeviceMemory memory, VkDeviceSize offset, VkDeviceSize size,
                                  VkFlags flags, void **mapped) {
  for (Allocation &each : allocations)
    if (each.memory == memory && each.type == 0) return MAP_FAILED;
  return next(device, memory, offset, size, flags, mapped);
}

template <>
VkResult Hooks::GetQueryPoolResults::change(VkDevice device, VkQueryPool pool, uint32_t first, uint32_t count,
                                            size_t size, void *data, VkDeviceSize stride, VkFlags flags) {
  uint32_t bits = 64;
  set("timestampValidBits", bits);
  VkResult result = next(device, pool, first, count, size, data, stride, flags);
  for (uint32_t index = 0; index < count && bits < 64; index++)
    static_cast<uint64_t *>(data)[index] &= (1ull << bits) - 1;
  return result;
}

void wait_idle(VkDevice device) { Hooks::DeviceWaitIdle::next(device); }

#include "vulkan_shim_queues.h"
//
#include "vulkan_shim_instance.h"

}  // namespace

#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

SHIM_EXPORT VulkanFunction vkGetInstanceProcAddr(VkInstance instance, const char *name) {
  return find_function(instance, name);
}
SHIM_EXPORT VkResult vkCreateInstance(const VkInstanceCreateInfo *info, const void *no, VkInstance *instance) {
  return create_instance(info, no, instance);
}
SHIM_EXPORT void vkDestroyInstance(VkInstance instance, const void *no) {
  auto destroy = reinterpret_cast<void (*)(VkInstance, const void *)>(find_real(instance, "vkDestroyInstance"));
  destroy(instance, no);
  for (Shown &each : shown)
    if (each.instance == instance) each = {};
}
SHIM_EXPORT VkResult vkEnumeratePhysicalDevices(VkInstance instance, uint32_t *count, VkPhysicalDevice *devices) {
  return list_devices(instance, count, devices);
}
SHIM_EXPORT void vkGetPhysicalDeviceProperties(VkPhysicalDevice device, VkPhysicalDeviceProperties *properties) {
  get_properties(device, properties);
}
