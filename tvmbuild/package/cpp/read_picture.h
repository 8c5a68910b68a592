// Reading of picture files, for the programs: PNG with libpng, JPEG with libjpeg, other formats with stb_image, which
// also takes the place of the two libraries where they are absent; PPM always.
#pragma once

#include <string>

#include "tvmbuild.hpp"

namespace tvmbuild {

// Read 8 bits a channel, without transparency. Throws tvmbuild::Error if this program cannot read the file.
Picture read_picture(const std::string &path);

}  // namespace tvmbuild
