#pragma once

#include <cstdint>

namespace lockstep::kernels {

// The loops of batch normalization over one block of channels of one image (image_layout.h):
//
//     x -> | pixel 0: W values | pixel 1: W values | ... | pixel pixels - 1 |     W = channels_per_block()
//
// A value per channel (mean, scale, ...) is a pointer to W values. T is float, or uint16_t for bf16 in
// memory; values per channel are fp32, sums fp64. Written once with the compiler's vectors and compiled for
// AVX-512, for AVX2 and for any processor; chosen at run time. Single-threaded.

/// Two sums per channel of one block.
constexpr int kMostChannelsPerBlock = 16;
struct ChannelSums {
  double first[kMostChannelsPerBlock] = {};
  double second[kMostChannelsPerBlock] = {};
};

/// The mask of a ReLU after a normalization. It passes where y > 0; without y, where (x - mean) * scale +
/// bias > 0; everywhere if all are null.
template <typename T>
struct ReluMask {
  const T* y = nullptr;
  const float* scale = nullptr;
  const float* bias = nullptr;
};

/// y = (x - mean) * scale + bias.
struct NormFactors {
  const float* mean;
  const float* scale;
  const float* bias;
};

/// dx = scale * dz + slope * (x - mean) + offset.
struct GradientFactors {
  const float* mean;
  const float* scale;
  const float* slope;
  const float* offset;
};

template <typename T>
struct NormLoops {
  /// first += sum of (x - shift); second += sum of (x - shift)^2.
  void (*add_moments)(const T* x, int64_t pixels, const float* shift, ChannelSums& sums);

  /// y = (x - mean) * scale + bias [+ residual], then ReLU if `relu` is set. `residual` may be null.
  void (*normalize)(const T* x, const T* residual, int64_t pixels, const NormFactors& factors, bool relu,
                    T* y);

  /// With dz = dy + more where the mask passes, 0 elsewhere: first += sum of dz; second += sum of dz * (x -
  /// mean). Writes dz as well if it is not null. `more` may be null, and must be if dz is.
  void (*add_gradient_sums)(const T* dy, const T* more, const ReluMask<T>& mask, const T* x, int64_t pixels,
                            const float* mean, T* dz, ChannelSums& sums);

  /// dx as GradientFactors says, with dz = dy where the mask passes, 0 elsewhere.
  void (*backward)(const T* dy, const ReluMask<T>& mask, const T* x, int64_t pixels,
                   const GradientFactors& factors, T* dx);
};

/// The loops for this processor. T: float or uint16_t.
template <typename T>
const NormLoops<T>& norm_loops();

}  // namespace lockstep::kernels
