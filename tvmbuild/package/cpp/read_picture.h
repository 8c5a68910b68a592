// Reading of picture files, for the programs: PNG with libpng, JPEG with libjpeg, PPM always.
#pragma once

#include <string>

#include "tvmbuild.h"

namespace tvmbuild {

// Read 8 bits a channel, without transparency. Throws tvmbuild::Error if this program cannot read the file.
Picture read_picture(const std::string &path);

}  // namespace tvmbuild
