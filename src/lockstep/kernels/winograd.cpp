#include "lockstep/kernels/winograd.h"

#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/winograd_tiles.h"

namespace lockstep::kernels {
namespace {

using winograd::divide_up;
using winograd::floats;
using winograd::Images;
using winograd::kSkew;
using winograd::Range;
using winograd::read_tiles;
using winograd::Tiles;

/// Tiles that a thread takes through all three steps (transform, multiply, transform back) at once: enough to
/// pay for reading the weights, and few enough for the transformed tiles to stay in the cache.
constexpr int64_t kTilesAtOnce = 64;

constexpr int64_t kMostPadding = 2;

// Transforms round more often than a direct sum does. For sums shorter than these, over channels or over the
// pixels of a batch, the difference is visible: the error is 1.5 to 2.3 times that of LibTorch.
constexpr int64_t kFewestChannels = 32;
constexpr int64_t kSmallestBatch = 4;
constexpr int64_t kFewestPixels = 256;
constexpr int64_t kSmallestImage = 4;

/// Transformed weights in the order in which multiply() reads them. For each frequency, pairs of blocks of
/// output channels, so that two vectors of weights are next to each other; `stride` values further the next
/// frequency:
///
///     blocks 0, 1    | c = 0: k = 0 .. 2W - 1  | c = 1: k = 0 .. 2W - 1  | ... | c = in - 1 |
///     blocks 2, 3    | c = 0: k = 2W .. 4W - 1 | c = 1: k = 2W .. 4W - 1 | ... | c = in - 1 |
///     block 4        | c = 0: k = 4W .. 5W - 1 | c = 1: k = 4W .. 5W - 1 | ... | c = in - 1 |
struct Packed {
  Packed(int64_t in_channels, int64_t out_channels)
      : in(in_channels), out(out_channels), stride(in * out + kSkew), tensor(floats(kFrequencies * stride)) {}

  /// Length of the rows of a block of output channels: W for the last of an odd number of blocks, else 2W.
  int64_t row(int64_t out_block) const {
    const int64_t width = channels_per_block();
    const bool last_alone = (out / width) % 2 == 1 && out_block == out / width - 1;
    return last_alone ? width : 2 * width;
  }
  /// Offset of the first row of a block of output channels.
  int64_t begin(int64_t out_block) const {
    const int64_t width = channels_per_block();
    return out_block / 2 * 2 * width * in + out_block % 2 * width;
  }

  int64_t in, out, stride;
  at::Tensor tensor;
};

/// Packs weights for the forward pass or, `rotated` by 180 degrees and with input and output exchanged, for
/// the gradient of the input. The parameter is read along its innermost dimension, the input channels.
Packed pack(const WinogradShape& shape, const float* weight, bool rotated) {
  const int64_t width = channels_per_block();
  const auto pack_block = rotated ? winograd_loops().pack_backward : winograd_loops().pack_forward;
  Packed packed =
      rotated ? Packed(shape.out_channels, shape.in_channels) : Packed(shape.in_channels, shape.out_channels);
  const Frequencies<float> into{packed.tensor.mutable_data_ptr<float>(), packed.stride};
  at::parallel_for(0, shape.out_channels / width, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      for (int64_t c = 0; c < shape.in_channels / width; ++c) {
        const int64_t in_block = rotated ? k : c;
        const int64_t out_block = rotated ? c : k;
        const int64_t row = packed.row(out_block);
        pack_block({weight + (k * 9 * shape.in_channels + c) * width, shape.in_channels},
                   into.from(packed.begin(out_block) + in_block * width * row), row);
      }
    }
  });
  return packed;
}

