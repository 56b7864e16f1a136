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
// The workspace, which is zero before its first use and is left with its counters zero. It serves images of
// any shape in turn, so the counters of all of them lie in front of the sums of all:
//
//     | counter of tile 0 | ... | counter of tile kMostTiles - 1 | block 0: sums | block 1: sums | ...
//     sums of a block:  | first of each of its channels | second of each |      fp32

constexpr int kSums = 2;

/// Blocks whose sums a thread of the last block reads at a time.
constexpr int kReads = 8;

/// Sums of one thread, which has eight channels.
struct ThreadSums {
  Lanes first;
  Lanes second;
};

struct SharedSums {
  /// By sum and lane, then by thread; longer by a group, so that neighboring lanes of a thread lie in
  /// different banks.
  float of_threads[kSums * kGroup][kThreads + kGroup];
  double of_parts[kSums][kThreads];
  bool last;
};

constexpr int64_t kCounterBytes = kMostTiles * int64_t{sizeof(uint32_t)};

/// Bytes of the workspace.
inline int64_t workspace_bytes(const Tiling& tiling) {
  return kCounterBytes + int64_t{tiling.blocks()} * tiling.columns * kGroup * kSums * int64_t{sizeof(float)};
}

struct SumsPlace {
  uint32_t* counters;
  float* of_blocks;
};

LOCKSTEP_KERNEL SumsPlace sums_in(void* workspace) {
  return {static_cast<uint32_t*>(workspace),
          reinterpret_cast<float*>(static_cast<char*>(workspace) + kCounterBytes)};
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
    const float* const of_channel = from.of_blocks + thread - part * channels;
    double first = 0;
    double second = 0;
    // Read before any is added: a read past the cache takes longer than all additions.
    float sums[kReads][kSums];
    for (int begin = part; begin < tiling.row_blocks; begin += kReads * parts) {
      LOCKSTEP_UNROLL
      for (int i = 0; i < kReads; ++i) {
        const int row_block = begin + i * parts;
        const bool there = row_block < tiling.row_blocks;
        const float* const of_block =
            of_channel + (static_cast<int64_t>(row_block) * tiling.tiles + tile) * kSums * channels;
        sums[i][0] = there ? read_published(of_block) : 0.0f;
        sums[i][1] = there ? read_published(of_block + channels) : 0.0f;
      }
      LOCKSTEP_UNROLL
      for (int i = 0; i < kReads; ++i) {
        first += sums[i][0];
        second += sums[i][1];
      }
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
