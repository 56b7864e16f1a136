#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer.h"
#include "lockstep/kernels/shapes.h"

namespace lockstep::kernels {

/// Maximum over square windows; padding is never the maximum.
class MaxPool {
 public:
  explicit MaxPool(const PoolShape& shape);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  at::Tensor pool(const at::Tensor& x, const Context& context) const;

  PoolShape shape_;
  LayerForm form_;
};

/// Mean over square windows; padding counts as zeros.
class AvgPool {
 public:
  explicit AvgPool(const PoolShape& shape);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  at::Tensor pool(const at::Tensor& x, const Context& context) const;

  PoolShape shape_;
  LayerForm form_;
};

/// Average over size x size windows that cover an image of any size:
/// [batch, channels, height, width] -> [batch, channels, size, size].
class AdaptiveAvgPool {
 public:
  explicit AdaptiveAvgPool(int64_t size);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  at::Tensor pool(const at::Tensor& x, const Context& context) const;

  int64_t size_;
  LayerForm form_;
};

}  // namespace lockstep::kernels
