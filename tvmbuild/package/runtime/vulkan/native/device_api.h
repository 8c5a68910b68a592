#pragma once

namespace tvmbuild {

// The DeviceAPI that TVM calls for every device of the kind vulkan.
void *device_api();

}  // namespace tvmbuild
