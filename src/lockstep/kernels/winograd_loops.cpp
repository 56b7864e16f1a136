#include "lockstep/kernels/winograd_loops.h"

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/winograd_transforms.h"

namespace lockstep::kernels {
namespace {

/// Accumulators of multiply(): rows of tiles by two vectors, as many as there are registers for.
template <int W>
constexpr int kTileRows = W == 16 ? 12 : 4;

/// Channels whose products are added up in registers, from 0 on: so few that rounding stays below that of a
/// direct sum, and that what is read for them stays in the first level of the cache.
constexpr int64_t kRunOfChannels = 32;

/// Of add_products(): rows of k by two vectors of c.
template <int W>
constexpr int kSumRows = W == 16 ? 8 : 4;

template <int W>
LOCKSTEP_INLINE void store_frequencies(const Floats<W> (&values)[4][4], float* into, int64_t stride) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store<W>(values[i][j], into + (4 * i + j) * stride);
  }
}

template <int W>
LOCKSTEP_INLINE void load_frequencies(const float* from, int64_t stride, Floats<W> (&values)[4][4]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) values[i][j] = load<W>(from + (4 * i + j) * stride);
  }
}

/// N x N pixels from (row, column) on.
template <int W, int N>
LOCKSTEP_INLINE void load_pixels(const float* plane, PlaneSize size, int64_t row, int64_t column,
                                 Floats<W> (&d)[N][N]) {
  if (row >= 0 && column >= 0 && row + N <= size.height && column + N <= size.width) {
    const float* const corner = plane + (row * size.width + column) * W;
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) d[i][j] = load<W>(corner + (i * size.width + j) * W);
    }
    return;
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const int64_t r = row + i;
      const int64_t c = column + j;
      const bool inside = r >= 0 && c >= 0 && r < size.height && c < size.width;
      d[i][j] = inside ? load<W>(plane + (r * size.width + c) * W) : Floats<W>{};
    }
  }
}

template <int W, int N, void (*along)(const Floats<W>*, Floats<W>*)>
LOCKSTEP_INLINE void read_run(const float* plane, PlaneSize size, TileRun run, float* tiles, int64_t stride) {
  for (int64_t t = 0; t < run.count; ++t) {
    Floats<W> pixels[N][N];
    load_pixels<W, N>(plane, size, run.row, run.column + 2 * t, pixels);
    Floats<W> values[4][4];
    to_frequencies<W, N, along>(pixels, values);
    store_frequencies<W>(values, tiles + t * W, stride);
  }
}

template <int W, bool relu>
LOCKSTEP_INLINE void write_run(const float* tiles, int64_t stride, PlaneSize size, TileRun run,
                               const float* bias_of, float* plane) {
  const Floats<W> bias = bias_of != nullptr ? load<W>(bias_of) : Floats<W>{};
  for (int64_t t = 0; t < run.count; ++t) {
    Floats<W> values[4][4];
    load_frequencies<W>(tiles + t * W, stride, values);
    Floats<W> pixels[2][2];
    from_frequencies<W, 2, square_of<W>>(values, pixels);
    const int64_t column = run.column + 2 * t;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        Floats<W> value = pixels[i][j] + bias;
        // A NaN, which is to be seen in the loss, is not less than 0.
        if constexpr (relu) value = only_where<W>(~(value < 0), value);
        if (run.row + i < size.height && column + j < size.width)
          store<W>(value, plane + ((run.row + i) * size.width + column + j) * W);
      }
    }
  }
}

