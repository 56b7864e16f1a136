#include "lockstep/kernels/winograd_loops.h"

#include "lockstep/kernels/lanes.h"
#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/winograd_products.h"

namespace lockstep::kernels {
namespace {

// The transforms of Winograd's F(2x2, 3x3), on vectors of W channels (Lavin and Gray, 2016, section 4.1):
//
//     Y = A^T [ (G g G^T) * (B^T d B) ] A      g: 3x3 kernel, d: 4x4 pixels, Y: 2x2 pixels, *: elementwise
//
//           | 1  0 -1  0 |         |  1    0    0  |
//     B^T = | 0  1  1  0 |     G = | 1/2  1/2  1/2 |     A^T = | 1  1  1  0 |
//           | 0 -1  1  0 |         | 1/2 -1/2  1/2 |           | 0  1 -1 -1 |
//           | 0  1  0 -1 |         |  0    0    1  |
//
// Each is applied along the columns, then along the rows. The gradient of the weights needs the transposed
// ones: A along the output's gradient, G^T back to the kernel.

/// d[i], i = 0..3 -> B^T d.
template <int W>
LOCKSTEP_INLINE void patch_frequencies(const Floats<W>* d, Floats<W>* f) {
  f[0] = d[0] - d[2];
  f[1] = d[1] + d[2];
  f[2] = d[2] - d[1];
  f[3] = d[1] - d[3];
}

/// d[i], i = 0..1 -> A d.
template <int W>
LOCKSTEP_INLINE void square_frequencies(const Floats<W>* d, Floats<W>* f) {
  f[0] = d[0];
  f[1] = d[0] + d[1];
  f[2] = d[0] - d[1];
  f[3] = -d[1];
}

/// f[i], i = 0..3 -> A^T f.
template <int W>
LOCKSTEP_INLINE void square_of(const Floats<W>* f, Floats<W>* d) {
  d[0] = f[0] + f[1] + f[2];
  d[1] = f[1] - f[2] - f[3];
}

/// g[i], i = 0..2 -> G g.
template <int W>
LOCKSTEP_INLINE void weight_frequencies(const Floats<W>* g, Floats<W>* f) {
  const Floats<W> ends = 0.5F * (g[0] + g[2]);
  const Floats<W> middle = 0.5F * g[1];
  f[0] = g[0];
  f[1] = ends + middle;
  f[2] = ends - middle;
  f[3] = g[2];
}

/// f[i], i = 0..3 -> G^T f.
template <int W>
LOCKSTEP_INLINE void weight_of(const Floats<W>* f, Floats<W>* g) {
  const Floats<W> sum = 0.5F * (f[1] + f[2]);
  g[0] = f[0] + sum;
  g[1] = 0.5F * (f[1] - f[2]);
  g[2] = sum + f[3];
}

/// N x N vectors [i][j] -> 4x4 vectors: first along i, then along j.
template <int W, int N, void (*along)(const Floats<W>*, Floats<W>*)>
LOCKSTEP_INLINE void to_frequencies(const Floats<W> (&from)[N][N], Floats<W> (&into)[4][4]) {
  Floats<W> half[N][4];
#pragma GCC unroll 4
  for (int j = 0; j < N; ++j) {
    Floats<W> column[N];
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) column[i] = from[i][j];
    along(column, half[j]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    Floats<W> row[N];
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) row[j] = half[j][i];
    along(row, into[i]);
  }
}

/// 4x4 vectors -> N x N vectors, in the same order.
template <int W, int N, void (*along)(const Floats<W>*, Floats<W>*)>
LOCKSTEP_INLINE void from_frequencies(const Floats<W> (&from)[4][4], Floats<W> (&into)[N][N]) {
  Floats<W> half[4][N];
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    Floats<W> column[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) column[i] = from[i][j];
    along(column, half[j]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    Floats<W> row[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) row[j] = half[j][i];
    along(row, into[i]);
  }
}

// Loops over the 2 to 4 rows and columns of a tile are unrolled completely, so that the arrays of vectors are
// registers and not memory.

template <int W>
LOCKSTEP_INLINE void store_frequencies(const Floats<W> (&values)[4][4], Frequencies<float> into) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) store<W>(values[i][j], into.at(4 * i + j));
  }
}

