// TVM's questions about a device: DeviceAttrKind's numbers, and a target's attributes for `from_device`.
#pragma once
#include <tvm/ffi/c_api.h>

#include "device_info.h"
#include "text.h"

namespace tvmbuild {

bool read_attribute(int device, int kind, TVMFFIAny &result);
bool read_target_property(int device, const char *name, size_t size, TVMFFIAny &result);

// A JSON array of all devices in TVM's order.
bool describe_devices(Text &json);

}  // namespace tvmbuild