/// R rows of tiles by V vectors of output channels.
template <int W, int R, int V, bool add>
LOCKSTEP_INLINE void multiply_rows(const float* in, const float* weights, int64_t in_blocks, int64_t tiles,
                                   float* out) {
  Floats<W> sums[R][V] = {};
  for (int64_t block = 0; block < in_blocks; ++block) {
    const float* const rows = in + block * tiles * W;
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

template <int W, int V, bool add>
LOCKSTEP_INLINE void multiply_panel(const float* in, const float* weights, int64_t in_blocks, int64_t tiles,
                                    float* out) {
  int64_t t = 0;
  for (; t + kTileRows<W> <= tiles; t += kTileRows<W>)
    multiply_rows<W, kTileRows<W>, V, add>(in + t * W, weights, in_blocks, tiles, out + t * W);
  for (; t < tiles; t += kTileStep)
    multiply_rows<W, kTileStep, V, add>(in + t * W, weights, in_blocks, tiles, out + t * W);
}

template <int W, int V>
LOCKSTEP_INLINE void multiply_panels(const float* in, const float* weights, int64_t in_blocks, int64_t tiles,
                                     float* out) {
  constexpr int64_t kBlocks = kRunOfChannels / W;
  multiply_panel<W, V, false>(in, weights, in_blocks < kBlocks ? in_blocks : kBlocks, tiles, out);
  for (int64_t block = kBlocks; block < in_blocks; block += kBlocks) {
    multiply_panel<W, V, true>(in + block * tiles * W, weights + block * W * V * W,
                               in_blocks - block < kBlocks ? in_blocks - block : kBlocks, tiles, out);
  }
}

template <int W>
LOCKSTEP_INLINE void multiply_all(const float* in, const float* weights, int64_t in_blocks,
                                  int64_t out_blocks, int64_t tiles, float* out) {
  int64_t block = 0;
  for (; block + 2 <= out_blocks; block += 2) {
    multiply_panels<W, 2>(in, weights, in_blocks, tiles, out + block * tiles * W);
    weights += in_blocks * W * 2 * W;
  }
  if (block < out_blocks) multiply_panels<W, 1>(in, weights, in_blocks, tiles, out + block * tiles * W);
}

/// kSumRows rows of k by V vectors of c.
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

template <int W>
LOCKSTEP_INLINE void add_all_products(const float* left, int64_t left_blocks, const float* right,
                                      int64_t right_blocks, int64_t tiles, float* sums) {
  const int64_t row = right_blocks * W;
  for (int64_t k = 0; k < left_blocks * W; k += kSumRows<W>) {
    const float* const rows = left + k / W * tiles * W + k % W;
    int64_t block = 0;
    for (; block + 2 <= right_blocks; block += 2)
      add_product_rows<W, 2>(rows, right + block * tiles * W, tiles, sums + k * row + block * W, row);
    if (block < right_blocks)
      add_product_rows<W, 1>(rows, right + block * tiles * W, tiles, sums + k * row + block * W, row);
  }
}

template <int W>
LOCKSTEP_INLINE void pack_turned(const float* w, int64_t channels, float* into, int64_t stride, int64_t row) {
  for (int k = 0; k < W; ++k) {
    const float* const taps = w + k * 9 * channels;
    Floats<W> kernel[3][3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) kernel[i][j] = load<W>(taps + (8 - 3 * i - j) * channels);
    }
    Floats<W> values[4][4];
    to_frequencies<W, 3, weight_frequencies<W>>(kernel, values);
    store_frequencies<W>(values, into + k * row, stride);
  }
}

template <int W>
LOCKSTEP_INLINE void pack_straight(const float* w, int64_t channels, float* into, int64_t stride,
                                   int64_t row) {
  for (int c = 0; c < W; ++c) {
    Floats<W> kernel[3][3] = {};
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) kernel[i][j][k] = w[(k * 9 + 3 * i + j) * channels + c];
      }
    }
    Floats<W> values[4][4];
    to_frequencies<W, 3, weight_frequencies<W>>(kernel, values);
    store_frequencies<W>(values, into + c * row, stride);
  }
}

template <int W, bool add>
LOCKSTEP_INLINE void unpack(const float* sums, int64_t stride, int64_t row, int64_t blocks, float scale,
                            float* gradient, int64_t channels) {
  for (int k = 0; k < W; ++k) {
    for (int64_t block = 0; block < blocks; ++block) {
      Floats<W> values[4][4];
      load_frequencies<W>(sums + k * row + block * W, stride, values);
      Floats<W> kernel[3][3];
      from_frequencies<W, 3, weight_of<W>>(values, kernel);
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) {
          float* const at = gradient + (k * 9 + 3 * i + j) * channels + block * W;
          Floats<W> value = scale * kernel[i][j];
          if constexpr (add) value += load<W>(at);
          store<W>(value, at);
        }
      }
    }
  }
}

