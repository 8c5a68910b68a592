// What each runtime gives to the sources that all share; defined in the runtime's own folder.
#pragma once
#include <tvm/ffi/c_api.h>

#include "text.h"

namespace tvmbuild {

class KernelModule;

// The DeviceAPI that TVM calls for every device of this runtime's kinds.
void *device_api();

// A module without kernels.
KernelModule *new_module();

// TVM's attribute of a device. True without a value if the attribute has none. False with the failure set.
bool read_attribute(int device, int kind, TVMFFIAny &result);
// An attribute of a target by its name, for `from_device`; likewise.
bool read_target_property(int device, const char *name, size_t size, TVMFFIAny &result);

// The devices in TVM's order as JSON. False with the failure set.
bool describe_devices(Text &json);

// Copy between two devices, of which one may be the host. False with the failure set.
bool copy_data(const char *from, char *to, size_t size, DLDevice source, DLDevice target);

}  // namespace tvmbuild
