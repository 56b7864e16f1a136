#include "lockstep/kernels/norm_loops.h"

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/instruction_set.h"

namespace lockstep::kernels {
namespace {

/// Pixels whose sums stay in fp32, in kChains sums side by side: so few that rounding stays below that of a
/// pairwise sum.
constexpr int64_t kRun = 128;
constexpr int64_t kChains = 4;

template <int W>
LOCKSTEP_INLINE void flush(const Floats<W>* chains, double* sums) {
  float values[W];
  store<W>((chains[0] + chains[1]) + (chains[2] + chains[3]), values);
  for (int c = 0; c < W; ++c) sums[c] += values[c];
}

/// Adds up term(pixel, first, second) over all pixels.
template <int W, typename Term>
LOCKSTEP_INLINE void add_up(const Term& term, int64_t pixels, ChannelSums& sums) {
  for (int64_t begin = 0; begin < pixels; begin += kRun) {
    const int64_t end = begin + kRun < pixels ? begin + kRun : pixels;
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
  Floats<W> shift;

  LOCKSTEP_INLINE void add(int64_t pixel, Floats<W>& first, Floats<W>& second) const {
    const Floats<W> value = load<W>(x + pixel * W) - shift;
    first += value;
    second += value * value;
  }
};

/// By what a gradient is masked.
enum class By { kNothing, kOutput, kInput };

/// A ReluMask in registers.
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

  /// centered: x - mean there.
  LOCKSTEP_INLINE Floats<W> pass(Floats<W> gradient, int64_t at, Floats<W> centered) const {
    if constexpr (by == By::kOutput) return only_where<W>(load<W>(y + at) > 0, gradient);
    if constexpr (by == By::kInput) return only_where<W>(centered * scale + bias > 0, gradient);
    return gradient;
  }
};

/// What becomes of the gradients that come in.
enum class Incoming { kOne, kOneKept, kTwoKept };

template <int W, typename T, By by, Incoming incoming>
struct GradientTerm {
  const T* dy;
  const T* more;
  const T* x;
  Floats<W> mean;
  Gate<W, T, by> gate;
  T* dz;

