// SHA-256 (FIPS 180-4). A part of tvmbuild.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

namespace tvmbuild::detail {

constexpr uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

inline uint32_t rotate(uint32_t value, int by) { return (value >> by) | (value << (32 - by)); }

inline void digest_block(uint32_t state[8], const uint8_t *block) {
  uint32_t words[64];
  for (size_t i = 0; i < 16; i++) {
    const uint8_t *at = block + 4 * i;
    words[i] = uint32_t{at[0]} << 24 | uint32_t{at[1]} << 16 | uint32_t{at[2]} << 8 | at[3];
  }
  for (int i = 16; i < 64; i++) {
    uint32_t a = words[i - 15], b = words[i - 2];
    words[i] = words[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ (a >> 3)) + words[i - 7] +
               (rotate(b, 17) ^ rotate(b, 19) ^ (b >> 10));
  }
  uint32_t s[8];
  std::copy(state, state + 8, s);
  for (int i = 0; i < 64; i++) {
    uint32_t choice = (s[4] & s[5]) ^ (~s[4] & s[6]), majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
    uint32_t first = s[7] + (rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25)) + choice + ROUND[i] + words[i];
    uint32_t second = (rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22)) + majority;
    std::copy_backward(s, s + 7, s + 8);
    s[4] += first;
    s[0] = first + second;
  }
  for (int i = 0; i < 8; i++) state[i] += s[i];
}

inline std::string sha256(std::string_view data) {
  uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const auto *bytes = reinterpret_cast<const uint8_t *>(data.data());
  size_t whole = data.size() / 64;
  for (size_t i = 0; i < whole; i++) digest_block(state, bytes + 64 * i);
  std::string rest = std::string(data.substr(64 * whole)) + '\x80';
  rest.resize((rest.size() + 8 + 63) / 64 * 64, '\0');
  for (int i = 0; i < 8; i++) rest[rest.size() - 1 - i] = static_cast<char>(uint64_t{data.size()} * 8 >> (8 * i));
  for (size_t i = 0; i < rest.size(); i += 64) digest_block(state, reinterpret_cast<const uint8_t *>(rest.data()) + i);
  std::string digits;
  for (uint32_t word : state) {
    for (int shift = 28; shift >= 0; shift -= 4) digits += "0123456789abcdef"[word >> shift & 15];
  }
  return digits;
}

}  // namespace tvmbuild::detail
