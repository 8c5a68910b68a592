// A module's bytes: kernels, as the code generator wrote them. They may come from anywhere, so all of them are checked.
// Properties that only a device can check are checked at the first launch.
#pragma once
#include "kernel.h"

namespace tvmbuild {

// False with the failure set. The kernels point into the bytes.
bool parse_blob(const uint8_t *bytes, size_t size, List<Kernel> &kernels);

}  // namespace tvmbuild
