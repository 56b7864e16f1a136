#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "lockstep/cuda_kernels/numbers.h"

namespace lockstep::cuda_kernels {

// A group is eight neighboring channels of a pixel, the unit of work of a thread. In memory it is 16 bytes in
// bf16 and fp16, twice 16 in fp32, and a byte in a mask. The last group of a pixel is short if the channels
// are no multiple of eight:
//
//     pixel 0 | group 0: c0..c7 | group 1: c8..c15 | group 2: c16..c18 |        19 channels, 3 groups
//     pixel 1 | group 0: c0..c7 | ...                                           begins at value 19
//
// Pixels are then not aligned to 16 bytes, and groups are read and written value by value.

constexpr int kGroup = 8;

LOCKSTEP_KERNEL constexpr int groups_of(int channels) {
  return (channels + kGroup - 1) / kGroup;
}

/// Values as they lie in memory.
template <typename T>
struct alignas(16) Group {
  T values[kGroup];
};

/// The values of a group in fp32.
struct Lanes {
  float values[kGroup] = {};

  LOCKSTEP_KERNEL float& operator[](int lane) { return values[lane]; }
  LOCKSTEP_KERNEL float operator[](int lane) const { return values[lane]; }
};

/// Access to one group. Wide: the group is whole, and every group of the image begins at a multiple of 16
/// bytes.
struct Access {
  bool wide;
  /// Values of this group, 1 to 8.
  int lanes;
};

/// Calls body(lane) for every value of a group. The loop has a fixed length, so that a GPU keeps values in
/// registers.
template <typename Body>
LOCKSTEP_KERNEL void for_lanes(const Body& body) {
  LOCKSTEP_UNROLL
  for (int lane = 0; lane < kGroup; ++lane) body(lane);
}

/// Whether a copy has its source or its destination in global memory.
enum class Copy { kLoad, kStore };

/// Copies a group between global memory and registers by accesses of 16 bytes; both addresses are multiples
/// of 16. By intrinsics, because nvcc takes assignments of 16 bytes apart where a branch beside them makes
/// the same ones in parts.
template <Copy copy, typename T>
LOCKSTEP_KERNEL void copy_wide(const T* from, T* to) {
#if defined(__CUDA_ARCH__)
  const auto* const wide_from = reinterpret_cast<const uint4*>(from);
  auto* const wide_to = reinterpret_cast<uint4*>(to);
  LOCKSTEP_UNROLL
  for (int i = 0; i < static_cast<int>(sizeof(Group<T>) / sizeof(uint4)); ++i) {
    if constexpr (copy == Copy::kLoad) {
      wide_to[i] = __ldca(wide_from + i);
    } else {
      __stwb(wide_to + i, wide_from[i]);
    }
  }
#else
  const auto addresses = reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to);
  if (addresses % 16 != 0) ++misaligned_host_accesses;
  std::memcpy(to, from, sizeof(Group<T>));
#endif
}

/// Values beyond the group's end are 0.
template <typename T>
LOCKSTEP_KERNEL Group<T> load(const T* from, Access access) {
  Group<T> group{};
  if (access.wide) {
    copy_wide<Copy::kLoad>(from, group.values);
  } else {
    for_lanes([&](int lane) {
      if (lane < access.lanes) group.values[lane] = from[lane];
    });
  }
  return group;
}

template <typename T>
LOCKSTEP_KERNEL void store(const Group<T>& group, T* to, Access access) {
  if (access.wide) {
    copy_wide<Copy::kStore>(group.values, to);
  } else {
    for_lanes([&](int lane) {
      if (lane < access.lanes) to[lane] = group.values[lane];
    });
  }
}

/// A group of `per_channel`, a row with a value for every channel, whatever its alignment.
LOCKSTEP_KERNEL Lanes lanes_of(const float* per_channel, int channel, Access access) {
  Lanes lanes;
  for_lanes([&](int lane) {
    if (lane < access.lanes) lanes[lane] = per_channel[channel + lane];
  });
  return lanes;
}

/// An image in memory: NHWC, a row of channels for each of batch * height * width pixels.
struct Shape {
  int64_t rows;
  int32_t channels;
};

/// Groups in a tile at most, so that a warp reads 512 neighboring bytes of bf16.
constexpr int kMostColumns = 32;
/// The same where blocks add up: 128 neighboring bytes still fill a line of the cache, and a tile has a
/// quarter of the blocks, whose sums its last block adds in a quarter of the channels.
constexpr int kMostColumnsOfSums = 8;