/// out = in * weights [+ bias], then ReLU if `relu` is set.
///
/// Every thread takes its share of the tiles in parts of `at_once`, with scratch memory of its own for both
/// sides of the product:
///
///     pixels --read_patches--> 16 x [in_blocks][at_once][W]
///                                    | multiply, one frequency after the other
///                              16 x [out_blocks][at_once][W] --write_squares--> pixels
void convolve(const Tiles& tiles, const Images<const float>& in, const Packed& weights, const float* bias,
              bool relu, const Images<float>& out) {
  const int64_t width = channels_per_block();
  const WinogradLoops& loops = winograd_loops();
  const auto threads = static_cast<int64_t>(at::get_num_threads());
  // As many parts for every thread, and all of the same size, rounded up to what multiply() takes.
  const int64_t parts = divide_up(divide_up(tiles.count(), kTilesAtOnce), threads) * threads;
  const int64_t at_once = divide_up(divide_up(tiles.count(), parts), kTileStep) * kTileStep;
  const int64_t in_stride = weights.in * at_once + kSkew;
  const int64_t out_stride = weights.out * at_once + kSkew;
  const at::Tensor scratch = floats(threads * kFrequencies * (in_stride + out_stride));
  const auto* const packed = weights.tensor.const_data_ptr<float>();
  at::parallel_for(0, divide_up(tiles.count(), at_once), 1, [&](int64_t first, int64_t last) {
    float* const own =
        scratch.mutable_data_ptr<float>() + at::get_thread_num() * kFrequencies * (in_stride + out_stride);
    const Frequencies<float> from{own, in_stride};
    const Frequencies<float> to{own + kFrequencies * in_stride, out_stride};
    for (int64_t part = first; part < last; ++part) {
      // multiply() also computes rows behind the last tile, from whatever is in memory. Nobody reads them.
      const Range which{part * at_once, std::min((part + 1) * at_once, tiles.count())};
      read_tiles(loops.read_patches, in, {0, in.blocks}, tiles, which, from, at_once);
      for (int64_t f = 0; f < kFrequencies; ++f) {
        loops.multiply({from.at(f), in.blocks}, packed + f * weights.stride, {to.at(f), out.blocks}, at_once);
      }
      for (int64_t block = 0; block < out.blocks; ++block) {
        tiles.runs(which, [&](int64_t image, TileRun run, int64_t first_tile) {
          loops.write_squares({to.data + (block * at_once + first_tile) * width, out_stride}, run,
                              bias != nullptr ? bias + block * width : nullptr, relu,
                              out.plane(image, block));
        });
      }
    }
  });
}

// The gradient of the weights. For one frequency it is the product of two matrices that have a row per tile:
// transposed gradients of the output, times patches of the input, both transformed. A thread sums over all
// tiles for a cell of the matrix of output channels x input channels, so that no two threads write the same
// memory and the result does not depend on their number.

/// Tiles over which products are summed in registers before they are added to memory: few enough to keep
/// rounding errors small and both operands in the cache.
constexpr int64_t kTilesPerSum = 28;

// Largest cell that a thread computes at once: 16 frequencies of it stay in the cache.
constexpr int64_t kOutChannelsAtOnce = 128;
constexpr int64_t kInChannelsAtOnce = 64;

/// Divides a matrix of blocks of output channels x blocks of input channels into cells of nearly equal size:
/// no larger than the limits, and at least one for every thread if there are enough blocks.
class Grid {
 public:
  Grid(int64_t rows, int64_t row_limit, int64_t columns, int64_t column_limit, int64_t threads)
      : rows_(rows),
        columns_(columns),
        row_parts_(divide_up(rows, row_limit)),
        column_parts_(divide_up(columns, column_limit)) {
    while (cells() < threads && cells() < rows_ * columns_) {
      if (most_rows() > most_columns()) {
        row_parts_ = std::min(2 * row_parts_, rows_);
      } else {
        column_parts_ = std::min(2 * column_parts_, columns_);
      }
    }
  }

  int64_t cells() const { return row_parts_ * column_parts_; }
  Range rows(int64_t cell) const { return part(rows_, row_parts_, cell / column_parts_); }
  Range columns(int64_t cell) const { return part(columns_, column_parts_, cell % column_parts_); }
  int64_t most_rows() const { return divide_up(rows_, row_parts_); }
  int64_t most_columns() const { return divide_up(columns_, column_parts_); }

 private:
  static Range part(int64_t all, int64_t parts, int64_t index) {
    return {all * index / parts, all * (index + 1) / parts};
  }

  int64_t rows_, columns_, row_parts_, column_parts_;
};

/// Computes the gradient of the weights in transformed form.
class WeightSums {
 public:
  WeightSums(const WinogradShape& shape, const float* x, const float* dy)
      : tiles_(shape.batch, shape.out_height(), shape.out_width()),
        x_(x, shape.in_channels, shape.height, shape.width, shape.pad_height, shape.pad_width),
        dy_(dy, shape.out_channels, shape.out_height(), shape.out_width()) {}

  int64_t in_blocks() const { return x_.blocks; }
  int64_t out_blocks() const { return dy_.blocks; }

