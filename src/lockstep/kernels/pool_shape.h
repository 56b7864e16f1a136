#pragma once

#include <cstdint>

namespace lockstep::kernels {

struct PoolShape {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  /// Whether windows that hang over the right and lower edge count.
  bool ceil = false;
};

}  // namespace lockstep::kernels
