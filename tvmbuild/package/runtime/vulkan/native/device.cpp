#include "device.h"

#include <stdlib.h>

#include "failure.h"
#include "lock.h"
#include "pipeline_cache.h"

namespace tvmbuild {
namespace {

pthread_mutex_t starting = PTHREAD_MUTEX_INITIALIZER;
const VulkanLibrary *library;
DeviceInfo infos[MAX_DEVICES];
int info_count = -1;  // -1: not asked yet
Device *started[MAX_DEVICES];

bool create_handle(Device &device) {
  const DeviceInfo &info = device.info;
  const float priorities[] = {1, 1};
  constexpr VkStructureType QUEUES = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  uint32_t copy_queues = info.copy_queues < 2 ? info.copy_queues : 2;
  VkDeviceQueueCreateInfo queues[] = {{QUEUES, nullptr, 0, info.queue_family, 1, priorities},
                                      {QUEUES, nullptr, 0, info.copy_family, copy_queues, priorities}};
  const char *extensions[5];
  uint32_t count = 0;
  if (info.push_descriptors > 0) extensions[count++] = "VK_KHR_push_descriptor";
  if (info.has_extension_8bit) extensions[count++] = "VK_KHR_8bit_storage";
  if (info.has_extension_float16) extensions[count++] = "VK_KHR_shader_float16_int8";
  if (info.has_extension_dot) extensions[count++] = "VK_KHR_shader_integer_dot_product";
  if (info.has_extension_timeline && copy_queues > 0) extensions[count++] = "VK_KHR_timeline_semaphore";
  VkPhysicalDeviceFeatures2 features = {};
  features.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  features.features.shaderFloat64 = (info.features & FLOAT64) != 0;
  features.features.shaderInt64 = (info.features & INT64) != 0;
  features.features.shaderInt16 = (info.features & INT16) != 0;
  VkPhysicalDevice16BitStorageFeatures storage16 = {};
  storage16.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_16BIT_STORAGE_FEATURES;
  storage16.storageBuffer16BitAccess = (info.features & STORAGE_16BIT) != 0;
  features.pNext = &storage16;
  VkPhysicalDevice8BitStorageFeatures storage8 = {};
  storage8.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_8BIT_STORAGE_FEATURES;
  storage8.storageBuffer8BitAccess = true;
  if (info.features & STORAGE_8BIT) storage8.pNext = features.pNext, features.pNext = &storage8;
  VkPhysicalDeviceShaderFloat16Int8Features small = {};
  small.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_FLOAT16_INT8_FEATURES;
  small.shaderFloat16 = (info.features & FLOAT16) != 0;
  small.shaderInt8 = (info.features & INT8) != 0;
  if (info.features & (FLOAT16 | INT8)) small.pNext = features.pNext, features.pNext = &small;
  VkPhysicalDeviceShaderIntegerDotProductFeatures dot = {};
  dot.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_INTEGER_DOT_PRODUCT_FEATURES;
  dot.shaderIntegerDotProduct = true;
  if (info.features & DOT_PRODUCT) dot.pNext = features.pNext, features.pNext = &dot;
  VkPhysicalDeviceTimelineSemaphoreFeatures timeline = {};
  timeline.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES;
  timeline.timelineSemaphore = true;
  if (copy_queues > 0) timeline.pNext = features.pNext, features.pNext = &timeline;
  VkDeviceCreateInfo create = {};
  create.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  create.pNext = &features;
  create.queueCreateInfoCount = copy_queues > 0 ? 2 : 1;
  create.pQueueCreateInfos = queues;
  create.enabledExtensionCount = count;
  create.ppEnabledExtensionNames = extensions;
  VkResult result = library->vk.CreateDevice(info.physical, &create, nullptr, &device.handle);
  if (result == VK_SUCCESS) return load_device_functions(*library, device.handle, device.vk);
  return fail("Vulkan: %s cannot be used (%s)", info.name(), describe_result(result));
}

Device *start_device(int index) {
  Device *device = new Device();
  device->library = library;
  device->info = infos[index];
  device->index = index;
  pthread_mutex_init(&device->lock, nullptr);
  pthread_mutex_init(&device->pipeline_lock, nullptr);
  bool has_handle = create_handle(*device);
  if (!has_handle || !create_queues(*device)) {
    if (has_handle) destroy_queues(*device);
    if (device->vk.DestroyDevice != nullptr) device->vk.DestroyDevice(device->handle, nullptr);
    delete device;  // the next call tries again
    return nullptr;
  }
  open_pipeline_cache(*device);
  return device;
}

// At process exit the driver is still loaded, because it was loaded before this function was registered.
void finish() {
  for (Device *device : started) {
    if (device == nullptr) continue;
    TryLock lock(device->lock);
    if (!lock.is_held()) continue;  // a thread still computes
    if (!device->is_lost) device->vk.DeviceWaitIdle(device->handle);
    save_pipeline_cache(*device);
  }
}

int count_locked() {
  if (info_count >= 0) return info_count;
  library = open_vulkan();
  int count = library != nullptr ? choose_devices(*library, infos) : -1;
  if (count < 0) return 0;
  info_count = count;
  atexit(finish);
  return count;
}

bool check_index(int index) {
  int count = count_locked();
  if (count == 0) return false;
  if (index >= 0 && index < count) return true;
  return fail("Vulkan: there is no device %d; there %s %d, the first is %s", index, count == 1 ? "is" : "are", count,
              infos[0].name());
}

}  // namespace

int count_devices() {
  Lock lock(starting);
  return count_locked();
}

const DeviceInfo *find_device_info(int index) {
  Lock lock(starting);
  return check_index(index) ? &infos[index] : nullptr;
}

Device *use_device(int index) {
  if (Device *device = started_device(index)) return device;
  Lock lock(starting);
  if (!check_index(index)) return nullptr;
  if (started[index] == nullptr) __atomic_store_n(&started[index], start_device(index), __ATOMIC_RELEASE);
  return started[index];
}

Device *started_device(int index) {
  return index >= 0 && index < MAX_DEVICES ? __atomic_load_n(&started[index], __ATOMIC_ACQUIRE) : nullptr;
}

bool check_alive(Device &device) {
  if (!device.is_lost) return true;
  return fail("Vulkan: %s was lost (a driver's reset, a kernel that ran too long, or a fault): restart this process",
              device.info.name());
}

bool check(Device &device, VkResult result, const char *what) {
  if (result == VK_SUCCESS) return true;
  if (result == VK_ERROR_DEVICE_LOST) device.is_lost = true;
  if (!check_alive(device)) return false;
  if (result == VK_ERROR_OUT_OF_DEVICE_MEMORY || result == VK_ERROR_OUT_OF_HOST_MEMORY)
    return fail("Vulkan: out of memory on %s: it could not %s (%s)", device.info.name(), what, describe_result(result));
  return fail("Vulkan: %s could not %s (%s)", device.info.name(), what, describe_result(result));
}

}  // namespace tvmbuild