/// Tiles of sums of an image at most: 16,384 channels.
constexpr int kMostTiles = 256;
constexpr int kMostChannels = kMostTiles * kMostColumnsOfSums * kGroup;

/// Rows of a thread at least, so that a block is worth its start.
constexpr int kLeastRows = 4;

/// The division of an image among blocks. A tile is a range of groups; its rows are dealt to row_blocks
/// blocks in turn, rows_per_pass at a time, a thread per group:
///
///                     tile 0          tile 1           one pass of a block (columns = 3, rows_per_pass = 85)
///     rows 0..84     | block 0       | block 1   |      thread 0   thread 1   thread 2
///     rows 85..169   | block 2       | block 3   |      thread 3   thread 4   thread 5
///     rows 170..254  | block 0       | block 1   |        ...                                thread 255
///     idles
///       ...
///
/// So a block keeps to its channels, whose constants and sums stay in registers.
struct Tiling {
  Shape shape;
  bool wide;
  int32_t groups;
  int32_t tiles;
  /// Groups of a tile; the last tile may have fewer.
  int32_t columns;
  int32_t rows_per_pass;
  int32_t row_blocks;

  int blocks() const { return tiles * row_blocks; }
};

/// For at most `most_blocks` blocks, unless the image has more tiles; fewer if they would have little to do.
inline Tiling tile(Shape shape, bool wide, int most_blocks, int most_columns = kMostColumns) {
  Tiling tiling{.shape = shape, .wide = wide, .groups = groups_of(shape.channels)};
  tiling.tiles = (tiling.groups + most_columns - 1) / most_columns;
  tiling.columns = (tiling.groups + tiling.tiles - 1) / tiling.tiles;
  tiling.rows_per_pass = kThreads / tiling.columns;
  const int64_t rows_of_a_thread = int64_t{kLeastRows} * tiling.rows_per_pass;
  const int64_t busy = (shape.rows + rows_of_a_thread - 1) / rows_of_a_thread;
  tiling.row_blocks =
      static_cast<int32_t>(std::clamp<int64_t>(busy, 1, std::max(1, most_blocks / tiling.tiles)));
  return tiling;
}

/// A thread's place in the tiling.
struct Place {
  int tile;
  int row_block;
  int column;
  int group;
  /// The thread's first row, and the distance to its next one.
  int64_t row;
  int64_t stride;
  Access access;
  /// Whether the thread has a group; its first row may be beyond the image nevertheless.
  bool busy;

  LOCKSTEP_KERNEL int channel() const { return group * kGroup; }
};

LOCKSTEP_KERNEL Place place_of(const Tiling& tiling, int block, int thread) {
  Place place{};
  place.tile = block % tiling.tiles;
  place.row_block = block / tiling.tiles;
  const int row = thread / tiling.columns;
  place.column = thread - row * tiling.columns;
  place.group = place.tile * tiling.columns + place.column;
  place.row = static_cast<int64_t>(place.row_block) * tiling.rows_per_pass + row;
  place.stride = static_cast<int64_t>(tiling.row_blocks) * tiling.rows_per_pass;
  const int left = tiling.shape.channels - place.channel();
  place.access = {tiling.wide, left < kGroup ? left : kGroup};
  place.busy = row < tiling.rows_per_pass && left > 0;
  return place;
}

/// For every row of the thread: use(row, load(row)). kAhead rows are loaded before the first of them is used:
/// an H200 needs some 30 KB in flight on every multiprocessor to keep its memory busy.
template <int kAhead, typename Load, typename Use>
LOCKSTEP_KERNEL void for_rows(const Tiling& tiling, const Place& place, const Load& load, const Use& use) {
  if (!place.busy) return;
  for (int64_t first = place.row; first < tiling.shape.rows; first += kAhead * place.stride) {
    decltype(load(first)) loaded[kAhead];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const int64_t row = first + i * place.stride;
      if (row < tiling.shape.rows) loaded[i] = load(row);
    }
    LOCKSTEP_UNROLL
    for (int i = 0; i < kAhead; ++i) {
      const int64_t row = first + i * place.stride;
      if (row < tiling.shape.rows) use(row, loaded[i]);
    }
  }
}

}  // namespace lockstep::cuda_kernels
