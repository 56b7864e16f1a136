#include "lockstep/kernels/winograd.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/winograd_tiles.h"

namespace lockstep::kernels {
namespace {

using winograd::divide_up;
using winograd::floats;
using winograd::kSkew;
using winograd::Planes;
using winograd::read_tiles;
using winograd::Tiles;

/// Tiles that a thread takes through all three steps at once: enough to read weights for, and so few that
/// what is made of them stays in the cache.
constexpr int64_t kTilesAtOnce = 64;

constexpr int64_t kMostPadding = 2;

/// What is transformed is rounded more often than what is not. Shorter sums than these, over channels or over
/// a batch's pixels, are so exact that it shows: more than 1.5 times LibTorch's error, up to 2.3 times.
constexpr int64_t kFewestChannels = 32;
constexpr int64_t kSmallestBatch = 4;
constexpr int64_t kFewestPixels = 256;
constexpr int64_t kSmallestImage = 4;

/// Weights as multiply() reads them.
struct Packed {
  Packed(int64_t in_channels, int64_t out_channels)
      : in(in_channels), out(out_channels), stride(in * out + kSkew), tensor(floats(kFrequencies * stride)) {}

  /// Where the rows of a block of output channels begin, and how far apart they are.
  int64_t row(int64_t out_block) const {
    const int64_t width = channels_per_block();
    const bool last_alone = (out / width) % 2 == 1 && out_block == out / width - 1;
    return last_alone ? width : 2 * width;
  }
  int64_t begin(int64_t out_block) const {
    const int64_t width = channels_per_block();
    return out_block / 2 * 2 * width * in + out_block % 2 * width;
  }

  int64_t in, out, stride;
  at::Tensor tensor;
};

/// For the forward pass, or turned by 180 degrees, for the gradient of the input: there outputs go in.
Packed pack(const WinogradShape& shape, const float* weight, bool turned) {
  const int64_t width = channels_per_block();
  const auto pack_block = turned ? winograd_loops().pack_backward : winograd_loops().pack_forward;
  Packed packed =
      turned ? Packed(shape.out_channels, shape.in_channels) : Packed(shape.in_channels, shape.out_channels);
  auto* const into = packed.tensor.mutable_data_ptr<float>();
  at::parallel_for(0, shape.out_channels / width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < shape.in_channels / width; ++c) {
        const int64_t in_block = turned ? k : c;
        const int64_t out_block = turned ? c : k;
        const int64_t row = packed.row(out_block);
        pack_block(weight + (k * 9 * shape.in_channels + c) * width, shape.in_channels,
                   into + packed.begin(out_block) + in_block * width * row, packed.stride, row);
      }
    }
  });
  return packed;
}

/// out = in * weights.
void convolve(const Tiles& tiles, const float* in, const Planes& of_in, const Packed& weights,
              const float* bias, bool relu, float* out, const Planes& of_out) {
  const int64_t width = channels_per_block();
  const WinogradLoops& loops = winograd_loops();
  const auto threads = static_cast<int64_t>(at::get_num_threads());
  const int64_t parts = divide_up(divide_up(tiles.count(), kTilesAtOnce), threads) * threads;
  const int64_t at_once = divide_up(divide_up(tiles.count(), parts), kTileStep) * kTileStep;
  const int64_t in_stride = weights.in * at_once + kSkew;
  const int64_t out_stride = weights.out * at_once + kSkew;
  const at::Tensor scratch = floats(threads * kFrequencies * (in_stride + out_stride));
  const auto* const packed = weights.tensor.const_data_ptr<float>();
  at::parallel_for(0, divide_up(tiles.count(), at_once), 1, [&](int64_t first, int64_t last) {
    float* const from =
        scratch.mutable_data_ptr<float>() + at::get_thread_num() * kFrequencies * (in_stride + out_stride);
    float* const to = from + kFrequencies * in_stride;
    for (int64_t part = first; part < last; ++part) {
      const int64_t begin = part * at_once;
      // Rows of what is multiplied behind the last tile hold anything, and make what nobody reads.
      const int64_t end = std::min(begin + at_once, tiles.count());
      read_tiles(loops.read_patches, in, of_in, {0, of_in.blocks}, tiles, {begin, end}, from, at_once,
                 in_stride);
      for (int64_t f = 0; f < kFrequencies; ++f) {
        loops.multiply(from + f * in_stride, packed + f * weights.stride, of_in.blocks, of_out.blocks,
                       at_once, to + f * out_stride);
      }
      for (int64_t block = 0; block < of_out.blocks; ++block) {
        tiles.runs(begin, end, [&](int64_t image, TileRun run, int64_t at) {
          loops.write_squares(to + (block * at_once + at) * width, out_stride, of_out.size, run,
                              bias != nullptr ? bias + block * width : nullptr, relu,
                              out + of_out.at(image, block));
        });
      }
    }
  });
}

}  // namespace

WinogradShape winograd_shape(const ConvShape& conv, int64_t batch, int64_t height, int64_t width) {
  return {.batch = batch,
          .in_channels = conv.in_channels,
          .out_channels = conv.out_channels,
          .height = height,
          .width = width,
          .pad_height = conv.padding.height,
          .pad_width = conv.padding.width};
}

bool suits_winograd(const ConvShape& conv, const WinogradShape& shape) {
  const bool is_covered = conv.kernel.height == 3 && conv.kernel.width == 3 && conv.stride == 1 &&
                          conv.groups == 1 && std::max(shape.pad_height, shape.pad_width) <= kMostPadding &&
                          can_block(shape.in_channels) && can_block(shape.out_channels);
  const bool is_exact = std::min(shape.in_channels, shape.out_channels) >= kFewestChannels &&
                        std::min(shape.height, shape.width) >= kSmallestImage &&
                        shape.batch >= kSmallestBatch &&
                        shape.batch * shape.out_height() * shape.out_width() >= kFewestPixels;
  return is_covered && is_exact && onednn::instruction_set() != onednn::InstructionSet::kAny;
}

void winograd_forward(const WinogradShape& shape, const float* x, const float* weight, const float* bias,
                      bool relu, float* y) {
  convolve({shape.batch, shape.out_height(), shape.out_width()}, x,
           {shape.in_channels, shape.height, shape.width, shape.pad_height, shape.pad_width},
           pack(shape, weight, false), bias, relu, y,
           {shape.out_channels, shape.out_height(), shape.out_width()});
}

void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight, float* dx) {
  convolve(
      {shape.batch, shape.height, shape.width}, dy,
      {shape.out_channels, shape.out_height(), shape.out_width(), 2 - shape.pad_height, 2 - shape.pad_width},
      pack(shape, weight, true), nullptr, false, dx, {shape.in_channels, shape.height, shape.width});
}

}  // namespace lockstep::kernels
