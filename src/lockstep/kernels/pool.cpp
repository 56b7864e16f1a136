#include "lockstep/kernels/pool.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

namespace lockstep::kernels {

at::Tensor MaxPool::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::max_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, /*dilation=*/1, shape_.ceil);
  if (context.cost != nullptr) {
    context.cost->keep(x);
    context.cost->keep_bytes(y.numel() * static_cast<int64_t>(sizeof(int64_t)));
  }
  return y;
}

at::Tensor AvgPool::operator()(const at::Tensor& x, const Context& context) const {
  if (context.cost != nullptr) context.cost->keep(x);
  return at::avg_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, shape_.ceil);
}

at::Tensor AdaptiveAvgPool::operator()(const at::Tensor& x, const Context& context) const {
  // A mean over everything is undone without knowing what it was taken of.
  if (context.cost != nullptr && size_ > 1) context.cost->keep(x);
  return at::adaptive_avg_pool2d(x, {size_, size_});
}

}  // namespace lockstep::kernels
