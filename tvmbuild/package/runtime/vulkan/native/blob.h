// A module's bytes: kernels, as the code generator wrote them. They may come from anywhere, and nothing in them is
// believed; what only a device can tell is asked at the first launch.
#pragma once
#include "kernel.h"

namespace tvmbuild {

// False with the failure set. The kernels point into the bytes.
bool parse_blob(const uint8_t *bytes, size_t size, List<Kernel> &kernels);

}  // namespace tvmbuild
