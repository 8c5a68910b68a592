// SHA-256 (FIPS 180-4). A part of tvmbuild.cpp.
#pragma once

#include <string>
#include <string_view>

#include "sha256_rounds.h"

namespace tvmbuild::detail {

inline std::string sha256(std::string_view data) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *bytes = reinterpret_cast<const uint8_t *>(data.data());
  size_t whole = data.size() / 64;
  digest_blocks(state, bytes, whole);
  std::string rest = std::string(data.substr(64 * whole)) + '\x80';
  rest.resize((rest.size() + 8 + 63) / 64 * 64, '\0');
  for (int i = 0; i < 8; i++) rest[rest.size() - 1 - i] = static_cast<char>(uint64_t{data.size()} * 8 >> (8 * i));
  digest_blocks(state, reinterpret_cast<const uint8_t *>(rest.data()), rest.size() / 64);
  std::string digits;
  for (uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  }
  return digits;
}

}  // namespace tvmbuild::detail