template <int W>
LOCKSTEP_INLINE void load_frequencies(Frequencies<const float> from, Floats<W> (&values)[4][4]) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) values[i][j] = load<W>(from.at(4 * i + j));
  }
}

/// The N x N pixels whose upper left one is (row, column); zeros outside the plane.
template <int W, int N>
LOCKSTEP_INLINE void load_pixels(Plane<const float> plane, int64_t row, int64_t column,
                                 Floats<W> (&d)[N][N]) {
  // Nearly all tiles are inside; testing each of their pixels would cost more than loading them.
  if (row >= 0 && column >= 0 && row + N <= plane.height && column + N <= plane.width) {
    const float* const corner = plane.data + (row * plane.width + column) * W;
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < N; ++j) d[i][j] = load<W>(corner + (i * plane.width + j) * W);
    }
    return;
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < N; ++j) {
      const int64_t r = row + i;
      const int64_t c = column + j;
      const bool inside = r >= 0 && c >= 0 && r < plane.height && c < plane.width;
      d[i][j] = inside ? load<W>(plane.data + (r * plane.width + c) * W) : Floats<W>{};
    }
  }
}

/// Transforms a run of tiles. Each of the 16 results of a tile goes to another array, at the same offset.
template <int W, int N, void (*along)(const Floats<W>*, Floats<W>*)>
LOCKSTEP_INLINE void read_run(Plane<const float> plane, TileRun run, Frequencies<float> tiles) {
  for (int64_t t = 0; t < run.count; ++t) {
    Floats<W> pixels[N][N];
    load_pixels<W, N>(plane, run.row, run.column + 2 * t, pixels);
    Floats<W> values[4][4];
    to_frequencies<W, N, along>(pixels, values);
    store_frequencies<W>(values, tiles.from(t * W));
  }
}

template <int W, bool relu>
LOCKSTEP_INLINE void write_run(Frequencies<const float> tiles, TileRun run, const float* bias_of,
                               Plane<float> plane) {
  const Floats<W> bias = bias_of != nullptr ? load<W>(bias_of) : Floats<W>{};
  for (int64_t t = 0; t < run.count; ++t) {
    Floats<W> values[4][4];
    load_frequencies<W>(tiles.from(t * W), values);
    Floats<W> pixels[2][2];
    from_frequencies<W, 2, square_of<W>>(values, pixels);
    const int64_t column = run.column + 2 * t;
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        Floats<W> value = pixels[i][j] + bias;
        // ReLU as "not less than 0", so that a NaN passes and shows up in the loss.
        if constexpr (relu) value = only_where<W>(~(value < 0), value);
        if (run.row + i < plane.height && column + j < plane.width)
          store<W>(value, plane.data + ((run.row + i) * plane.width + column + j) * W);
      }
    }
  }
}

/// A vector is W input channels, which are contiguous in the parameter. Tap (i, j) of the rotated kernel is
/// tap (2 - i, 2 - j), which is 8 - (3 * i + j) in one count.
template <int W>
LOCKSTEP_INLINE void pack_rotated(Taps<const float> w, Frequencies<float> into, int64_t row) {
  for (int k = 0; k < W; ++k) {
    const float* const taps = w.data + k * 9 * w.channels;
    Floats<W> kernel[3][3];
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) kernel[i][j] = load<W>(taps + (8 - 3 * i - j) * w.channels);
    }
    Floats<W> values[4][4];
    to_frequencies<W, 3, weight_frequencies<W>>(kernel, values);
    store_frequencies<W>(values, into.from(k * row));
  }
}

