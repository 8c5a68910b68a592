// libvulkan.so.1 and its instance, opened at the first use of a device: a build machine has neither.
#pragma once
#include "vulkan_functions.h"

namespace tvmbuild {

struct VulkanLibrary {
  VkInstance instance;
  InstanceFunctions vk;
};

// Null with the failure set where there is no loader or no driver.
const VulkanLibrary *open_vulkan();

// Fill in a device's functions.
bool load_device_functions(const VulkanLibrary &library, VkDevice device, DeviceFunctions &vk);

// Words for a code; "code -1000069000" for one without.
const char *describe_result(VkResult result);

}  // namespace tvmbuild
