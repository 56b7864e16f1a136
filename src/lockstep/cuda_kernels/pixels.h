#pragma once

#include <cstdint>

#include "lockstep/cuda_kernels/operations.h"

namespace lockstep::cuda_kernels {

/// Eight values of the images per thread and turn, so that they are written 16 bytes at a time. A pixel has
/// three bytes as a rule, so bytes are read one by one; neighboring threads read neighboring bytes.
template <typename T>
struct ConvertPixels {
  struct Shared {};
  static constexpr int kBlocksPerProcessor = 4;

  PixelConversion conversion;
  int32_t blocks;

  LOCKSTEP_KERNEL void operator()(int block, Shared& /*shared*/) const {
    for_threads([&](int thread) {
      const int64_t values = conversion.pixels * conversion.image_channels;
      const int64_t stride = int64_t{blocks} * kThreads * kGroup;
      const bool aligned = reinterpret_cast<uintptr_t>(conversion.to) % 16 == 0;
      for (int64_t first = (int64_t{block} * kThreads + thread) * kGroup; first < values; first += stride) {
        const int64_t left = values - first;
        convert(first, {aligned && left >= kGroup, left < kGroup ? static_cast<int>(left) : kGroup});
      }
    });
  }

 private:
  LOCKSTEP_KERNEL void convert(int64_t first, Access access) const {
    int64_t pixel = first / conversion.image_channels;
    int channel = static_cast<int>(first - pixel * conversion.image_channels);
    Group<T> group{};
    for_lanes([&](int lane) {
      if (lane >= access.lanes) return;
      float value = 0;
      if (channel < conversion.channels) {
        value = static_cast<float>(conversion.from[pixel * conversion.channels + channel]) *
                    pick(conversion.scale, channel) +
                pick(conversion.shift, channel);
      }
      group.values[lane] = rounded<T>(value);
      if (++channel == conversion.image_channels) {
        channel = 0;
        ++pixel;
      }
    });
    store(group, static_cast<T*>(conversion.to) + first, access);
  }

  /// values[channel], from registers.
  LOCKSTEP_KERNEL static float pick(const float (&values)[kMostPixelChannels], int channel) {
    return channel == 0 ? values[0] : channel == 1 ? values[1] : channel == 2 ? values[2] : values[3];
  }
};

}  // namespace lockstep::cuda_kernels
