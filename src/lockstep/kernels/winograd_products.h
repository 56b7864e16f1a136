#pragma once

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/winograd_loops.h"

// The matrix products of Winograd's F(2x2, 3x3), for one frequency at a time: where convolutions spend most
// of their time. Both keep a block of the result in registers and stream the operands past it.

namespace lockstep::kernels {

/// Rows (tiles) of the result of multiply() that are in registers at once, two vectors each: as many as there
/// are registers for, besides two vectors of weights. 24 of 32 accumulate with AVX-512, 8 of 16 with AVX2.
template <int W>
constexpr int kTileRows = W == 16 ? 12 : 4;

/// Input channels over which multiply() sums before it adds to memory. So few that rounding errors stay below
/// those of a direct sum, and that the weights of this many channels (4 KiB with AVX-512) stay in the first
/// level of the cache while all tiles pass by.
constexpr int64_t kRunOfChannels = 32;

/// Rows (output channels) of the result of add_products() that are in registers at once, two vectors each.
template <int W>
constexpr int kSumRows = W == 16 ? 8 : 4;

/// R tiles times V vectors of output channels, over `in_blocks` blocks of input channels:
///
///               c ->                      k -> V * W                  k -> V * W
///            +---------+               +------------+              +------------+
///     t   R  | in      |    times   c  | weights    |     =     R  | out        |   R * V accumulators
///            +---------+               +------------+              +------------+
///
/// For every c: V vectors of weights are loaded once and multiplied by R values of `in`, each broadcast from
/// memory as part of its multiplication. `add`: adds to `out` instead of overwriting it.
template <int W, int R, int V, bool add>
LOCKSTEP_INLINE void multiply_rows(const float* in, const float* weights, int64_t in_blocks, int64_t tiles,
                                   float* out) {
  Floats<W> sums[R][V] = {};
  for (int64_t block = 0; block < in_blocks; ++block) {
    const float* const rows = in + block * tiles * W;
// Unrolled, the code would outgrow the cache of decoded instructions.
#pragma GCC unroll 1
    for (int c = 0; c < W; ++c, weights += V * W) {
      Floats<W> column[V];
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) column[v] = load<W>(weights + v * W);
#pragma GCC unroll 16
      for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
        for (int v = 0; v < V; ++v) sums[r][v] += rows[r * W + c] * column[v];
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* const at = out + (v * tiles + r) * W;
      if constexpr (add) sums[r][v] += load<W>(at);
      store<W>(sums[r][v], at);
    }
  }
}

/// All tiles times V vectors of output channels.
template <int W, int V, bool add>
LOCKSTEP_INLINE void multiply_panel(const float* in, const float* weights, int64_t in_blocks, int64_t tiles,
                                    float* out) {
  int64_t t = 0;
  for (; t + kTileRows<W> <= tiles; t += kTileRows<W>)
    multiply_rows<W, kTileRows<W>, V, add>(in + t * W, weights, in_blocks, tiles, out + t * W);
  for (; t < tiles; t += kTileStep)
    multiply_rows<W, kTileStep, V, add>(in + t * W, weights, in_blocks, tiles, out + t * W);
}

/// The same over all input channels, kRunOfChannels at a time. This loop is outside the one over tiles, so
/// that the weights of a run are read from the cache for all tiles but the first.
template <int W, int V>
LOCKSTEP_INLINE void multiply_panels(TileMatrix<const float> in, const float* weights, int64_t tiles,
                                     float* out) {
  constexpr int64_t kBlocks = kRunOfChannels / W;
  multiply_panel<W, V, false>(in.data, weights, in.blocks < kBlocks ? in.blocks : kBlocks, tiles, out);
  for (int64_t block = kBlocks; block < in.blocks; block += kBlocks) {
    multiply_panel<W, V, true>(in.data + block * tiles * W, weights + block * W * V * W,
                               in.blocks - block < kBlocks ? in.blocks - block : kBlocks, tiles, out);
  }
}

/// WinogradLoops::multiply.
template <int W>
LOCKSTEP_INLINE void multiply_all(TileMatrix<const float> in, const float* weights, TileMatrix<float> out,
                                  int64_t tiles) {
  int64_t block = 0;
  for (; block + 2 <= out.blocks; block += 2) {
    multiply_panels<W, 2>(in, weights, tiles, out.data + block * tiles * W);
    weights += in.blocks * W * 2 * W;
  }
  if (block < out.blocks) multiply_panels<W, 1>(in, weights, tiles, out.data + block * tiles * W);
}

/// kSumRows output channels times V vectors of input channels, over all tiles:
///
///               t ->                   c -> V * W               c -> V * W
///            +---------+            +------------+           +------------+
///     k  8   | left^T  |  times  t  | right      |     =  8  | sums       |   8 * V accumulators
///            +---------+            +------------+           +------------+
///
/// `row`: values from one row of `sums` to the next.
template <int W, int V>
LOCKSTEP_INLINE void add_product_rows(const float* left, const float* right, int64_t tiles, float* sums_of,
                                      int64_t row) {
  constexpr int kRows = kSumRows<W>;
  Floats<W> sums[kRows][V] = {};
#pragma GCC unroll 1
  for (int64_t t = 0; t < tiles; ++t) {
    Floats<W> column[V];
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) column[v] = load<W>(right + (v * tiles + t) * W);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
      for (int v = 0; v < V; ++v) sums[r][v] += left[t * W + r] * column[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 2
    for (int v = 0; v < V; ++v) {
      float* const at = sums_of + r * row + v * W;
      store<W>(load<W>(at) + sums[r][v], at);
    }
  }
}

/// WinogradLoops::add_products.
template <int W>
LOCKSTEP_INLINE void add_all_products(TileMatrix<const float> left, TileMatrix<const float> right,
                                      int64_t tiles, float* sums) {
  const int64_t row = right.blocks * W;
  for (int64_t k = 0; k < left.blocks * W; k += kSumRows<W>) {
    const float* const rows = left.data + k / W * tiles * W + k % W;
    int64_t block = 0;
    for (; block + 2 <= right.blocks; block += 2)
      add_product_rows<W, 2>(rows, right.data + block * tiles * W, tiles, sums + k * row + block * W, row);
    if (block < right.blocks)
      add_product_rows<W, 1>(rows, right.data + block * tiles * W, tiles, sums + k * row + block * W, row);
  }
}

}  // namespace lockstep::kernels
