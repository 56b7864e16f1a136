#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include "lockstep/base/half_float.h"
#include "lockstep/cuda_kernels/block.h"

namespace lockstep::cuda_kernels {

/// Number formats of images. All arithmetic is fp32.
enum class Number : int32_t { kFloat, kBf16, kHalf };

struct Bf16 {
  uint16_t bits;
};

struct Half {
  uint16_t bits;
};

LOCKSTEP_KERNEL float as_float(float value) {
  return value;
}

LOCKSTEP_KERNEL float as_float(Bf16 value) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(static_cast<uint32_t>(value.bits) << 16);
#else
  return bfloat16_to_float(value.bits);
#endif
}

LOCKSTEP_KERNEL float as_float(Half value) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(value.bits));
#else
  return float16_to_float(value.bits);
#endif
}

/// Rounds to nearest, ties to even.
template <typename T>
LOCKSTEP_KERNEL T rounded(float value);

template <>
LOCKSTEP_KERNEL float rounded<float>(float value) {
  return value;
}

template <>
LOCKSTEP_KERNEL Bf16 rounded<Bf16>(float value) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(value))};
#else
  return {float_to_bfloat16(value)};
#endif
}

template <>
LOCKSTEP_KERNEL Half rounded<Half>(float value) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(value))};
#else
  return {float_to_float16(value)};
#endif
}

/// Calls body(T()) with the T of a Number.
template <typename Body>
void with_number(Number number, const Body& body) {
  switch (number) {
    case Number::kFloat:
      return body(float());
    case Number::kBf16:
      return body(Bf16());
    case Number::kHalf:
      return body(Half());
  }
}

}  // namespace lockstep::cuda_kernels
