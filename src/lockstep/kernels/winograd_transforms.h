#pragma once

#include "lockstep/kernels/lanes.h"

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

namespace lockstep::kernels {

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

}  // namespace lockstep::kernels
