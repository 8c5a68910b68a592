#include "vulkan_library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

#include "failure.h"
#include "lock.h"

namespace tvmbuild {

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static VulkanLibrary opened;

static bool create_instance(GetInstanceProcAddr find, VkInstance &instance) {
  auto version_of = reinterpret_cast<VkResult (*)(uint32_t *)>(find(nullptr, "vkEnumerateInstanceVersion"));
  uint32_t version = make_version(1, 0);
  if (version_of != nullptr) version_of(&version);
  if (version < make_version(1, 1)) return fail("Vulkan: the loader is of Vulkan 1.0, and 1.1 is needed");
  VkApplicationInfo application = {};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = application.pEngineName = "tvmbuild";
  application.apiVersion = make_version(1, 3);  // the highest version that is used
  VkInstanceCreateInfo info = {};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.pApplicationInfo = &application;
  auto create = reinterpret_cast<VkResult (*)(const VkInstanceCreateInfo *, const void *, VkInstance *)>(
      find(nullptr, "vkCreateInstance"));
  if (create == nullptr) return fail("Vulkan: the loader has no vkCreateInstance");
  VkResult result = create(&info, nullptr, &instance);
  if (result == VK_SUCCESS) return true;
  return fail("Vulkan: no instance can be made (%s): is a driver installed?", describe_result(result));
}

static bool open_once() {
  void *library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail("Vulkan: the loader is not installed (%s)", dlerror());
  auto find = reinterpret_cast<GetInstanceProcAddr>(dlsym(library, "vkGetInstanceProcAddr"));
  if (find == nullptr) return fail("Vulkan: libvulkan.so.1 has no vkGetInstanceProcAddr");
  VkInstance instance = nullptr;
  if (!create_instance(find, instance)) return false;
#define TVMBUILD_LOAD(name, result, parameters)                                        \
  opened.vk.name = reinterpret_cast<result(*) parameters>(find(instance, "vk" #name)); \
  if (opened.vk.name == nullptr) return fail("Vulkan: the driver has no vk" #name);
  TVMBUILD_INSTANCE_FUNCTIONS(TVMBUILD_LOAD)
#undef TVMBUILD_LOAD
  opened.instance = instance;
  return true;
}

const VulkanLibrary *open_vulkan() {
  Lock lock(opening);
  return opened.instance != nullptr || open_once() ? &opened : nullptr;
}

bool load_device_functions(const VulkanLibrary &library, VkDevice device, DeviceFunctions &vk) {
#define TVMBUILD_LOAD(name, result, parameters)                                                       \
  vk.name = reinterpret_cast<result(*) parameters>(library.vk.GetDeviceProcAddr(device, "vk" #name)); \
  if (vk.name == nullptr) return fail("Vulkan: the driver has no vk" #name);
  TVMBUILD_DEVICE_FUNCTIONS(TVMBUILD_LOAD)
#undef TVMBUILD_LOAD
  vk.push_descriptors =
      reinterpret_cast<CmdPushDescriptorSet>(library.vk.GetDeviceProcAddr(device, "vkCmdPushDescriptorSetKHR"));
  return true;
}

const char *describe_result(VkResult result) {
  switch (result) {
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "out of host memory";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "out of device memory";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "initialisation failed";
    case VK_ERROR_DEVICE_LOST:
      return "the device is lost";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "memory cannot be mapped";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "a layer is not installed";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "an extension is missing";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "a feature is missing";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "no driver is compatible";
    case VK_ERROR_TOO_MANY_OBJECTS:
      return "too many objects";
    default:
      static thread_local char code[32];
      snprintf(code, sizeof(code), "code %d", static_cast<int>(result));
      return code;
  }
}

}  // namespace tvmbuild
