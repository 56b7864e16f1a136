#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"

namespace lockstep::kernels {

struct PoolShape {
  int64_t kernel = 2;
  int64_t stride = 2;
  int64_t padding = 0;
  /// Whether windows that hang over the right and lower edge count.
  bool ceil = false;
};

/// Maximum over square windows; padding never wins.
class MaxPool {
 public:
  explicit MaxPool(const PoolShape& shape) : shape_(shape) {}
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  PoolShape shape_;
};

/// Mean over square windows; padding counts as zeros.
class AvgPool {
 public:
  explicit AvgPool(const PoolShape& shape) : shape_(shape) {}
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  PoolShape shape_;
};

/// Average over windows that cover the image whatever its size, size x size of them:
/// [batch, channels, height, width] -> [batch, channels, size, size].
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(int64_t size) : size_(size) {}
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  int64_t size_;
};

}  // namespace lockstep::kernels
