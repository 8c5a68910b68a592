// Which of Vulkan's devices TVM's device 0, 1, … are.
#pragma once
#include "device_info.h"

namespace tvmbuild {

constexpr int MAX_DEVICES = 16;

// The devices in TVM's order: discrete cards, integrated, virtual; drivers that compute on the CPU only where there is
// nothing else. TVMBUILD_VULKAN_DEVICE, an index of that order with every device or a part of a name, leaves one.
// Their number; -1 with the failure set where there is no driver or none answers to the wish.
int choose_devices(const VulkanLibrary &library, DeviceInfo (&chosen)[MAX_DEVICES]);

}  // namespace tvmbuild
