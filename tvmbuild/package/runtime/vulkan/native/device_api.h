#pragma once

namespace tvmbuild {

// What TVM calls for every device of the kind vulkan: a DeviceAPI.
void *device_api();

// The device that this thread's kernels run on.
int current_device();

}  // namespace tvmbuild
