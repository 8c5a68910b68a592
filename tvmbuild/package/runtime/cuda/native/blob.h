// The bytes of a packed module, in the form that TVM's compiler writes.
#pragma once
#include "kernel.h"

namespace tvmbuild {

// The image points into the bytes. False with the failure set.
bool parse_blob(const uint8_t *bytes, size_t size, Image &image, List<Kernel> &kernels);

}  // namespace tvmbuild
