#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

/// Maximum over square windows; padding never wins.
class MaxPool {
 public:
  MaxPool(int64_t kernel, int64_t stride, int64_t padding = 0);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  int64_t kernel_;
  int64_t stride_;
  int64_t padding_;
};

/// Average over size x size windows that cover the image whatever its size, then one row per sample:
/// [batch, channels, height, width] -> [batch, channels * size * size].
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(int64_t size);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  int64_t size_;
};

}  // namespace lockstep::kernels
