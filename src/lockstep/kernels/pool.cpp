#include "lockstep/kernels/pool.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

namespace lockstep::kernels {

MaxPool::MaxPool(int64_t kernel, int64_t stride, int64_t padding)
    : kernel_(kernel), stride_(stride), padding_(padding) {}

at::Tensor MaxPool::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::max_pool2d(x, kernel_, stride_, padding_);
  if (context.cost != nullptr) {
    context.cost->saved_values += y.numel();
    context.cost->saved_index_bytes += y.numel() * static_cast<int64_t>(sizeof(int64_t));
  }
  return y;
}

AdaptiveAvgPool::AdaptiveAvgPool(int64_t size) : size_(size) {}

at::Tensor AdaptiveAvgPool::operator()(const at::Tensor& x, const Context& context) const {
  at::Tensor y = at::adaptive_avg_pool2d(x, {size_, size_}).flatten(1);
  if (context.cost != nullptr) context.cost->saved_values += y.numel();
  return y;
}

}  // namespace lockstep::kernels
