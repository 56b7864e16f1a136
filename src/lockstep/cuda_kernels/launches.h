#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/norm.h"

namespace lockstep::cuda_kernels {

// The kernels of each operation, in order. A Launcher is a GPU's stream, or the host:
//
//     int processors() const               multiprocessors, each of which holds a few blocks at a time
//     void run(kernel, int blocks)         runs kernel(block, shared) for every block; the next kernel begins
//                                          when all blocks are done

/// Whether all addresses are multiples of 16; null ones are.
template <typename... Addresses>
bool aligned(Addresses... addresses) {
  return (... && (reinterpret_cast<uintptr_t>(addresses) % 16 == 0));
}

template <typename Kernel, typename Operation, typename Launcher>
void run_tiled(const Operation& operation, bool wide, Launcher& launcher) {
  const int most = launcher.processors() * Kernel::kBlocksPerProcessor;
  const Tiling tiling =
      tile(operation.shape, wide && operation.shape.channels % kGroup == 0, most, Kernel::kColumns);
  launcher.run(Kernel{operation, tiling}, tiling.blocks());
}

template <typename Launcher>
void normalize(const NormForward& norm, Launcher& launcher) {
  if (norm.shape.rows == 0) return;
  const bool wide = aligned(norm.x, norm.residual, norm.y);
  with_number(norm.number, [&](auto type) {
    run_tiled<NormStatistics<decltype(type)>>(norm, wide, launcher);
    run_tiled<NormApply<decltype(type)>>(norm, wide, launcher);
  });
}

template <typename Launcher>
void normalize_backward(const NormBackward& norm, Launcher& launcher) {
  if (norm.shape.rows == 0) return;
  const bool wide = aligned(norm.dy, norm.more, norm.x, norm.dz, norm.dx);
  with_number(norm.number, [&](auto type) {
    run_tiled<NormGradientSums<decltype(type)>>(norm, wide, launcher);
    run_tiled<NormGradientApply<decltype(type)>>(norm, wide, launcher);
  });
}

/// Bytes of NormForward::workspace and NormBackward::workspace for images of this shape.
inline int64_t norm_workspace_bytes(Shape shape, int processors) {
  // Both passes with sums have the same blocks, whatever the alignment.
  using Sums = NormStatistics<float>;
  static_assert(Sums::kBlocksPerProcessor == NormGradientSums<float>::kBlocksPerProcessor &&
                Sums::kColumns == NormGradientSums<float>::kColumns);
  return workspace_bytes(tile(shape, false, processors * Sums::kBlocksPerProcessor, Sums::kColumns));
}

}  // namespace lockstep::cuda_kernels
