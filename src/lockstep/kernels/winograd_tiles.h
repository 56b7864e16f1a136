#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/winograd_loops.h"

// What forward and backward passes of winograd.h have in common: where tiles and images lie.

namespace lockstep::kernels::winograd {

/// What a stride is longer by, so that it is no power of two, and frequencies do not fall on the same lines
/// of the cache.
constexpr int64_t kSkew = 48;

inline int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

/// Without values.
inline at::Tensor floats(int64_t count) {
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

struct Range {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

/// Images of one kind: [batch][blocks][height][width][W], the first tile's corner so far outside.
struct Planes {
  Planes(int64_t channels, int64_t height, int64_t width, int64_t pad_height_ = 0, int64_t pad_width_ = 0)
      : blocks(channels / channels_per_block()),
        size{height, width},
        pad_height(pad_height_),
        pad_width(pad_width_) {}

  int64_t at(int64_t image, int64_t block) const {
    return (image * blocks + block) * size.height * size.width * channels_per_block();
  }

  int64_t blocks;
  PlaneSize size;
  int64_t pad_height, pad_width;
};

/// Transforms those tiles of those blocks of `images` with one of WinogradLoops' two ways to read them.
/// into: frequencies `stride` apart, in each of them [blocks.size()][rows][W], rows >= which.size().
inline void read_tiles(decltype(WinogradLoops::read_patches) read, const float* images, const Planes& planes,
                       Range blocks, const Tiles& tiles, Range which, float* into, int64_t rows,
                       int64_t stride) {
  for (int64_t block = 0; block < blocks.size(); ++block) {
    tiles.runs(which.begin, which.end, [&](int64_t image, TileRun run, int64_t at) {
      run.row -= planes.pad_height;
      run.column -= planes.pad_width;
      read(images + planes.at(image, blocks.begin + block), planes.size, run,
           into + (block * rows + at) * channels_per_block(), stride);
    });
  }
}

}  // namespace lockstep::kernels::winograd
