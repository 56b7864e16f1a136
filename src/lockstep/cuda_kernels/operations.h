#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/numbers.h"
#include "lockstep/cuda_kernels/tiles.h"

namespace lockstep::cuda_kernels {

// The operations of the plugin, as plain structs of addresses. Images are NHWC, of `number`, all of one
// shape; a value per channel is fp32. A mask has a bit per value, groups_of(channels) bytes per pixel.

/// Batch normalization in training: y = [relu](norm(x) [+ residual]), computed in fp32 and rounded once.
struct NormForward {
  /// At most kMostChannels.
  Shape shape;
  Number number;
  const void* x;
  /// May be null.
  const void* residual;
  const float* weight;
  const float* bias;
  double epsilon;
  double momentum;
  void* y;
  /// Set where y > 0 or not a number, to be read by the backward pass. Null: there is no ReLU.
  uint8_t* mask;
  /// Statistics of the batch, for the backward pass.
  float* mean;
  float* inverse_deviation;
  /// Updated; the variance by its unbiased estimate, except of a single value.
  float* running_mean;
  float* running_variance;
  /// Memory of workspace_bytes(), zero before its first use and used in between by nothing but other
  /// normalizations, of any shape.
  void* workspace;
};

/// Its backward pass.
struct NormBackward {
  Shape shape;
  Number number;
  /// Gradient of y.
  const void* dy;
  /// A second gradient of y, to be added and rounded; may be null, and dz must not be null if it is not.
  const void* more;
  /// From the forward pass; null if there was no ReLU.
  const uint8_t* mask;
  const void* x;
  const float* weight;
  const float* mean;
  const float* inverse_deviation;
  float* of_weight;
  float* of_bias;
  /// The gradient behind ReLU and addition, which is the residual's; may be null.
  void* dz;
  void* dx;
  /// As in NormForward.
  void* workspace;
};

/// Most tensors of one SgdUpdate, which travels to the GPU as a kernel's argument of at most 4 KiB.
constexpr int kMostTensors = 64;

/// One parameter; contiguous in memory, in any order of dimensions that is the same for all four.
struct SgdTensor {
  float* parameter;
  const float* gradient;
  /// Null without momentum.
  float* momentum;
  /// Low-precision weights to be refreshed; may be null.
  void* copy;
  int64_t size;
};

/// Stochastic gradient descent as torch.optim.SGD defines it (dampening 0):
///
///     g = factor * gradient + weight_decay * p
///     m = momentum * m + g                        (m = g in the first step)
///     p -= rate * (nesterov ? g + momentum * m : m)
///     copy = p, rounded
struct SgdUpdate {
  int32_t tensors;
  SgdTensor of[kMostTensors];
  Number copies;
  float factor;
  float weight_decay;
  float momentum;
  float rate;
  bool nesterov;
  bool first_step;
  /// In memory of the device: the rate, instead of the one above; may be null.
  const float* rate_on_device;
  /// In memory of the device: not 0 if the step is to be skipped; may be null.
  const float* skip;
};

/// Channels of the pixels at most.
constexpr int kMostPixelChannels = 4;

/// Eight-bit pixels, NHWC, to images: pixel * scale + shift per channel. Channels that the images have beyond
/// those of the pixels are 0.
struct PixelConversion {
  int64_t pixels;
  int32_t channels;
  int32_t image_channels;
  const uint8_t* from;
  void* to;
  Number number;
  float scale[kMostPixelChannels];
  float shift[kMostPixelChannels];
};

}  // namespace lockstep::cuda_kernels
