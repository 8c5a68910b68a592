#pragma once
#include <stddef.h>
#include <stdint.h>

namespace tvmbuild {

// zlib's CRC-32.
inline uint32_t crc32(const void *data, size_t size) {
  static constexpr struct Table {
    uint32_t of[256];
    constexpr Table() : of() {
      for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t value = byte;
        for (int bit = 0; bit < 8; bit++) value = value & 1 ? 0xedb88320u ^ value >> 1 : value >> 1;
        of[byte] = value;
      }
    }
  } table{};
  uint32_t crc = ~0u;
  const uint8_t *bytes = static_cast<const uint8_t *>(data);
  for (size_t index = 0; index < size; index++) crc = table.of[(crc ^ bytes[index]) & 0xff] ^ crc >> 8;
  return ~crc;
}

}  // namespace tvmbuild