  LOCKSTEP_INLINE void add(int64_t pixel, Floats<W>& first, Floats<W>& second) const {
    const int64_t at = pixel * W;
    const Floats<W> centered = load<W>(x + at) - mean;
    Floats<W> gradient = load<W>(dy + at);
    if constexpr (incoming == Incoming::kTwoKept) gradient += load<W>(more + at);
    gradient = gate.pass(gradient, at, centered);
    if constexpr (incoming != Incoming::kOne) {
      store<W>(gradient, dz + at);
      // What the second pass will read, also where that is rounded.
      gradient = load<W>(dz + at);
    }
    first += gradient;
    second += gradient * centered;
  }
};

template <int W, By by, typename T>
LOCKSTEP_INLINE void gradient_sums(const T* dy, const T* more, const ReluMask<T>& mask, const T* x,
                                   int64_t pixels, const float* mean_of, T* dz, ChannelSums& sums) {
  const Floats<W> mean = load<W>(mean_of);
  const Gate<W, T, by> gate(mask);
  if (dz == nullptr) {
    add_up<W>(GradientTerm<W, T, by, Incoming::kOne>{dy, more, x, mean, gate, dz}, pixels, sums);
  } else if (more == nullptr) {
    add_up<W>(GradientTerm<W, T, by, Incoming::kOneKept>{dy, more, x, mean, gate, dz}, pixels, sums);
  } else {
    add_up<W>(GradientTerm<W, T, by, Incoming::kTwoKept>{dy, more, x, mean, gate, dz}, pixels, sums);
  }
}

template <int W, typename T, bool has_residual, bool relu>
LOCKSTEP_INLINE void normalized(const T* x, const T* residual, int64_t pixels, const float* mean_of,
                                const float* scale_of, const float* bias_of, T* y) {
  const Floats<W> mean = load<W>(mean_of);
  const Floats<W> scale = load<W>(scale_of);
  const Floats<W> bias = load<W>(bias_of);
  for (int64_t at = 0; at < pixels * W; at += W) {
    Floats<W> value = (load<W>(x + at) - mean) * scale + bias;
    if constexpr (has_residual) value += load<W>(residual + at);
    // A NaN, which is to be seen in the loss, is not less than 0.
    if constexpr (relu) value = only_where<W>(~(value < 0), value);
    store<W>(value, y + at);
  }
}

template <int W, By by, typename T>
LOCKSTEP_INLINE void moved_back(const T* dy, const ReluMask<T>& mask, const T* x, int64_t pixels,
                                const float* mean_of, const float* scale_of, const float* slope_of,
                                const float* offset_of, T* dx) {
  const Floats<W> mean = load<W>(mean_of);
  const Floats<W> scale = load<W>(scale_of);
  const Floats<W> slope = load<W>(slope_of);
  const Floats<W> offset = load<W>(offset_of);
  const Gate<W, T, by> gate(mask);
  for (int64_t at = 0; at < pixels * W; at += W) {
    const Floats<W> centered = load<W>(x + at) - mean;
    const Floats<W> gradient = gate.pass(load<W>(dy + at), at, centered);
    store<W>(scale * gradient + slope * centered + offset, dx + at);
  }
}

// The same loops once per set of instructions.
#define LOCKSTEP_NORM_LOOPS(NAME, TARGET)                                                                 \
  template <int W, typename T>                                                                            \
  struct NAME {                                                                                           \
    TARGET static void add_moments(const T* x, int64_t pixels, const float* shift, ChannelSums& sums) {   \
      add_up<W>(Moment<W, T>{x, load<W>(shift)}, pixels, sums);                                           \
    }                                                                                                     \
    TARGET static void normalize(const T* x, const T* residual, int64_t pixels, const float* mean,        \
                                 const float* scale, const float* bias, bool relu, T* y) {                \
      if (residual != nullptr && relu) {                                                                  \
        normalized<W, T, true, true>(x, residual, pixels, mean, scale, bias, y);                          \
      } else if (residual != nullptr) {                                                                   \
        normalized<W, T, true, false>(x, residual, pixels, mean, scale, bias, y);                         \
      } else if (relu) {                                                                                  \
        normalized<W, T, false, true>(x, residual, pixels, mean, scale, bias, y);                         \
      } else {                                                                                            \
        normalized<W, T, false, false>(x, residual, pixels, mean, scale, bias, y);                        \
      }                                                                                                   \
    }                                                                                                     \
    TARGET static void add_gradient_sums(const T* dy, const T* more, const ReluMask<T>& mask, const T* x, \
                                         int64_t pixels, const float* mean, T* dz, ChannelSums& sums) {   \
      if (mask.y != nullptr) {                                                                            \
        gradient_sums<W, By::kOutput>(dy, more, mask, x, pixels, mean, dz, sums);                         \
      } else if (mask.scale != nullptr) {                                                                 \
        gradient_sums<W, By::kInput>(dy, more, mask, x, pixels, mean, dz, sums);                          \
      } else {                                                                                            \
        gradient_sums<W, By::kNothing>(dy, more, mask, x, pixels, mean, dz, sums);                        \
      }                                                                                                   \
    }                                                                                                     \
    TARGET static void backward(const T* dy, const ReluMask<T>& mask, const T* x, int64_t pixels,         \
                                const float* mean, const float* scale, const float* slope,                \
                                const float* offset, T* dx) {                                             \
      if (mask.y != nullptr) {                                                                            \
        moved_back<W, By::kOutput>(dy, mask, x, pixels, mean, scale, slope, offset, dx);                  \
      } else if (mask.scale != nullptr) {                                                                 \
        moved_back<W, By::kInput>(dy, mask, x, pixels, mean, scale, slope, offset, dx);                   \
      } else {                                                                                            \
        moved_back<W, By::kNothing>(dy, mask, x, pixels, mean, scale, slope, offset, dx);                 \
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
