#pragma once

namespace tvmbuild {

// The DeviceAPI that TVM calls for every device of the kind vulkan.
void *device_api();

// The device on which this thread's kernels run.
int current_device();

}  // namespace tvmbuild
