#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/shapes.h"

namespace lockstep::kernels {

/// Maximum or mean over square windows.
class WindowPool {
 public:
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 protected:
  WindowPool(PoolKind kind, const PoolShape& shape) : kind_(kind), shape_(shape) {}

 private:
  PoolKind kind_;
  PoolShape shape_;
};

/// Maximum over square windows; padding is never the maximum.
class MaxPool : public WindowPool {
 public:
  explicit MaxPool(const PoolShape& shape) : WindowPool(PoolKind::kMax, shape) {}
};

/// Mean over square windows; padding counts as zeros.
class AvgPool : public WindowPool {
 public:
  explicit AvgPool(const PoolShape& shape) : WindowPool(PoolKind::kMean, shape) {}
};

/// Average over size x size windows that cover an image of any size:
/// [batch, channels, height, width] -> [batch, channels, size, size].
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(int64_t size) : size_(size) {}
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  int64_t size_;
};

}  // namespace lockstep::kernels
