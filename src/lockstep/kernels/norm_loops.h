#pragma once

#include <cstdint>

namespace lockstep::kernels {

// The loops of batch normalization over W = channels_per_block() channels of successive pixels of an image
// (image_layout.h):
//
//     x -> | pixel 0: W values | ... | pixel 1: W values | ... |     `stride` values from pixel to pixel
//
// A value per channel (mean, scale, ...) is a pointer to W values. T is float, or uint16_t for bf16 in
// memory; values per channel are fp32, sums fp64. Written once with the compiler's vectors and compiled for
// AVX-512, for AVX2 and for any processor; chosen at run time. Single-threaded.

/// Pixels that loops go through, and the values from one to the next: W in blocks, all channels in
/// channels-last.
struct Pixels {
  int64_t count;
  int64_t stride;
};

/// Sums are in fp32 over so many pixels and in fp64 beyond, so that loops over a multiple of it, one after
/// the other, give the bits of one loop over all.
constexpr int64_t kPixelsPerRun = 128;

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
  void (*add_moments)(const T* x, const Pixels& pixels, const float* shift, ChannelSums& sums);

  /// y = (x - mean) * scale + bias [+ residual], then ReLU if `relu` is set. `residual` may be null.
  void (*normalize)(const T* x, const T* residual, const Pixels& pixels, const NormFactors& factors,
                    bool relu, T* y);

  /// With dz = dy + more where the mask passes, 0 elsewhere: first += sum of dz; second += sum of dz * (x -
  /// mean). Writes dz as well if it is not null. `more` may be null, and must be if dz is.
  void (*add_gradient_sums)(const T* dy, const T* more, const ReluMask<T>& mask, const T* x,
                            const Pixels& pixels, const float* mean, T* dz, ChannelSums& sums);

  /// dx as GradientFactors says, with dz = dy where the mask passes, 0 elsewhere.
  void (*backward)(const T* dy, const ReluMask<T>& mask, const T* x, const Pixels& pixels,
                   const GradientFactors& factors, T* dx);
};

/// The loops for this processor. T: float or uint16_t.
template <typename T>
const NormLoops<T>& norm_loops();

}  // namespace lockstep::kernels
