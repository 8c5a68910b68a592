// libvulkan.so.1 and its instance, opened at the first use of a device, because a build machine has neither.
#pragma once
#include "vulkan_functions.h"

namespace tvmbuild {

struct VulkanLibrary {
  VkInstance instance;
  InstanceFunctions vk;
};

// Null with the failure set if there is no loader or no driver.
const VulkanLibrary *open_vulkan();

// Fill in a device's functions.
bool load_device_functions(const VulkanLibrary &library, VkDevice device, DeviceFunctions &vk);

// The name of a code, or "code -1000069000" if it has none.
const char *describe_result(VkResult result);

}  // namespace tvmbuild
