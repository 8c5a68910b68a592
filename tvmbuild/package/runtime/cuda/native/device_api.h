#pragma once

namespace tvmbuild {

// The DeviceAPI that TVM calls for every device of the kinds cuda and cuda_host.
void *device_api();

}  // namespace tvmbuild
