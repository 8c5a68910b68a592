// Vulkan's loader, driver and device, asked before TVM and without Vulkan's headers, which few machines have. The twin
// of base/vulkan_driver.py, a part of tvmbuild.cpp.
#pragma once

#include <dlfcn.h>

#include <cstdint>
#include <string>

namespace tvmbuild::detail {

// VkInstanceCreateInfo.
struct VulkanInstanceInfo {
  int32_t type = 1;
  const void *next = nullptr;
  uint32_t flags = 0;
  const void *application = nullptr;
  uint32_t layers = 0;
  const char *const *layer_names = nullptr;
  uint32_t extensions = 0;
  const char *const *extension_names = nullptr;
};

// The missing part, with the remedy. Empty: a device answers.
inline std::string explain_vulkan_driver() {
  using Create = int32_t (*)(const VulkanInstanceInfo *, const void *, void **);
  using List = int32_t (*)(void *, uint32_t *, void **);
  using Destroy = void (*)(void *, const void *);
  void *loader = dlopen("libvulkan.so.1", RTLD_NOW);  // it stays open, because unloading drivers causes trouble
  if (loader == nullptr)
    return "Vulkan's loader libvulkan.so.1 is not installed; `apt install mesa-vulkan-drivers` brings it with the "
           "drivers of Intel and AMD, NVIDIA's driver has its own";
  auto create = reinterpret_cast<Create>(dlsym(loader, "vkCreateInstance"));
  auto list = reinterpret_cast<List>(dlsym(loader, "vkEnumeratePhysicalDevices"));
  auto destroy = reinterpret_cast<Destroy>(dlsym(loader, "vkDestroyInstance"));
  VulkanInstanceInfo info;
  void *instance = nullptr;
  if (create == nullptr || list == nullptr || destroy == nullptr || create(&info, nullptr, &instance) != 0)
    return "Vulkan's loader finds no driver; `apt install mesa-vulkan-drivers` for Intel and AMD (and lavapipe, which "
           "needs no GPU), NVIDIA's own for NVIDIA; VK_ICD_FILENAMES and VK_DRIVER_FILES must name none that is absent";
  uint32_t devices = 0;
  list(instance, &devices, nullptr);
  destroy(instance, nullptr);
  if (devices == 0) return "Vulkan's driver finds no device; may this user read /dev/dri (group render)?";
  return "";
}

}  // namespace tvmbuild::detail
