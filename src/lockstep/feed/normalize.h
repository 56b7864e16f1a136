#pragma once

#include <array>
#include <cstdint>

namespace lockstep::feed {

/// value * scale + shift, per channel.
struct Scaling {
  std::array<float, 3> scale{};
  std::array<float, 3> shift{};
};

/// (value / 255 - mean) / deviation.
Scaling scaling_of(const std::array<float, 3>& mean, const std::array<float, 3>& deviation);

/// 8-bit pixels with interleaved channels (1 or 3) to floats in the same order, which is channels_last; one
/// pass.
void normalize_interleaved(const uint8_t* pixels, int64_t count, int channels, const Scaling& scaling,
                           float* out);

/// The same, one channel after the other: `count` values of the first channel, then of the next.
void normalize_planar(const uint8_t* pixels, int64_t count, int channels, const Scaling& scaling, float* out);

}  // namespace lockstep::feed
