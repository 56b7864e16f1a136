#pragma once

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

}  // namespace lockstep::cuda_kernels
