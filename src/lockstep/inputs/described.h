#pragma once

#include <cstdint>
#include <vector>

#include <c10/core/ScalarType.h>

namespace lockstep::inputs {

/// A tensor that a batch consists of, and how random ones are drawn.
struct Description {
  /// Shape of one sample; the batch comes before it.
  std::vector<int64_t> shape;
  c10::ScalarType type = c10::kFloat;
  bool channels_last = false;
  /// Floating-point numbers: a normal distribution.
  double mean = 0;
  double deviation = 1;
  /// Whole numbers: from `low` to `high` - 1, all equally likely.
  int64_t low = 0;
  int64_t high = 2;
};

}  // namespace lockstep::inputs
