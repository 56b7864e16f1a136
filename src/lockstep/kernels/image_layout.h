#pragma once

#include <cstdint>
#include <string>
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
// image, [batch, channels, height, width].
//
// In channels-last (oneDNN's nhwc) there is one block of all channels, [batch, 1, height, width, channels],
// so that everything holds for it as well; only images of equal layout are concatenated or added. All
// functions are differentiable.

enum class ImageLayout { kBlocks, kChannelsLast };

/// The layout of blocked images of this type on this processor: channels-last for bf16 with AMX, for which
/// oneDNN has AMX code, and blocks elsewhere. The environment's LOCKSTEP_IMAGE_LAYOUT, `blocks` or
/// `channels_last`, decides for all, for tests and comparisons; other values are a ConfigError.
ImageLayout layout_of(at::ScalarType type);

/// "fp32 in blocks of 16 channels, bf16 channels-last: oneDNN has AMX code for it alone".
std::string layouts_text();

/// b on this processor, and how many channels any loop takes at once: 16 with AVX-512, else 8.
/// ONEDNN_MAX_CPU_ISA limits it.
int64_t channels_per_block();

inline bool is_blocked(const at::Tensor& image) {
  return image.dim() == 5;
}

/// Number of channels of a plain or a blocked image.
int64_t channels_of(const at::Tensor& image);

/// Whether this many channels fill whole blocks.
bool can_block(int64_t channels);

/// Channels next to each other in memory, of an image with so many in all.
int64_t block_width(int64_t channels, at::ScalarType type);

/// Conversions; they return x itself if it has the layout already. to_blocked() requires can_block(), and
/// gives the image the type and that type's layout.
at::Tensor to_plain(const at::Tensor& x);
at::Tensor to_blocked(const at::Tensor& x, at::ScalarType type);
inline at::Tensor to_blocked(const at::Tensor& x) {
  return to_blocked(x, x.scalar_type());
}

/// Concatenates along the channels. The result is blocked if one of the images is and all of them can be.
at::Tensor concatenate(const std::vector<at::Tensor>& images);

/// [batch, channels * height * width], in the order of a plain image.
at::Tensor flatten_image(const at::Tensor& image);

}  // namespace lockstep::kernels
