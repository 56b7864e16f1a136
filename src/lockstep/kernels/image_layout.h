#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

// Fused blocks exchange blocked images: [batch, channels / b, height, width, b], contiguous, with b channels
// next to each other in memory. For b = 16:
//
//     image 0, channels 0..15    | (0, 0): 16 values | (0, 1): 16 values | ... all pixels, row by row
//     image 0, channels 16..31   | (0, 0): 16 values | (0, 1): 16 values | ...
//       ...
//     image 1, channels 0..15    | ...
//
// A pixel of a block is one vector, and a block of an image is contiguous and small enough to stay in the
// cache between two passes. oneDNN calls the layout nChw16c (nChw8c for shorter vectors). Because the tensor
// has its five dimensions, sums, copies and concatenation along dimension 1 mean the same as for a plain
// image, [batch, channels, height, width]. All functions are differentiable.

/// b on this processor: 16 with AVX-512, else 8. ONEDNN_MAX_CPU_ISA limits it.
int64_t channels_per_block();

inline bool is_blocked(const at::Tensor& image) {
  return image.dim() == 5;
}

/// Number of channels of a plain or a blocked image.
int64_t channels_of(const at::Tensor& image);

/// Whether this many channels fill whole blocks.
bool can_block(int64_t channels);

/// Conversions; they return x itself if it has the layout already. to_blocked() requires can_block().
at::Tensor to_plain(const at::Tensor& x);
at::Tensor to_blocked(const at::Tensor& x);

/// Concatenates along the channels. The result is blocked if one of the images is and all of them can be.
at::Tensor concatenate(const std::vector<at::Tensor>& images);

/// [batch, channels * height * width], in the order of a plain image.
at::Tensor flatten_image(const at::Tensor& image);

}  // namespace lockstep::kernels