/// A vector is W output channels, which are 9 * channels apart in the parameter: gathered value by value.
template <int W>
LOCKSTEP_INLINE void pack_straight(Taps<const float> w, Frequencies<float> into, int64_t row) {
  for (int c = 0; c < W; ++c) {
    Floats<W> kernel[3][3] = {};
#pragma GCC unroll 3
    for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
      for (int j = 0; j < 3; ++j) {
#pragma GCC unroll 16
        for (int k = 0; k < W; ++k) kernel[i][j][k] = w.data[(k * 9 + 3 * i + j) * w.channels + c];
      }
    }
    Floats<W> values[4][4];
    to_frequencies<W, 3, weight_frequencies<W>>(kernel, values);
    store_frequencies<W>(values, into.from(c * row));
  }
}

template <int W, bool add>
LOCKSTEP_INLINE void unpack(Frequencies<const float> sums, Taps<float> gradient, int64_t row, int64_t blocks,
                            float scale) {
  for (int k = 0; k < W; ++k) {
    for (int64_t block = 0; block < blocks; ++block) {
      Floats<W> values[4][4];
      load_frequencies<W>(sums.from(k * row + block * W), values);
      Floats<W> kernel[3][3];
      from_frequencies<W, 3, weight_of<W>>(values, kernel);
#pragma GCC unroll 3
      for (int i = 0; i < 3; ++i) {
#pragma GCC unroll 3
        for (int j = 0; j < 3; ++j) {
          float* const at = gradient.data + (k * 9 + 3 * i + j) * gradient.channels + block * W;
          Floats<W> value = scale * kernel[i][j];
          if constexpr (add) value += load<W>(at);
          store<W>(value, at);
        }
      }
    }
  }
}

// The loops above, compiled once per instruction set: inlined functions are compiled for the set of the
// function that they are inlined into.
#define LOCKSTEP_WINOGRAD_LOOPS(NAME, TARGET)                                                            \
  template <int W>                                                                                       \
  struct NAME {                                                                                          \
    TARGET static void read_patches(Plane<const float> plane, TileRun run, Frequencies<float> tiles) {   \
      read_run<W, 4, patch_frequencies<W>>(plane, run, tiles);                                           \
    }                                                                                                    \
    TARGET static void read_squares(Plane<const float> plane, TileRun run, Frequencies<float> tiles) {   \
      read_run<W, 2, square_frequencies<W>>(plane, run, tiles);                                          \
    }                                                                                                    \
    TARGET static void write_squares(Frequencies<const float> tiles, TileRun run, const float* bias,     \
                                     bool relu, Plane<float> plane) {                                    \
      if (relu) {                                                                                        \
        write_run<W, true>(tiles, run, bias, plane);                                                     \
      } else {                                                                                           \
        write_run<W, false>(tiles, run, bias, plane);                                                    \
      }                                                                                                  \
    }                                                                                                    \
    TARGET static void multiply(TileMatrix<const float> in, const float* weights, TileMatrix<float> out, \
                                int64_t tiles) {                                                         \
      multiply_all<W>(in, weights, out, tiles);                                                          \
    }                                                                                                    \
    TARGET static void add_products(TileMatrix<const float> left, TileMatrix<const float> right,         \
                                    int64_t tiles, float* sums) {                                        \
      add_all_products<W>(left, right, tiles, sums);                                                     \
    }                                                                                                    \
    TARGET static void pack_forward(Taps<const float> w, Frequencies<float> into, int64_t row) {         \
      pack_straight<W>(w, into, row);                                                                    \
    }                                                                                                    \
    TARGET static void pack_backward(Taps<const float> w, Frequencies<float> into, int64_t row) {        \
      pack_rotated<W>(w, into, row);                                                                     \
    }                                                                                                    \
    TARGET static void unpack_gradient(Frequencies<const float> sums, Taps<float> gradient, int64_t row, \
                                       int64_t blocks, float scale, bool add) {                          \
      if (add) {                                                                                         \
        unpack<W, true>(sums, gradient, row, blocks, scale);                                             \
      } else {                                                                                           \
        unpack<W, false>(sums, gradient, row, blocks, scale);                                            \
      }                                                                                                  \
    }                                                                                                    \
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
