#pragma once

#include <cstdint>

#include "lockstep/kernels/conv_shape.h"

namespace lockstep::kernels {

// Convolutions with 3x3 kernels and stride 1 in fp32 by Winograd's minimal filtering F(2x2, 3x3) (Lavin and
// Gray, "Fast Algorithms for Convolutional Neural Networks", 2016): 16 multiplications for four outputs
// instead of 36, as 16 matrix products over tiles that stay in the cache. They are added up in short runs, so
// that the result is about as exact as a direct sum's (suits_winograd() says where).
//
// Images are blocked (image_layout.h), all channels fill blocks; weights lie as [out][3][3][in], channels
// last. Every function uses the calling thread's team; bits do not depend on the number of threads.

struct WinogradShape {
  int64_t batch = 0;
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  /// Of the input.
  int64_t height = 0;
  int64_t width = 0;
  /// At most 2.
  int64_t pad_height = 0;
  int64_t pad_width = 0;

  int64_t out_height() const { return height + 2 * pad_height - 2; }
  int64_t out_width() const { return width + 2 * pad_width - 2; }
};

/// Of images [batch, conv.in_channels, height, width].
WinogradShape winograd_shape(const ConvShape& conv, int64_t batch, int64_t height, int64_t width);

/// Whether this is the way to compute it: 3x3, stride 1, in one group, padded by at most 2, on a processor
/// with AVX2 or more; of and to at least 32 channels, which fill blocks, of 4 images or more, 4x4 pixels or
/// larger, with 256 pixels of output or more between them.
bool suits_winograd(const ConvShape& conv, const WinogradShape& shape);

/// y = x * weight, plus `bias` where it is not null; 0 instead of what is negative where `relu` is set.
void winograd_forward(const WinogradShape& shape, const float* x, const float* weight, const float* bias,
                      bool relu, float* y);

/// The gradient of x.
void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight, float* dx);

/// gradient = scale * that of the weight, or += where `add` is set.
void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy, float scale,
                               bool add, float* gradient);

}  // namespace lockstep::kernels
