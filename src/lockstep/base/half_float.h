#pragma once

#include <bit>
#include <cstdint>

namespace lockstep {

/// Conversions of 16-bit floating-point formats, bit for bit those of the processor's instructions: round to
/// nearest even, a NaN keeps its sign and leading bits and becomes quiet.
///
///                sign  exponent (bias)  fraction
///     float       1        8 (127)         23
///     bfloat16    1        8 (127)          7    the upper half of a float
///     float16     1        5 (15)          10    below 2^-14 without the leading one

inline float bfloat16_to_float(uint16_t bits) {
  return std::bit_cast<float>(uint32_t{bits} << 16);
}

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40u;
  return uint16_t((bits & 0x7fffffffu) > 0x7f800000u ? quiet_nan : rounded);
}

inline float float16_to_float(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {
    const uint32_t payload = (magnitude & 0x3ffu) << 13;
    return std::bit_cast<float>(sign | 0x7f800000u | payload | (payload != 0 ? 0x400000u : 0u));
  }
  if (magnitude < 0x400u) {
    // Subnormal: the value is magnitude * 2^-24, which a float holds exactly.
    const float value = float(magnitude) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(value));
  }
  return std::bit_cast<float>(sign | ((magnitude << 13) + (uint32_t{127 - 15} << 23)));
}

inline uint16_t float_to_float16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return uint16_t(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu));
  // Infinity from 65520 on, half way between the largest fp16 and the next power of two.
  if (magnitude >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
  if (magnitude < 0x38800000u) {
    // Subnormal result, a multiple of 2^-24. That is also the last bit of a float near 0.5, so adding 0.5
    // rounds as needed.
    const float aligned = std::bit_cast<float>(magnitude) + 0.5f;
    return uint16_t(sign | (std::bit_cast<uint32_t>(aligned) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u) - (uint32_t{127 - 15} << 23);
  return uint16_t(sign | (rounded >> 13));
}

}  // namespace lockstep
