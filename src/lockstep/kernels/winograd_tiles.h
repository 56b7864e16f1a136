#pragma once

#include <algorithm>
#include <cstdint>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/winograd_loops.h"

// The positions of tiles and images in memory, for the forward and backward passes of winograd.h.

namespace lockstep::kernels::winograd {

/// Values added to every distance between frequencies. The distance is otherwise often a power of two, and
/// then the 16 frequencies of a tile compete for the same lines of the cache.
constexpr int64_t kSkew = 48;

inline int64_t divide_up(int64_t value, int64_t by) {
  return (value + by - 1) / by;
}

/// Uninitialized memory.
inline at::Tensor floats(int64_t count) {
  return at::empty({count}, at::kFloat);
}

struct Range {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

/// The tiles of a batch of outputs, numbered image by image, row by row.
struct Tiles {
  Tiles(int64_t batch_, int64_t height, int64_t width)
      : batch(batch_), rows(divide_up(height, 2)), columns(divide_up(width, 2)) {}

  int64_t count() const { return batch * rows * columns; }

  /// Splits the tiles of `which` into runs within one row of tiles and calls each(image, run, first) for
  /// every run. The run's row and column are those of its outputs. `first`: the run's first tile, from
  /// which.begin.
  template <typename Each>
  void runs(Range which, const Each& each) const {
    for (int64_t at = which.begin; at < which.end;) {
      const int64_t column = at % columns;
      const int64_t count = std::min(columns - column, which.end - at);
      each(at / (rows * columns), TileRun{2 * (at / columns % rows), 2 * column, count}, at - which.begin);
      at += count;
    }
  }

  int64_t batch, rows, columns;
};

/// A batch of blocked images, [batch][blocks][height][width][W]. The padding is the distance from the first
/// tile's first pixel to the image.
template <typename T>
struct Images {
  Images(T* data_, int64_t channels, int64_t height_, int64_t width_, int64_t pad_height_ = 0,
         int64_t pad_width_ = 0)
      : data(data_),
        blocks(channels / channels_per_block()),
        height(height_),
        width(width_),
        pad_height(pad_height_),
        pad_width(pad_width_) {}

  Plane<T> plane(int64_t image, int64_t block) const {
    return {data + (image * blocks + block) * height * width * channels_per_block(), height, width};
  }

  T* data;
  int64_t blocks, height, width;
  int64_t pad_height, pad_width;
};

/// Transforms the tiles of `which`, for some blocks of channels, with one of the two ways of WinogradLoops to
/// read them. Every frequency of `into` is then a TileMatrix of `rows` tiles, of which which.size() are
/// written.
inline void read_tiles(decltype(WinogradLoops::read_patches) read, const Images<const float>& images,
                       Range blocks, const Tiles& tiles, Range which, Frequencies<float> into, int64_t rows) {
  for (int64_t block = 0; block < blocks.size(); ++block) {
    tiles.runs(which, [&](int64_t image, TileRun run, int64_t first) {
      run.row -= images.pad_height;
      run.column -= images.pad_width;
      read(images.plane(image, blocks.begin + block), run,
           into.from((block * rows + first) * channels_per_block()));
    });
  }
}

}  // namespace lockstep::kernels::winograd
