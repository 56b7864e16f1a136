#pragma once

#include <cstdint>

namespace lockstep::kernels {

/// Height and width; a single number stands for both.
struct Extent {
  constexpr Extent(int64_t both) : height(both), width(both) {}
  constexpr Extent(int64_t height_, int64_t width_) : height(height_), width(width_) {}

  int64_t height;
  int64_t width;
};

struct ConvShape {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  Extent kernel = 1;
  int64_t stride = 1;
  Extent padding = 0;
  int64_t groups = 1;

  /// Number of inputs in the sum of each output.
  int64_t fan_in() const { return in_channels / groups * kernel.height * kernel.width; }
};

enum class PoolKind { kMax, kMean };

struct PoolShape {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  /// Whether a last window may extend beyond the right and the lower edge.
  bool ceil = false;
};

}  // namespace lockstep::kernels
