#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::kernels {

// Between fused blocks images are blocked: [batch, channels / b, height, width, b], contiguous, b channels
// side by side. That is oneDNN's nChw16c (nChw8c where vectors are shorter than 512 bits) as a tensor that
// says what it is: sums, copies and concatenation along dimension 1 mean the same as ever. A plain image is
// [batch, channels, height, width]. All of this is differentiable.

/// b on this processor, within the limit that ONEDNN_MAX_CPU_ISA sets.
int64_t channels_per_block();

inline bool is_blocked(const at::Tensor& image) {
  return image.dim() == 5;
}

/// Of either kind of image.
int64_t channels_of(const at::Tensor& image);

/// [batch, channels, height, width] of either kind of image; the sizes of any other tensor.
std::vector<int64_t> plain_sizes(const at::Tensor& image);

/// The channels fill whole blocks.
bool can_block(int64_t channels);

/// x itself where it is of that kind already. to_blocked: can_block(its channels).
at::Tensor to_plain(const at::Tensor& x);
at::Tensor to_blocked(const at::Tensor& x);

/// Along the channels; blocked where one of the images is and all can be.
at::Tensor concatenate(const std::vector<at::Tensor>& images);

/// [batch, channels * height * width], in the order of a plain image.
at::Tensor flatten_image(const at::Tensor& image);

}  // namespace lockstep::kernels
