#include "lockstep/kernels/norm_loops.h"

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {
namespace {

// Sums over a channel have three levels, so that they are fast and as exact as a pairwise sum:
//
//     pixels  0 4 8 ... 124  -> chain 0  |
//             1 5 9 ... 125  -> chain 1  |  fp32, 32 pixels each; four chains hide the latency of an addition
//             2 6 10 ... 126 -> chain 2  |
//             3 7 11 ... 127 -> chain 3  |  -> their sum, fp32 -> added to the channel's sum in fp64

constexpr int64_t kChains = 4;

/// Adds the chains of one run to the sums in fp64.
template <int W>
LOCKSTEP_INLINE void flush(const Floats<W>* chains, double* sums) {
  float values[W];
  store<W>((chains[0] + chains[1]) + (chains[2] + chains[3]), values);
  for (int c = 0; c < W; ++c) sums[c] += values[c];
}

/// Sums over all pixels; term.add(pixel, first, second) adds one pixel to two sums.
template <int W, typename Term>
LOCKSTEP_INLINE void add_up(const Term& term, int64_t pixels, ChannelSums& sums) {
  for (int64_t begin = 0; begin < pixels; begin += kPixelsPerRun) {
    const int64_t end = begin + kPixelsPerRun < pixels ? begin + kPixelsPerRun : pixels;
    Floats<W> first[kChains] = {};
    Floats<W> second[kChains] = {};
    int64_t pixel = begin;
    for (; pixel + kChains <= end; pixel += kChains) {
      for (int64_t chain = 0; chain < kChains; ++chain) term.add(pixel + chain, first[chain], second[chain]);
    }
    for (; pixel < end; ++pixel) term.add(pixel, first[0], second[0]);
    flush<W>(first, sums.first);
    flush<W>(second, sums.second);
  }
}

template <int W, typename T>
struct Moment {
  const T* x;
  int64_t stride;
  Floats<W> shift;

  LOCKSTEP_INLINE void add(int64_t pixel, Floats<W>& first, Floats<W>& second) const {
    const Floats<W> value = load<W>(x + pixel * stride) - shift;
    first += value;
    second += value * value;
  }
};

/// The kind of ReluMask.
enum class By { kNothing, kOutput, kInput };

/// A ReluMask whose values per channel are in registers.
template <int W, typename T, By by>
struct Gate {
  const T* y;
  Floats<W> scale;
  Floats<W> bias;

  LOCKSTEP_INLINE explicit Gate(const ReluMask<T>& mask) : y(mask.y), scale{}, bias{} {
    if constexpr (by == By::kInput) {
      scale = load<W>(mask.scale);
      bias = load<W>(mask.bias);
    }
  }

  /// The gradient of pixel `at`, or 0. centered: x - mean of the same pixel.
  LOCKSTEP_INLINE Floats<W> pass(Floats<W> gradient, int64_t at, Floats<W> centered) const {
    if constexpr (by == By::kOutput) return only_where<W>(load<W>(y + at) > 0, gradient);
    if constexpr (by == By::kInput) return only_where<W>(centered * scale + bias > 0, gradient);
    return gradient;
  }
};

/// The number of gradients that are added, and whether the masked sum is written to dz.
enum class Incoming { kOne, kOneKept, kTwoKept };

template <int W, typename T, By by, Incoming incoming>
struct GradientTerm {
  const T* dy;
  const T* more;
  const T* x;
  int64_t stride;
  Floats<W> mean;
  Gate<W, T, by> gate;
  T* dz;

  LOCKSTEP_INLINE void add(int64_t pixel, Floats<W>& first, Floats<W>& second) const {
    const int64_t at = pixel * stride;
    const Floats<W> centered = load<W>(x + at) - mean;
    Floats<W> gradient = load<W>(dy + at);
    if constexpr (incoming == Incoming::kTwoKept) gradient += load<W>(more + at);
    gradient = gate.pass(gradient, at, centered);
    if constexpr (incoming != Incoming::kOne) {
      store<W>(gradient, dz + at);
      // Sums of the rounded values, because those are what the second pass reads.
      gradient = load<W>(dz + at);
    }
    first += gradient;
    second += gradient * centered;
  }
};

// Every combination of arguments that are null has a loop of its own, without branches inside.

template <int W, By by, typename T>
LOCKSTEP_INLINE void gradient_sums(const T* dy, const T* more, const ReluMask<T>& mask, const T* x,
                                   const Pixels& pixels, const float* mean_of, T* dz, ChannelSums& sums) {
  const Floats<W> mean = load<W>(mean_of);
  const Gate<W, T, by> gate(mask);
  if (dz == nullptr) {
    add_up<W>(GradientTerm<W, T, by, Incoming::kOne>{dy, more, x, pixels.stride, mean, gate, dz},
              pixels.count, sums);
  } else if (more == nullptr) {
    add_up<W>(GradientTerm<W, T, by, Incoming::kOneKept>{dy, more, x, pixels.stride, mean, gate, dz},
              pixels.count, sums);
  } else {
    add_up<W>(GradientTerm<W, T, by, Incoming::kTwoKept>{dy, more, x, pixels.stride, mean, gate, dz},
              pixels.count, sums);
  }
}

template <int W, typename T, bool has_residual, bool relu>
LOCKSTEP_INLINE void normalized(const T* x, const T* residual, const Pixels& pixels,
                                const NormFactors& factors, T* y) {
  const Floats<W> mean = load<W>(factors.mean);
  const Floats<W> scale = load<W>(factors.scale);
  const Floats<W> bias = load<W>(factors.bias);
  for (int64_t at = 0; at < pixels.count * pixels.stride; at += pixels.stride) {
    Floats<W> value = (load<W>(x + at) - mean) * scale + bias;
    if constexpr (has_residual) value += load<W>(residual + at);
    // ReLU as "not less than 0", so that a NaN passes and shows up in the loss.
    if constexpr (relu) value = only_where<W>(~(value < 0), value);
    store<W>(value, y + at);
  }
}

template <int W, By by, typename T>
LOCKSTEP_INLINE void moved_back(const T* dy, const ReluMask<T>& mask, const T* x, const Pixels& pixels,
                                const GradientFactors& factors, T* dx) {
  const Floats<W> mean = load<W>(factors.mean);
  const Floats<W> scale = load<W>(factors.scale);
  const Floats<W> slope = load<W>(factors.slope);
  const Floats<W> offset = load<W>(factors.offset);
  const Gate<W, T, by> gate(mask);
  for (int64_t at = 0; at < pixels.count * pixels.stride; at += pixels.stride) {
    const Floats<W> centered = load<W>(x + at) - mean;
    const Floats<W> gradient = gate.pass(load<W>(dy + at), at, centered);
    store<W>(scale * gradient + slope * centered + offset, dx + at);
  }
}

// The loops above, compiled once per instruction set: inlined functions are compiled for the set of the
// function that they are inlined into.
#define LOCKSTEP_NORM_LOOPS(NAME, TARGET)                                                                 \
  template <int W, typename T>                                                                            \
  struct NAME {                                                                                           \
    TARGET static void add_moments(const T* x, const Pixels& pixels, const float* shift,                  \
                                   ChannelSums& sums) {                                                   \
      add_up<W>(Moment<W, T>{x, pixels.stride, load<W>(shift)}, pixels.count, sums);                      \
    }                                                                                                     \
    TARGET static void normalize(const T* x, const T* residual, const Pixels& pixels,                     \
                                 const NormFactors& factors, bool relu, T* y) {                           \
      if (residual != nullptr && relu) {                                                                  \
        normalized<W, T, true, true>(x, residual, pixels, factors, y);                                    \
      } else if (residual != nullptr) {                                                                   \
        normalized<W, T, true, false>(x, residual, pixels, factors, y);                                   \
      } else if (relu) {                                                                                  \
        normalized<W, T, false, true>(x, residual, pixels, factors, y);                                   \
      } else {                                                                                            \
        normalized<W, T, false, false>(x, residual, pixels, factors, y);                                  \
      }                                                                                                   \
    }                                                                                                     \
    TARGET static void add_gradient_sums(const T* dy, const T* more, const ReluMask<T>& mask, const T* x, \
                                         const Pixels& pixels, const float* mean, T* dz,                  \
                                         ChannelSums& sums) {                                             \
      if (mask.y != nullptr) {                                                                            \
        gradient_sums<W, By::kOutput>(dy, more, mask, x, pixels, mean, dz, sums);                         \
      } else if (mask.scale != nullptr) {                                                                 \
        gradient_sums<W, By::kInput>(dy, more, mask, x, pixels, mean, dz, sums);                          \
      } else {                                                                                            \
        gradient_sums<W, By::kNothing>(dy, more, mask, x, pixels, mean, dz, sums);                        \
      }                                                                                                   \
    }                                                                                                     \
    TARGET static void backward(const T* dy, const ReluMask<T>& mask, const T* x, const Pixels& pixels,   \
                                const GradientFactors& factors, T* dx) {                                  \
      if (mask.y != nullptr) {                                                                            \
        moved_back<W, By::kOutput>(dy, mask, x, pixels, factors, dx);                                     \
      } else if (mask.scale != nullptr) {                                                                 \
        moved_back<W, By::kInput>(dy, mask, x, pixels, factors, dx);                                      \
      } else {                                                                                            \
        moved_back<W, By::kNothing>(dy, mask, x, pixels, factors, dx);                                    \
      }                                                                                                   \
    }                                                                                                     \
  };

LOCKSTEP_NORM_LOOPS(Plain, )
#if defined(__x86_64__)
LOCKSTEP_NORM_LOOPS(Avx2, [[gnu::target("avx2,fma")]])
LOCKSTEP_NORM_LOOPS(Avx512, LOCKSTEP_AVX512)
#endif

template <int W, typename T, template <int, typename> class Loops>
constexpr NormLoops<T> kTable{Loops<W, T>::add_moments, Loops<W, T>::normalize,
                              Loops<W, T>::add_gradient_sums, Loops<W, T>::backward};

}  // namespace

template <typename T>
const NormLoops<T>& norm_loops() {
#if defined(__x86_64__)
  using onednn::InstructionSet;
  switch (onednn::instruction_set()) {
    case InstructionSet::kAvx512:
      return kTable<16, T, Avx512>;
    case InstructionSet::kAvx2:
      return kTable<8, T, Avx2>;
    case InstructionSet::kAny:
      break;
  }
#endif
  return kTable<8, T, Plain>;
}

template const NormLoops<float>& norm_loops<float>();
template const NormLoops<uint16_t>& norm_loops<uint16_t>();

}  // namespace lockstep::kernels
