#include "lockstep/comm/element_reduce.h"

#include <type_traits>

#include "lockstep/base/half_float.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#define LOCKSTEP_X86 1
#endif

#if defined(__clang__)
#define LOCKSTEP_INDEPENDENT_STEPS _Pragma("clang loop vectorize(assume_safety)")
#else
#define LOCKSTEP_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#endif

namespace lockstep::comm {
namespace {

// Distinct types for the two 16-bit formats, so that combine() is chosen by type.
struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

template <ReduceOp op, typename T>
[[gnu::always_inline]] inline T combine(T a, T b) {
  if constexpr (op == ReduceOp::kMin) return b < a ? b : a;
  if constexpr (op == ReduceOp::kMax) return a < b ? b : a;
  if constexpr (op == ReduceOp::kSum) {
    if constexpr (std::is_integral_v<T>) {
      // Unsigned arithmetic wraps around; overflow of signed integers is undefined.
      using Unsigned = std::make_unsigned_t<T>;
      return T(Unsigned(Unsigned(a) + Unsigned(b)));
    } else {
      return a + b;
    }
  }
}

template <ReduceOp op>
[[gnu::always_inline]] inline BFloat16 combine(BFloat16 a, BFloat16 b) {
  return {float_to_bfloat16(combine<op>(bfloat16_to_float(a.bits), bfloat16_to_float(b.bits)))};
}

template <ReduceOp op>
[[gnu::always_inline]] inline Float16 combine(Float16 a, Float16 b) {
  return {float_to_float16(combine<op>(float16_to_float(a.bits), float16_to_float(b.bits)))};
}

template <typename T, ReduceOp op>
[[gnu::always_inline]] inline void loop(void* output, const void* a, const void* b, size_t count) {
  T* out = static_cast<T*>(output);
  const T* left = static_cast<const T*>(a);
  const T* right = static_cast<const T*>(b);
  // Every element is read before its own place is written, so equal addresses are fine.
  LOCKSTEP_INDEPENDENT_STEPS
  for (size_t i = 0; i < count; ++i) out[i] = combine<op>(left[i], right[i]);
}

// One loop, compiled for several instruction sets and chosen at run time (choose). Vector instructions round
// as scalar ones do, and no step depends on another, so every version gives the same bits.
template <typename T, ReduceOp op>
void reduce_plain(void* output, const void* a, const void* b, size_t count) {
  loop<T, op>(output, a, b, count);
}

#if LOCKSTEP_X86
template <typename T, ReduceOp op>
[[gnu::target("avx2")]] void reduce_avx2(void* output, const void* a, const void* b, size_t count) {
  loop<T, op>(output, a, b, count);
}

// Eight halves at a time through fp32 registers; the remainder goes through the scalar conversions, which
// round alike.
template <ReduceOp op>
[[gnu::target("avx2,f16c")]] void reduce_float16_f16c(void* output, const void* a, const void* b,
                                                      size_t count) {
  auto* out = static_cast<uint16_t*>(output);
  const auto* left = static_cast<const uint16_t*>(a);
  const auto* right = static_cast<const uint16_t*>(b);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 x = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(left + i)));
    const __m256 y = _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(right + i)));
    __m256 z;
    // The second operand wins where neither compares less, as in combine().
    if constexpr (op == ReduceOp::kSum) z = _mm256_add_ps(x, y);
    if constexpr (op == ReduceOp::kMin) z = _mm256_min_ps(y, x);
    if constexpr (op == ReduceOp::kMax) z = _mm256_max_ps(y, x);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_cvtps_ph(z, _MM_FROUND_TO_NEAREST_INT));
  }
  loop<Float16, op>(out + i, left + i, right + i, count - i);
}
#endif

#if LOCKSTEP_X86
/// Not every compiler's __builtin_cpu_supports knows f16c.
bool has_f16c() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}
#endif

template <typename T, ReduceOp op>
ReduceFunction choose() {
#if LOCKSTEP_X86
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if constexpr (std::is_same_v<T, Float16>) {
    if (has_avx2 && has_f16c()) return reduce_float16_f16c<op>;
  } else {
    if (has_avx2) return reduce_avx2<T, op>;
  }
#endif
  return reduce_plain<T, op>;
}

template <typename T>
ReduceFunction choose(ReduceOp op) {
  const ReduceFunction functions[] = {choose<T, ReduceOp::kSum>(), choose<T, ReduceOp::kMin>(),
                                      choose<T, ReduceOp::kMax>()};
  return functions[static_cast<size_t>(op)];
}

}  // namespace

ReduceFunction reduce_function(DType dtype, ReduceOp op) {
  // In the order of DType.
  constexpr ReduceFunction (*kChoosers[])(ReduceOp) = {choose<float>,    choose<double>,  choose<Float16>,
                                                       choose<BFloat16>, choose<uint8_t>, choose<int32_t>,
                                                       choose<int64_t>};
  return kChoosers[static_cast<size_t>(dtype)](op);
}

}  // namespace lockstep::comm
