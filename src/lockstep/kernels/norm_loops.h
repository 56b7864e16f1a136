#pragma once

#include <cstdint>

namespace lockstep::kernels {

// The passes of batch normalisation over one block of channels (image_layout.h) of one image: `pixels` rows
// of as many values as a block has channels. T is float, or uint16_t for bf16 as it lies in memory; sums and
// the values per channel are fp32 or fp64. Written once with the compiler's vectors, compiled for AVX-512,
// AVX2 and what every processor has; chosen when the program runs. Not threaded.

/// Values per channel of one block, in fp64.
constexpr int kMostChannelsPerBlock = 16;
struct ChannelSums {
  double first[kMostChannelsPerBlock] = {};
  double second[kMostChannelsPerBlock] = {};
};

/// Where a ReLU behind a normalisation let values through: where y > 0, or, without y, where
/// (x - mean) * scale + bias > 0; everywhere without either.
template <typename T>
struct ReluMask {
  const T* y = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
};

template <typename T>
struct NormLoops {
  /// first += sum of (x - shift); second += sum of (x - shift)^2.
  void (*add_moments)(const T* x, int64_t pixels, const float* shift, ChannelSums& sums);

  /// y = (x - mean) * scale + bias, plus `residual` where it is not null, and 0 instead of what is negative
  /// where `relu` is set.
  void (*normalize)(const T* x, const T* residual, int64_t pixels, const float* mean, const float* scale,
                    const float* bias, bool relu, T* y);

  /// Of the gradient dz = dy + more where the mask lets through, and 0 elsewhere: first += sum of dz;
  /// second += sum of dz * (x - mean). dz itself is kept where it is not null; `more` may be null, and is
  /// wherever dz is.
  void (*add_gradient_sums)(const T* dy, const T* more, const ReluMask<T>& mask, const T* x, int64_t pixels,
                            const float* mean, T* dz, ChannelSums& sums);

  /// dx = scale * dz + slope * (x - mean) + offset, with dz = dy where the mask lets through, and 0
  /// elsewhere.
  void (*backward)(const T* dy, const ReluMask<T>& mask, const T* x, int64_t pixels, const float* mean,
                   const float* scale, const float* slope, const float* offset, T* dx);
};

/// For float and uint16_t, and channels_per_block().
template <typename T>
const NormLoops<T>& norm_loops();

}  // namespace lockstep::kernels
