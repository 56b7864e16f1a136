#pragma once

#include <cstdint>

namespace lockstep::kernels {

// The inner loops of convolutions by Winograd's F(2x2, 3x3) (winograd.h) on blocked images (image_layout.h).
// Written once with the compiler's vectors and compiled for AVX-512, for AVX2 and for any processor; chosen
// at run time. Single-threaded. W stands for channels_per_block(): the values of one vector.
//
// A tile is a square of 2x2 output pixels. It depends on the 4x4 input pixels around it, so neighboring tiles
// share two columns of input:
//
//      input    a a a a . .      . . b b b b       output    a a b b
//               a a a a . .      . . b b b b                 a a b b
//               a a a a . .      . . b b b b
//               a a a a . .      . . b b b b
//
// A transform turns the pixels of a tile into 16 values per channel, one for each frequency. For one
// frequency the convolution is a product of matrices: tiles x input channels times input channels x output
// channels.

constexpr int kFrequencies = 16;

/// multiply() takes tiles in steps of this many; their number must be a multiple of it.
constexpr int64_t kTileStep = 4;

/// One block of channels of one image. The W values of pixel (row, column) start at
/// data[(row * width + column) * W].
template <typename T>
struct Plane {
  T* data;
  int64_t height;
  int64_t width;
};

/// Tiles next to each other in one row of tiles. row, column: the upper left pixel of the first tile in the
/// plane; it may be outside, in the padding.
struct TileRun {
  int64_t row = 0;
  int64_t column = 0;
  int64_t count = 0;
};

/// An array for each frequency; of tiles, for example:
///
///     data                frequency 0    | tile 0: W values | tile 1: W values | ...
///     data + stride       frequency 1    | tile 0: W values | tile 1: W values | ...
///       ...
///     data + 15 * stride  frequency 15   | tile 0: W values | tile 1: W values | ...
template <typename T>
struct Frequencies {
  T* data;
  int64_t stride;

  T* at(int64_t frequency) const { return data + frequency * stride; }
  Frequencies from(int64_t offset) const { return {data + offset, stride}; }
};

/// One frequency of a number of tiles x channels, stored by blocks of W channels:
///
///     block 0    | tile 0: W values | tile 1: W values | ... | tile tiles - 1 |
///     block 1    | tile 0: W values | tile 1: W values | ... | tile tiles - 1 |
///       ...
template <typename T>
struct TileMatrix {
  T* data;
  int64_t blocks;
};

/// 3x3 kernels as the parameter stores them, channels last: tap (i, j) from input channel c to output channel
/// k is data[(k * 9 + 3 * i + j) * channels + c]. `data` points to the first k and c of a block.
template <typename T>
struct Taps {
  T* data;
  int64_t channels;
};

struct WinogradLoops {
  /// B^T d B of the 4x4 pixels d of each tile, zeros outside the plane.
  void (*read_patches)(Plane<const float> plane, TileRun run, Frequencies<float> tiles);

  /// A d A^T of the 2x2 pixels d of each tile, zeros outside the plane.
  void (*read_squares)(Plane<const float> plane, TileRun run, Frequencies<float> tiles);

  /// Writes A^T m A of each tile m to the pixels that are inside the plane. Adds the channels' bias first if
  /// it is not null, and applies ReLU if `relu` is set.
  void (*write_squares)(Frequencies<const float> tiles, TileRun run, const float* bias, bool relu,
                        Plane<float> plane);

  /// For one frequency: out[tile][k] = sum over c of in[tile][c] * weights[c][k]. `weights`: for each pair of
  /// blocks of k, rows of 2 * W values, one row per c; rows of W values for the last of an odd number of
  /// blocks.
  void (*multiply)(TileMatrix<const float> in, const float* weights, TileMatrix<float> out, int64_t tiles);

  /// For one frequency: sums[k][c] += sum over tiles of left[tile][k] * right[tile][c]. `sums` is a matrix of
  /// left.blocks * W rows and right.blocks * W columns.
  void (*add_products)(TileMatrix<const float> left, TileMatrix<const float> right, int64_t tiles,
                       float* sums);

  /// G w G^T of a block of W x W kernels w, in the order in which multiply() reads weights for the forward
  /// pass: one row per c, `row` values apart. `into` points to the block's first c and k.
  void (*pack_forward)(Taps<const float> w, Frequencies<float> into, int64_t row);

  /// The same for the gradient of the input: kernels rotated by 180 degrees, one row per k.
  void (*pack_backward)(Taps<const float> w, Frequencies<float> into, int64_t row);

  /// Writes scale * G^T s G of the sums s of W output channels and `blocks` blocks of input channels, or adds
  /// it if `add` is set. The rows of `sums`, one per output channel, are `row` values apart.
  void (*unpack_gradient)(Frequencies<const float> sums, Taps<float> gradient, int64_t row, int64_t blocks,
                          float scale, bool add);
};

/// The loops for this processor, with vectors of channels_per_block().
const WinogradLoops& winograd_loops();

}  // namespace lockstep::kernels
