// The rounds of SHA-256 (FIPS 180-4), with the instructions that a CPU has for them. A part of tvmbuild.cpp.
#pragma once

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>

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

#if defined(__x86_64__)
inline bool has_sha_instructions() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  const unsigned ssse3_and_sse41 = 1U << 9 | 1U << 19;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & ssse3_and_sse41) != ssse3_and_sse41) return false;
  return __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (ebx & 1U << 29) != 0;
}

// Intel's order of the state: a, b, e, f in one vector, c, d, g, h in the other.
__attribute__((target("sha,ssse3,sse4.1"))) inline void digest_fast(uint32_t state[8], const uint8_t *bytes,
                                                                    size_t blocks) {
  const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0bLL, 0x0405060700010203LL);
  auto *halves = reinterpret_cast<__m128i *>(state);
  __m128i badc = _mm_shuffle_epi32(_mm_loadu_si128(halves), 0xB1);
  __m128i hgfe = _mm_shuffle_epi32(_mm_loadu_si128(halves + 1), 0x1B);
  __m128i abef = _mm_alignr_epi8(badc, hgfe, 8), cdgh = _mm_blend_epi16(hgfe, badc, 0xF0);
  for (; blocks > 0; blocks--, bytes += 64) {
    const __m128i before[2] = {abef, cdgh};
    __m128i words[4];
    for (int i = 0; i < 4; i++)
      words[i] = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i *>(bytes) + i), big_endian);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      __m128i &word = words[i % 4], next = words[(i + 3) % 4];
      __m128i sum = _mm_add_epi32(word, _mm_loadu_si128(reinterpret_cast<const __m128i *>(ROUND) + i));
      cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
      abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
      const __m128i shifted = _mm_alignr_epi8(next, words[(i + 2) % 4], 4);
      word = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(word, words[(i + 1) % 4]), shifted), next);
    }
    abef = _mm_add_epi32(abef, before[0]);
    cdgh = _mm_add_epi32(cdgh, before[1]);
  }
  const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
  _mm_storeu_si128(halves, _mm_blend_epi16(feba, dchg, 0xF0));
  _mm_storeu_si128(halves + 1, _mm_alignr_epi8(dchg, feba, 8));
}
#elif defined(__aarch64__)
inline bool has_sha_instructions() {
  const unsigned long sha2 = 1UL << 6;  // HWCAP_SHA2
  return (getauxval(AT_HWCAP) & sha2) != 0;
}

#if defined(__clang__)
__attribute__((target("sha2")))
#else
__attribute__((target("+crypto")))
#endif
inline void
digest_fast(uint32_t state[8], const uint8_t *bytes, size_t blocks) {
  uint32x4_t abcd = vld1q_u32(state), efgh = vld1q_u32(state + 4);
  for (; blocks > 0; blocks--, bytes += 64) {
    const uint32x4_t before[2] = {abcd, efgh};
    uint32x4_t words[4];
    for (int i = 0; i < 4; i++) words[i] = vreinterpretq_u32_u8(vrev32q_u8(vld1q_u8(bytes + 16 * i)));
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) {
      uint32x4_t &word = words[i % 4];
      const uint32x4_t sum = vaddq_u32(word, vld1q_u32(ROUND + 4 * i)), old = abcd;
      abcd = vsha256hq_u32(abcd, efgh, sum);
      efgh = vsha256h2q_u32(efgh, old, sum);
      word = vsha256su1q_u32(vsha256su0q_u32(word, words[(i + 1) % 4]), words[(i + 2) % 4], words[(i + 3) % 4]);
    }
    abcd = vaddq_u32(abcd, before[0]);
    efgh = vaddq_u32(efgh, before[1]);
  }
  vst1q_u32(state, abcd);
  vst1q_u32(state + 4, efgh);
}
#else
inline bool has_sha_instructions() { return false; }

inline void digest_fast(uint32_t *, const uint8_t *, size_t) {}
#endif

inline void digest_blocks(uint32_t state[8], const uint8_t *bytes, size_t blocks) {
  static const bool fast = has_sha_instructions();
  if (fast) return digest_fast(state, bytes, blocks);
  for (; blocks > 0; blocks--, bytes += 64) digest_block(state, bytes);
}

}  // namespace tvmbuild::detail
