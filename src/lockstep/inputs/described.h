#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep::inputs {

/// A tensor that a batch consists of, and how random ones are drawn.
struct Description {
  std::string name;
  /// Shape of one sample; the batch comes before it.
  std::vector<int64_t> shape;
  c10::ScalarType type = c10::kFloat;
  /// As PyTorch names it.
  std::string type_name = "float32";
  bool channels_last = false;
  /// Floating-point numbers: a normal distribution.
  double mean = 0;
  double deviation = 1;
  /// Whole numbers: from `low` to `high` - 1, all equally likely.
  int64_t low = 0;
  int64_t high = 2;

  int64_t bytes_per_sample() const;
};

/// A batch without values, in the layout of the description.
at::Tensor empty_batch(const Description& described, int64_t batch);

/// Writes a sample, given with its last dimension running fastest, to its place in such a batch.
void place_sample(const Description& described, std::span<const char> sample, int64_t index,
                  const at::Tensor& batch);

}  // namespace lockstep::inputs
