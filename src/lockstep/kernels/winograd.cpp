#include "lockstep/kernels/winograd.h"

#include <algorithm>

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/winograd_loops.h"

namespace lockstep::kernels {
namespace {

/// Tiles that a thread takes through all three steps at once: enough to read weights for, and so few that
/// what is made of them stays in the cache.
constexpr int64_t kTilesAtOnce = 64;

/// Tiles over which products for the weight's gradient are added up in registers, from 0 on.
constexpr int64_t kTilesPerSum = 28;

/// Channels of a thread's share of the weight's gradient, whose 16 frequencies stay in the cache.
constexpr int64_t kOutChannelsAtOnce = 128;
constexpr int64_t kInChannelsAtOnce = 64;

constexpr int64_t kMostPadding = 2;

/// What is transformed is rounded more often than what is not. Shorter sums than these, over channels or over
/// a batch's pixels, are so exact that it shows: more than 1.5 times LibTorch's error, up to 2.3 times.
constexpr int64_t kFewestChannels = 32;
constexpr int64_t kSmallestBatch = 4;
constexpr int64_t kFewestPixels = 256;
constexpr int64_t kSmallestImage = 4;

/// Apart from a power of two, so that frequencies do not fall on the same lines of the cache.
constexpr int64_t kSkew = 48;

int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

at::Tensor floats(int64_t count) {
  return at::empty({count}, at::kFloat);
}

/// The tiles of a batch's outputs, in the order of the images.
struct Tiles {
  Tiles(int64_t batch_, int64_t height, int64_t width)
      : batch(batch_), rows(divide_up(height, 2)), columns(divide_up(width, 2)) {}

  int64_t count() const { return batch * rows * columns; }

  /// each(image, run, first): for tiles [begin, end); `first`: number of the run's first one behind begin.
  /// The run's row and column are those of its outputs.
  template <typename Each>
  void runs(int64_t begin, int64_t end, const Each& each) const {
    for (int64_t at = begin; at < end;) {
      const int64_t column = at % columns;
      const int64_t count = std::min(columns - column, end - at);
      each(at / (rows * columns), TileRun{2 * (at / columns % rows), 2 * column, count}, at - begin);
      at += count;
    }
  }

  int64_t batch, rows, columns;
};

/// Images of one kind: [batch][blocks][height][width][W].
struct Planes {
  Planes(int64_t channels, int64_t height, int64_t width)
      : blocks(channels / channels_per_block()), size{height, width} {}

  int64_t at(int64_t image, int64_t block) const {
    return (image * blocks + block) * size.height * size.width * channels_per_block();
  }

  int64_t blocks;
  PlaneSize size;
};

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

Packed packed_forward(const WinogradShape& shape, const float* weight) {
  const int64_t width = channels_per_block();
  Packed packed(shape.in_channels, shape.out_channels);
  auto* const into = packed.tensor.mutable_data_ptr<float>();
  at::parallel_for(0, shape.out_channels / width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < shape.in_channels; c += width) {
        winograd_loops().pack_forward(weight + k * width * 9 * shape.in_channels + c, shape.in_channels,
                                      into + packed.begin(k) + c * packed.row(k), packed.stride,
                                      packed.row(k));
      }
    }
  });
  return packed;
}

Packed packed_backward(const WinogradShape& shape, const float* weight) {
  const int64_t width = channels_per_block();
  Packed packed(shape.out_channels, shape.in_channels);
  auto* const into = packed.tensor.mutable_data_ptr<float>();
  at::parallel_for(0, shape.out_channels / width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < shape.in_channels / width; ++c) {
        winograd_loops().pack_backward(weight + k * width * 9 * shape.in_channels + c * width,
                                       shape.in_channels, into + packed.begin(c) + k * width * packed.row(c),
                                       packed.stride, packed.row(c));
      }
    }
  });
  return packed;
}

/// out = in * weights.
void convolve(const Tiles& tiles, const float* in, const Planes& of_in, int64_t pad_height, int64_t pad_width,
              const Packed& weights, const float* bias, bool relu, float* out, const Planes& of_out) {
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
      const int64_t end = std::min(begin + at_once, tiles.count());
      for (int64_t block = 0; block < of_in.blocks; ++block) {
        tiles.runs(begin, end, [&](int64_t image, TileRun run, int64_t at) {
          run.row -= pad_height;
          run.column -= pad_width;
          loops.read_patches(in + of_in.at(image, block), of_in.size, run,
                             from + (block * at_once + at) * width, in_stride);
        });
      }
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
           {shape.in_channels, shape.height, shape.width}, shape.pad_height, shape.pad_width,
           packed_forward(shape, weight), bias, relu, y,
           {shape.out_channels, shape.out_height(), shape.out_width()});
}

