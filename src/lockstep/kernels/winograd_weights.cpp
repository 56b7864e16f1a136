// The gradient of the weights.

#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/kernels/winograd.h"
#include "lockstep/kernels/winograd_tiles.h"

namespace lockstep::kernels {
namespace {

using winograd::divide_up;
using winograd::floats;
using winograd::kSkew;
using winograd::Planes;
using winograd::Range;
using winograd::read_tiles;
using winograd::Tiles;

/// Tiles over which products for the weight's gradient are added up in registers, from 0 on.
constexpr int64_t kTilesPerSum = 28;

/// Channels of a thread's share of the weight's gradient, whose 16 frequencies stay in the cache.
constexpr int64_t kOutChannelsAtOnce = 128;
constexpr int64_t kInChannelsAtOnce = 64;

/// A matrix of blocks of output channels by blocks of input channels, in cells as even as they can be: no
/// larger than asked for, and at least one for every thread where there are as many blocks.
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

/// The gradient of the weights, still transformed.
class WeightSums {
 public:
  WeightSums(const WinogradShape& shape, const float* x, const float* dy)
      : x_(x),
        dy_(dy),
        tiles_(shape.batch, shape.out_height(), shape.out_width()),
        of_x_(shape.in_channels, shape.height, shape.width, shape.pad_height, shape.pad_width),
        of_dy_(shape.out_channels, shape.out_height(), shape.out_width()) {}

  const Planes& inputs() const { return of_x_; }
  const Planes& outputs() const { return of_dy_; }

  /// For so many blocks of output and of input channels.
  int64_t scratch_floats(int64_t rows, int64_t columns) const {
    return kFrequencies * (tile_stride(rows) + tile_stride(columns) + sum_stride(rows, columns));
  }

  struct Sums {
    /// As unpack_gradient() reads them, in the scratch memory.
    const float* data;
    int64_t stride;
  };

  /// Over all tiles, of blocks of output channels by blocks of input channels. Not threaded.
  Sums add_up(Range rows, Range columns, float* scratch) const {
    const WinogradLoops& loops = winograd_loops();
    const int64_t left_stride = tile_stride(rows.size());
    const int64_t right_stride = tile_stride(columns.size());
    const int64_t stride = sum_stride(rows.size(), columns.size());
    float* const left = scratch;
    float* const right = left + kFrequencies * left_stride;
    float* const sums = right + kFrequencies * right_stride;
    std::fill_n(sums, kFrequencies * stride, 0.0F);
    for (int64_t begin = 0; begin < tiles_.count(); begin += kTilesPerSum) {
      const Range tiles{begin, std::min(begin + kTilesPerSum, tiles_.count())};
      read_tiles(loops.read_patches, x_, of_x_, columns, tiles_, tiles, right, tiles.size(), right_stride);
      read_tiles(loops.read_squares, dy_, of_dy_, rows, tiles_, tiles, left, tiles.size(), left_stride);
      for (int64_t f = 0; f < kFrequencies; ++f) {
        loops.add_products(left + f * left_stride, rows.size(), right + f * right_stride, columns.size(),
                           tiles.size(), sums + f * stride);
      }
    }
    return {sums, stride};
  }

 private:
  static int64_t tile_stride(int64_t blocks) { return blocks * channels_per_block() * kTilesPerSum + kSkew; }
  static int64_t sum_stride(int64_t rows, int64_t columns) {
    return rows * columns * channels_per_block() * channels_per_block() + kSkew;
  }

  const float* x_;
  const float* dy_;
  Tiles tiles_;
  Planes of_x_, of_dy_;
};

}  // namespace

void winograd_backward_weights(const WinogradShape& shape, const float* x, const float* dy, float scale,
                               bool add, float* gradient) {
  const int64_t width = channels_per_block();
  const auto threads = static_cast<int64_t>(at::get_num_threads());
  const WeightSums of(shape, x, dy);
  const Grid grid(of.outputs().blocks, kOutChannelsAtOnce / width, of.inputs().blocks,
                  kInChannelsAtOnce / width, threads);
  const int64_t floats_per_thread = of.scratch_floats(grid.most_rows(), grid.most_columns());
  const at::Tensor scratch = floats(threads * floats_per_thread);
  at::parallel_for(0, grid.cells(), 1, [&](int64_t first, int64_t last) {
    float* const own = scratch.mutable_data_ptr<float>() + at::get_thread_num() * floats_per_thread;
    for (int64_t cell = first; cell < last; ++cell) {
      const Range rows = grid.rows(cell);
      const Range columns = grid.columns(cell);
      const auto [sums, stride] = of.add_up(rows, columns, own);
      const int64_t row_length = columns.size() * width;
      for (int64_t block = 0; block < rows.size(); ++block) {
        winograd_loops().unpack_gradient(
            sums + block * width * row_length, stride, row_length, columns.size(), scale, add,
            gradient + (rows.begin + block) * width * 9 * shape.in_channels + columns.begin * width,
            shape.in_channels);
      }
    }
  });
}

}  // namespace lockstep::kernels
