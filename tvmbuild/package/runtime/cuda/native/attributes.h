#pragma once
#include <stddef.h>
#include <tvm/ffi/c_api.h>

#include "text.h"

namespace tvmbuild {

// TVM's attribute of a device. True without a value if the attribute has none. False with the failure set.
bool read_attribute(int device, int kind, TVMFFIAny &result);
// An attribute of a target by its name; likewise.
bool read_target_property(int device, const char *name, size_t size, TVMFFIAny &result);

// The driver and its devices as JSON. False with the failure set if there is no device.
bool describe_devices(Text &json);

}  // namespace tvmbuild
