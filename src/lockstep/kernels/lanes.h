#pragma once

#include <cstdint>

// The compiler's vectors of W values, for loops that are compiled for several instruction sets. The functions
// here are always inlined and use the instruction set of their caller. No vector is an argument or a result
// of a function that is not inlined: its calling convention would depend on the instruction set.

#define LOCKSTEP_INLINE [[gnu::always_inline]] inline

/// Marks functions that are called only if onednn::instruction_set() is kAvx512.
#if defined(__x86_64__)
#define LOCKSTEP_AVX512 [[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512")]]
#else
#define LOCKSTEP_AVX512
#endif

namespace lockstep::kernels {

template <int W>
struct Lanes {
  typedef float Floats __attribute__((vector_size(W * 4)));
  typedef uint32_t Words __attribute__((vector_size(W * 4)));
  typedef int32_t Mask __attribute__((vector_size(W * 4)));
  typedef uint16_t Halves __attribute__((vector_size(W * 2)));
};

template <int W>
using Floats = typename Lanes<W>::Floats;

template <int W>
LOCKSTEP_INLINE Floats<W> load(const float* from) {
  Floats<W> value;
  __builtin_memcpy(&value, from, sizeof(value));
  return value;
}

/// Widens bf16 to fp32: bf16 is the upper half of an fp32 number.
template <int W>
LOCKSTEP_INLINE Floats<W> load(const uint16_t* from) {
  typename Lanes<W>::Halves bits;
  __builtin_memcpy(&bits, from, sizeof(bits));
  return (Floats<W>)(__builtin_convertvector(bits, typename Lanes<W>::Words) << 16);
}

template <int W>
LOCKSTEP_INLINE void store(Floats<W> value, float* to) {
  __builtin_memcpy(to, &value, sizeof(value));
}

/// Rounds to bf16, to nearest even, in the lower half of each word. A NaN stays a NaN: adding the rounding
/// constant to its bits could make it an infinity or a zero.
template <int W>
LOCKSTEP_INLINE typename Lanes<W>::Words to_bf16(Floats<W> value) {
  using Words = typename Lanes<W>::Words;
  const Words bits = (Words)value;
  const Words rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const Words is_number = (Words)(value == value);
  return (rounded & is_number) | (0x7fc0U & ~is_number);
}

template <int W>
LOCKSTEP_INLINE void store(Floats<W> value, uint16_t* to) {
  const auto halves = __builtin_convertvector(to_bf16<W>(value), typename Lanes<W>::Halves);
  __builtin_memcpy(to, &halves, sizeof(halves));
}

/// `value` where the mask is set, else 0.
template <int W>
LOCKSTEP_INLINE Floats<W> only_where(typename Lanes<W>::Mask mask, Floats<W> value) {
  return (Floats<W>)((typename Lanes<W>::Mask)value & mask);
}

}  // namespace lockstep::kernels