void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight, float* dx) {
  convolve({shape.batch, shape.height, shape.width}, dy,
           {shape.out_channels, shape.out_height(), shape.out_width()}, 2 - shape.pad_height,
           2 - shape.pad_width, packed_backward(shape, weight), nullptr, false, dx,
           {shape.in_channels, shape.height, shape.width});
}

void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy, float scale,
                               bool add, float* gradient) {
  const int64_t width = channels_per_block();
  const WinogradLoops& loops = winograd_loops();
  const Tiles tiles(shape.batch, shape.out_height(), shape.out_width());
  const Planes of_x(shape.in_channels, shape.height, shape.width);
  const Planes of_dy(shape.out_channels, shape.out_height(), shape.out_width());
  const auto threads = static_cast<int64_t>(at::get_num_threads());
  int64_t rows = std::min(kOutChannelsAtOnce / width, of_dy.blocks);
  int64_t columns = std::min(kInChannelsAtOnce / width, of_x.blocks);
  const auto shares = [&] { return divide_up(of_dy.blocks, rows) * divide_up(of_x.blocks, columns); };
  while (shares() < threads && rows * columns > 1) {
    int64_t& larger = rows > columns ? rows : columns;
    larger = divide_up(larger, 2);
  }
  const int64_t left_stride = rows * width * kTilesPerSum + kSkew;
  const int64_t right_stride = columns * width * kTilesPerSum + kSkew;
  const int64_t sum_stride = rows * columns * width * width + kSkew;
  const int64_t per_thread = kFrequencies * (left_stride + right_stride + sum_stride);
  const at::Tensor scratch = floats(threads * per_thread);
  at::parallel_for(0, shares(), 1, [&](int64_t first, int64_t last) {
    float* const left = scratch.mutable_data_ptr<float>() + at::get_thread_num() * per_thread;
    float* const right = left + kFrequencies * left_stride;
    float* const sums = right + kFrequencies * right_stride;
    for (int64_t share = first; share < last; ++share) {
      const int64_t row = share / divide_up(of_x.blocks, columns) * rows;
      const int64_t column = share % divide_up(of_x.blocks, columns) * columns;
      const int64_t row_blocks = std::min(rows, of_dy.blocks - row);
      const int64_t column_blocks = std::min(columns, of_x.blocks - column);
      std::fill_n(sums, kFrequencies * sum_stride, 0.0F);
      for (int64_t begin = 0; begin < tiles.count(); begin += kTilesPerSum) {
        const int64_t end = std::min(begin + kTilesPerSum, tiles.count());
        for (int64_t block = 0; block < column_blocks; ++block) {
          tiles.runs(begin, end, [&](int64_t image, TileRun run, int64_t at) {
            run.row -= shape.pad_height;
            run.column -= shape.pad_width;
            loops.read_patches(x + of_x.at(image, column + block), of_x.size, run,
                               right + (block * (end - begin) + at) * width, right_stride);
          });
        }
        for (int64_t block = 0; block < row_blocks; ++block) {
          tiles.runs(begin, end, [&](int64_t image, TileRun run, int64_t at) {
            loops.read_squares(dy + of_dy.at(image, row + block), of_dy.size, run,
                               left + (block * (end - begin) + at) * width, left_stride);
          });
        }
        for (int64_t f = 0; f < kFrequencies; ++f) {
          loops.add_products(left + f * left_stride, row_blocks, right + f * right_stride, column_blocks,
                             end - begin, sums + f * sum_stride);
        }
      }
      const int64_t row_length = column_blocks * width;
      for (int64_t block = 0; block < row_blocks; ++block) {
        loops.unpack_gradient(sums + block * width * row_length, sum_stride, row_length, column_blocks, scale,
                              add, gradient + (row + block) * width * 9 * shape.in_channels + column * width,
                              shape.in_channels);
      }
    }
  });
}

}  // namespace lockstep::kernels
