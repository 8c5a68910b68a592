// Pictures in files, for the programs: PNG where libpng is there, JPEG where libjpeg is, PPM always.
#pragma once

#include <string>

#include "tvmbuild.h"

namespace tvmbuild {

// 8 bits a channel, without transparency; tvmbuild::Error when the file is none that this program reads.
Picture read_picture(const std::string &path);

}  // namespace tvmbuild
