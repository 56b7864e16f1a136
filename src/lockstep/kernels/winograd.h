#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/shapes.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

// Convolutions with 3x3 kernels and stride 1 in fp32 by Winograd's minimal filtering F(2x2, 3x3) (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2016): 16 multiplications for four outputs
// instead of 36, as 16 matrix products over tiles that stay in the cache. Sums are added up in short runs, so
// the result is about as exact as a direct sum where suits_winograd() is true.
//
// Images are blocked (image_layout.h), and all channels fill whole blocks. Weights are [out][3][3][in], that
// is, channels last. Every function uses the calling thread's OpenMP team; its number of threads does not
// change the bits of the result.

struct WinogradShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  /// Size of the input.
  int64_t height = 0;
  int64_t width = 0;
  /// At most 2.
  int64_t pad_height = 0;
  int64_t pad_width = 0;

  int64_t out_height() const { return height + 2 * pad_height - 2; }
  int64_t out_width() const { return width + 2 * pad_width - 2; }
};

/// The shape for images [batch, conv.in_channels, height, width].
WinogradShape winograd_shape(const ConvShape& conv, int64_t batch, int64_t height, int64_t width);

/// Whether these functions support the convolution and are exact enough: 3x3, stride 1, one group, padding of
/// at most 2, on a processor with AVX2 or more; at least 32 input and output channels, which fill blocks; at
/// least 4 images of at least 4x4 pixels with at least 256 pixels of output in total.
bool suits_winograd(const ConvShape& conv, const WinogradShape& shape);

/// y = x * weight, plus `bias` if it is not null, then ReLU if `relu` is set.
void winograd_forward(const WinogradShape& shape, const float* x, const float* weight, const float* bias,
                      bool relu, float* y);

/// dx = the gradient of x.
void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight, float* dx);

/// gradient = scale * the gradient of the weight, or += if `add` is set.
void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy, float scale,
                               bool add, float* gradient);

/// Whether winograd_conv() should compute this convolution of the blocked image `x`: suits_winograd(), fp32,
/// and a weight in channels last.
bool can_winograd(const ConvShape& conv, const at::Tensor& x, const at::Tensor& weight);

/// relu(x * weight + bias) as a blocked image; differentiable. `bias` may be undefined. `place`: the place
/// for the weight's gradient, or an empty one. `place` and `conv` must outlive the backward pass.
at::Tensor winograd_conv(const ConvShape& conv, bool relu, const at::Tensor& x, const at::Tensor& weight,
                         const at::Tensor& bias, const replica::GradientPlace& place);

}  // namespace lockstep::kernels