// The same loops once per set of instructions.
#define LOCKSTEP_WINOGRAD_LOOPS(NAME, TARGET)                                                          \
  template <int W>                                                                                     \
  struct NAME {                                                                                        \
    TARGET static void read_patches(const float* plane, PlaneSize size, TileRun run, float* tiles,     \
                                    int64_t stride) {                                                  \
      read_run<W, 4, patch_frequencies<W>>(plane, size, run, tiles, stride);                           \
    }                                                                                                  \
    TARGET static void read_squares(const float* plane, PlaneSize size, TileRun run, float* tiles,     \
                                    int64_t stride) {                                                  \
      read_run<W, 2, square_frequencies<W>>(plane, size, run, tiles, stride);                          \
    }                                                                                                  \
    TARGET static void write_squares(const float* tiles, int64_t stride, PlaneSize size, TileRun run,  \
                                     const float* bias, bool relu, float* plane) {                     \
      if (relu) {                                                                                      \
        write_run<W, true>(tiles, stride, size, run, bias, plane);                                     \
      } else {                                                                                         \
        write_run<W, false>(tiles, stride, size, run, bias, plane);                                    \
      }                                                                                                \
    }                                                                                                  \
    TARGET static void multiply(const float* in, const float* weights, int64_t in_blocks,              \
                                int64_t out_blocks, int64_t tiles, float* out) {                       \
      multiply_all<W>(in, weights, in_blocks, out_blocks, tiles, out);                                 \
    }                                                                                                  \
    TARGET static void add_products(const float* left, int64_t left_blocks, const float* right,        \
                                    int64_t right_blocks, int64_t tiles, float* sums) {                \
      add_all_products<W>(left, left_blocks, right, right_blocks, tiles, sums);                        \
    }                                                                                                  \
    TARGET static void pack_forward(const float* w, int64_t channels, float* into, int64_t stride,     \
                                    int64_t row) {                                                     \
      pack_straight<W>(w, channels, into, stride, row);                                                \
    }                                                                                                  \
    TARGET static void pack_backward(const float* w, int64_t channels, float* into, int64_t stride,    \
                                     int64_t row) {                                                    \
      pack_turned<W>(w, channels, into, stride, row);                                                  \
    }                                                                                                  \
    TARGET static void unpack_gradient(const float* sums, int64_t stride, int64_t row, int64_t blocks, \
                                       float scale, bool add, float* gradient, int64_t channels) {     \
      if (add) {                                                                                       \
        unpack<W, true>(sums, stride, row, blocks, scale, gradient, channels);                         \
      } else {                                                                                         \
        unpack<W, false>(sums, stride, row, blocks, scale, gradient, channels);                        \
      }                                                                                                \
    }                                                                                                  \
  };

LOCKSTEP_WINOGRAD_LOOPS(Plain, )
#if defined(__x86_64__)
LOCKSTEP_WINOGRAD_LOOPS(Avx2, [[gnu::target("avx2,fma")]])
LOCKSTEP_WINOGRAD_LOOPS(Avx512, LOCKSTEP_AVX512)
#endif

template <int W, template <int> class Loops>
constexpr WinogradLoops kTable{Loops<W>::read_patches,  Loops<W>::read_squares,   Loops<W>::write_squares,
                               Loops<W>::multiply,      Loops<W>::add_products,   Loops<W>::pack_forward,
                               Loops<W>::pack_backward, Loops<W>::unpack_gradient};

}  // namespace

const WinogradLoops& winograd_loops() {
#if defined(__x86_64__)
  using onednn::InstructionSet;
  switch (onednn::instruction_set()) {
    case InstructionSet::kAvx512:
      return kTable<16, Avx512>;
    case InstructionSet::kAvx2:
      return kTable<8, Avx2>;
    case InstructionSet::kAny:
      break;
  }
#endif
  return kTable<8, Plain>;
}

}  // namespace lockstep::kernels
