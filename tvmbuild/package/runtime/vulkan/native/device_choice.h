// The choice of the Vulkan devices that are TVM's device 0, 1, …
#pragma once
#include "device_info.h"

namespace tvmbuild {

constexpr int MAX_DEVICES = 16;

// The devices in TVM's order: discrete cards, integrated, virtual. Drivers that compute on the CPU come only if there
// is no other device. TVMBUILD_VULKAN_DEVICE, an index of that order with every device or a part of a name, leaves one.
// Returns their number; -1 with the failure set if there is no driver or no device matches.
int choose_devices(const VulkanLibrary &library, DeviceInfo (&chosen)[MAX_DEVICES]);

}  // namespace tvmbuild
