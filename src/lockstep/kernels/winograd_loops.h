#pragma once

#include <cstdint>

namespace lockstep::kernels {

// The loops of convolutions by Winograd's F(2x2, 3x3) (winograd.h) over blocked images (image_layout.h).
// Written once with the compiler's vectors, compiled for AVX-512, AVX2 and what every processor has; chosen
// when the program runs. Not threaded.
//
// A plane is one block of channels of one image: height rows of width pixels of W = channels_per_block()
// values. A tile is a square of 2x2 pixels of the convolution's output; transformed it is 16 vectors of W
// values, one per frequency: frequency f of tile t lies at [f * stride + t * W].

constexpr int kFrequencies = 16;

/// How many tiles multiply() takes at once: `tiles` there is a multiple of it.
constexpr int64_t kTileStep = 4;

/// Tiles side by side in one row of them. row, column: of the first tile's upper left pixel in the plane; it
/// may lie outside, where there is padding.
struct TileRun {
  int64_t row = 0;
  int64_t column = 0;
  int64_t count = 0;
};

struct PlaneSize {
  int64_t height = 0;
  int64_t width = 0;
};

struct WinogradLoops {
  /// B^T d B of the 4x4 pixels d at each tile's corner, zeros outside of the plane.
  void (*read_patches)(const float* plane, PlaneSize size, TileRun run, float* tiles, int64_t stride);

  /// A d A^T of the 2x2 pixels d of each tile, zeros outside of the plane.
  void (*read_squares)(const float* plane, PlaneSize size, TileRun run, float* tiles, int64_t stride);

  /// The pixels of each tile that lie in the plane: A^T m A, plus the channels' bias where it is not null,
  /// and 0 instead of what is negative where `relu` is set.
  void (*write_squares)(const float* tiles, int64_t stride, PlaneSize size, TileRun run, const float* bias,
                        bool relu, float* plane);

  /// For one frequency: out[tile][k] = sum over c of in[tile][c] * weights[c][k]. in: [in_blocks][tiles][W];
  /// out: [out_blocks][tiles][W]; weights: pairs of blocks of k, [in_blocks * W][2 * W] each, and
  /// [in_blocks * W][W] for the last of an odd number.
  void (*multiply)(const float* in, const float* weights, int64_t in_blocks, int64_t out_blocks,
                   int64_t tiles, float* out);

  /// For one frequency: sums[k][c] += sum over tiles of left[tile][k] * right[tile][c]. left: [left_blocks]
  /// [tiles][W], right: [right_blocks][tiles][W], sums: [left_blocks * W][right_blocks * W].
  void (*add_products)(const float* left, int64_t left_blocks, const float* right, int64_t right_blocks,
                       int64_t tiles, float* sums);

  /// G w G^T of a block of weights, as multiply() reads them for the forward pass. w: where weight
  /// [k][3][3][c] (c contiguous, `channels` of them) of the block's first k and c lies. into: where frequency
  /// 0 of the block's first c and k goes; frequencies are `stride` apart, rows of c `row` apart.
  void (*pack_forward)(const float* w, int64_t channels, float* into, int64_t stride, int64_t row);

  /// The same for the gradient of the input: turned by 180 degrees, rows of k, c side by side.
  void (*pack_backward)(const float* w, int64_t channels, float* into, int64_t stride, int64_t row);

  /// G^T s G of the sums of one block of k, of `blocks` blocks of c: gradient = scale * that, or += where
  /// `add` is set. sums: frequencies `stride` apart, rows of k `row` apart. gradient: as w above.
  void (*unpack_gradient)(const float* sums, int64_t stride, int64_t row, int64_t blocks, float scale,
                          bool add, float* gradient, int64_t channels);
};

/// For channels_per_block().
const WinogradLoops& winograd_loops();

}  // namespace lockstep::kernels
