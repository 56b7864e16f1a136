#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/tiles.h"

namespace lockstep::cuda_kernels {

// Two sums per channel over all rows of an image, in three stages whose order does not depend on which block
// or thread is faster, so that equal input gives equal bits:
//
//     thread   its rows, in fp32                                                     registers
//     block    its threads of one group, in the order of threads, in fp32            shared memory
//     tile     its blocks, in the order of blocks, in fp64, by the block that         workspace
//              arrives last; only then are a channel's sums finished
//
// The workspace, which is zero before its first use and is left with its counters zero:
//
//     | counter of tile 0 | counter of tile 1 | ... padding to 16 bytes | block 0: sums | block 1: sums | ...
//     sums of a block:  | first of each of its channels | second of each |      fp32

constexpr int kSums = 2;

/// Sums of one thread, which has eight channels.
struct ThreadSums {
  Lanes first;
  Lanes second;
};

struct SharedSums {
  /// By sum and lane, then by thread.
  float of_threads[kSums * kGroup][kThreads];
  double of_parts[kSums][kThreads];
  bool last;
};

LOCKSTEP_KERNEL int64_t counter_bytes(const Tiling& tiling) {
  return (tiling.tiles * int64_t{sizeof(uint32_t)} + 15) / 16 * 16;
}

/// Bytes of the workspace.
inline int64_t workspace_bytes(const Tiling& tiling) {
  return counter_bytes(tiling) +
         int64_t{tiling.blocks()} * tiling.columns * kGroup * kSums * int64_t{sizeof(float)};
}

struct SumsPlace {
  uint32_t* counters;
  float* of_blocks;
};

LOCKSTEP_KERNEL SumsPlace sums_in(void* workspace, const Tiling& tiling) {
  return {static_cast<uint32_t*>(workspace),
          reinterpret_cast<float*>(static_cast<char*>(workspace) + counter_bytes(tiling))};
}

/// The block's stage: adds the sums of its threads and publishes them.
LOCKSTEP_KERNEL void add_threads(const Tiling& tiling, int block, PerThread<ThreadSums>& sums, SumsPlace to,
                                 SharedSums& shared) {
  for_threads([&](int thread) {
    for_lanes([&](int lane) {
      shared.of_threads[lane][thread] = sums[thread].first[lane];
      shared.of_threads[kGroup + lane][thread] = sums[thread].second[lane];
    });
  });
  for_threads([&](int thread) {
    const int outputs = kSums * kGroup * tiling.columns;
    for (int output = thread; output < outputs; output += kThreads) {
      // Neighboring threads take neighboring columns, which lie in different banks.
      const int value = output / tiling.columns;
      const int column = output - value * tiling.columns;
      float sum = 0;
      for (int row = 0; row < tiling.rows_per_pass; ++row) {
        sum += shared.of_threads[value][row * tiling.columns + column];
      }
      const int which = value / kGroup;
      const int lane = value - which * kGroup;
      to.of_blocks[static_cast<int64_t>(block) * outputs + (which * tiling.columns + column) * kGroup +
                   lane] = sum;
    }
    publish();
  });
}

/// Whether this block is the last of its tile to arrive; the same for all its threads.
LOCKSTEP_KERNEL bool arrives_last(const Tiling& tiling, int block, SumsPlace to, SharedSums& shared) {
  for_threads([&](int thread) {
    if (thread != 0) return;
    uint32_t* const counter = to.counters + block % tiling.tiles;
    shared.last = count_up(counter) + 1 == static_cast<uint32_t>(tiling.row_blocks);
    // Reset for the next kernel.
    if (shared.last) *counter = 0;
    publish();
  });
  return shared.last;
}

/// The tile's stage: finish(channel, first, second) for each of its channels.
template <typename Finish>
LOCKSTEP_KERNEL void add_blocks(const Tiling& tiling, int tile, SumsPlace from, SharedSums& shared,
                                const Finish& finish) {
  const int channels = tiling.columns * kGroup;
  // Several threads per channel where there are enough; each takes every parts-th block.
  const int parts = kThreads / channels;
  for_threads([&](int thread) {
    const int part = thread / channels;
    if (part >= parts) return;
    double first = 0;
    double second = 0;
    for (int i = part; i < tiling.row_blocks; i += parts) {
      const int64_t block = static_cast<int64_t>(i) * tiling.tiles + tile;
      const float* const sums = from.of_blocks + block * kSums * channels + (thread - part * channels);
      first += read_published(sums);
      second += read_published(sums + channels);
    }
    shared.of_parts[0][thread] = first;
    shared.of_parts[1][thread] = second;
  });
  for_threads([&](int thread) {
    const int channel = tile * channels + thread;
    if (thread >= channels || channel >= tiling.shape.channels) return;
    double first = 0;
    double second = 0;
    for (int part = 0; part < parts; ++part) {
      first += shared.of_parts[0][part * channels + thread];
      second += shared.of_parts[1][part * channels + thread];
    }
    finish(channel, first, second);
  });
}

/// All stages after the threads' own.
template <typename Finish>
LOCKSTEP_KERNEL void finish_sums(const Tiling& tiling, int block, PerThread<ThreadSums>& sums,
                                 SumsPlace place, SharedSums& shared, const Finish& finish) {
  add_threads(tiling, block, sums, place, shared);
  if (arrives_last(tiling, block, place, shared)) {
    add_blocks(tiling, block % tiling.tiles, place, shared, finish);
  }
}

}  // namespace lockstep::cuda_kernels
