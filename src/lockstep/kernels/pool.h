#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer.h"
#include "lockstep/kernels/shapes.h"

namespace lockstep::kernels {

/// Maximum or mean over square windows.
class WindowPool {
 public:
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 protected:
  /// `kind`: kMaxPool or kAvgPool.
  WindowPool(LayerKind kind, const PoolShape& shape);

 private:
  at::Tensor pool(const at::Tensor& x, const Context& context) const;

  PoolShape shape_;
  LayerForm form_;
};

/// Maximum over square windows; padding is never the maximum.
class MaxPool : public WindowPool {
 public:
  explicit MaxPool(const PoolShape& shape) : WindowPool(LayerKind::kMaxPool, shape) {}
};

/// Mean over square windows; padding counts as zeros.
class AvgPool : public WindowPool {
 public:
  explicit AvgPool(const PoolShape& shape) : WindowPool(LayerKind::kAvgPool, shape) {}
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
