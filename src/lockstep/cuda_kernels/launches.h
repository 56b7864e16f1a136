#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/cuda_kernels/elementwise.h"
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

/// Blocks for so many equal pieces of work.
template <typename Kernel>
int32_t blocks_for(int64_t pieces, int processors) {
  const int64_t most = int64_t{processors} * Kernel::kBlocksPerProcessor;
  return static_cast<int32_t>(std::clamp<int64_t>(pieces, 1, most));
}

template <typename Launcher>
void update(const SgdUpdate& sgd, Launcher& launcher) {
  const int64_t chunks = chunks_of(sgd);
  if (chunks == 0) return;
  with_number(sgd.copies, [&](auto type) {
    using Kernel = Sgd<decltype(type)>;
    const int32_t blocks = blocks_for<Kernel>(chunks, launcher.processors());
    launcher.run(Kernel{sgd, chunks, blocks}, blocks);
  });
}

template <typename Launcher>
void convert_pixels(const PixelConversion& conversion, Launcher& launcher) {
  const int64_t values = conversion.pixels * conversion.image_channels;
  if (values == 0) return;
  with_number(conversion.number, [&](auto type) {
    using Kernel = ConvertPixels<decltype(type)>;
    const int32_t blocks = blocks_for<Kernel>((values + kChunk - 1) / kChunk, launcher.processors());
    launcher.run(Kernel{conversion, blocks}, blocks);
  });
}

}  // namespace lockstep::cuda_kernels
