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

}  // namespace lockstep::cuda_kernels