  /// Scratch memory for a cell of this many blocks of output and input channels.
  int64_t scratch_floats(int64_t rows, int64_t columns) const {
    return kFrequencies * (tile_stride(rows) + tile_stride(columns) + sum_stride(rows, columns));
  }

  /// Sums over all tiles for one cell; `scratch` keeps the result, which unpack_gradient() reads. Not
  /// threaded.
  ///
  ///     scratch:   16 x dy [rows][tiles][W] | 16 x x [columns][tiles][W] | 16 x sums [rows W][columns W]
  ///
  /// Tiles are the outer loop, because a transform is made once and then used by all blocks of the other
  /// side.
  Frequencies<const float> add_up(Range rows, Range columns, float* scratch) const {
    const WinogradLoops& loops = winograd_loops();
    const Frequencies<float> left{scratch, tile_stride(rows.size())};
    const Frequencies<float> right{left.at(kFrequencies), tile_stride(columns.size())};
    const Frequencies<float> sums{right.at(kFrequencies), sum_stride(rows.size(), columns.size())};
    std::fill_n(sums.data, kFrequencies * sums.stride, 0.0F);
    for (int64_t begin = 0; begin < tiles_.count(); begin += kTilesPerSum) {
      const Range which{begin, std::min(begin + kTilesPerSum, tiles_.count())};
      read_tiles(loops.read_patches, x_, columns, tiles_, which, right, which.size());
      read_tiles(loops.read_squares, dy_, rows, tiles_, which, left, which.size());
      for (int64_t f = 0; f < kFrequencies; ++f) {
        loops.add_products({left.at(f), rows.size()}, {right.at(f), columns.size()}, which.size(),
                           sums.at(f));
      }
    }
    return {sums.data, sums.stride};
  }

 private:
  static int64_t tile_stride(int64_t blocks) { return blocks * channels_per_block() * kTilesPerSum + kSkew; }
  static int64_t sum_stride(int64_t rows, int64_t columns) {
    return rows * columns * channels_per_block() * channels_per_block() + kSkew;
  }

  Tiles tiles_;
  Images<const float> x_, dy_;
};

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
  const int64_t height = shape.out_height();
  const int64_t width = shape.out_width();
  convolve({shape.batch, height, width},
           {x, shape.in_channels, shape.height, shape.width, shape.pad_height, shape.pad_width},
           pack(shape, weight, /*rotated=*/false), bias, relu, {y, shape.out_channels, height, width});
}

// The gradient of the input is a convolution as well: of dy, padded by 2 - padding, with rotated kernels.
void winograd_backward_data(const WinogradShape& shape, const float* dy, const float* weight, float* dx) {
  convolve({shape.batch, shape.height, shape.width},
           {dy, shape.out_channels, shape.out_height(), shape.out_width(), 2 - shape.pad_height,
            2 - shape.pad_width},
           pack(shape, weight, /*rotated=*/true), nullptr, false,
           {dx, shape.in_channels, shape.height, shape.width});
}

void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy, float scale,
                               bool add, float* gradient) {
  const int64_t width = channels_per_block();
  const auto threads = static_cast<int64_t>(at::get_num_threads());
  const WeightSums sums(shape, x, dy);
  const Grid grid(sums.out_blocks(), kOutChannelsAtOnce / width, sums.in_blocks(), kInChannelsAtOnce / width,
                  threads);
  const int64_t floats_per_thread = sums.scratch_floats(grid.most_rows(), grid.most_columns());
  const at::Tensor scratch = floats(threads * floats_per_thread);
  at::parallel_for(0, grid.cells(), 1, [&](int64_t first, int64_t last) {
    float* const own = scratch.mutable_data_ptr<float>() + at::get_thread_num() * floats_per_thread;
    for (int64_t cell = first; cell < last; ++cell) {
      const Range rows = grid.rows(cell);
      const Range columns = grid.columns(cell);
      const Frequencies<const float> of_cell = sums.add_up(rows, columns, own);
      const int64_t row_length = columns.size() * width;
      for (int64_t block = 0; block < rows.size(); ++block) {
        winograd_loops().unpack_gradient(
            of_cell.from(block * width * row_length),
            {gradient + (rows.begin + block) * width * 9 * shape.in_channels + columns.begin * width,
             shape.in_channels},
            row_length, columns.size(), scale, add);
      }
    }
  });
}

}  // namespace lockstep::kernels
