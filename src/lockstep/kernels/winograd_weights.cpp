// The gradient of the weights. For one frequency it is the product of two matrices that have a row per tile:
// transposed gradients of the output, times patches of the input, both transformed. A thread sums over all
// tiles for a cell of the matrix of output channels x input channels, so that no two threads write the same
// memory and the result does not depend on their number.

#include <algorithm>

#include <ATen/Parallel.h>

#include "lockstep/kernels/winograd.h"
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
  ///     scratch: | 16 x dy [rows][tiles][W] | 16 x x [columns][tiles][W] | 16 x sums [rows * W][columns * W]
  ///     |
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
