#include "lockstep/kernels/pool.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/layer_watch.h"
#include "lockstep/kernels/onednn/fused_layers.h"

namespace lockstep::kernels {
namespace {

LayerForm pool_form(LayerKind kind, const PoolShape& shape) {
  return {.name = "",
          .kind = kind,
          .window = {.kernel_height = shape.kernel,
                     .kernel_width = shape.kernel,
                     .stride = shape.stride,
                     .pad_height = shape.padding,
                     .pad_width = shape.padding}};
}

}  // namespace

WindowPool::WindowPool(LayerKind kind, const PoolShape& shape)
    : shape_(shape), form_(pool_form(kind, shape)) {}

at::Tensor WindowPool::operator()(const at::Tensor& x, const Context& context) const {
  return as_layer(form_, x, context,
                  [this](const at::Tensor& in, const Context& inner) { return pool(in, inner); });
}

at::Tensor WindowPool::pool(const at::Tensor& given, const Context& context) const {
  const bool is_maximum = form_.kind == LayerKind::kMaxPool;
  if (context.fuses(given) && is_blocked(given)) {
    const auto kind = is_maximum ? onednn::PoolKind::kMax : onednn::PoolKind::kMean;
    // Undefined if fused kernels do not cover it.
    if (const at::Tensor y = onednn::fused_pool(given, shape_, kind); y.defined()) return y;
  }
  const at::Tensor x = to_plain(given);
  if (context.cost != nullptr) context.cost->keep(x);
  if (!is_maximum) return at::avg_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, shape_.ceil);
  at::Tensor y = at::max_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, /*dilation=*/1, shape_.ceil);
  // The backward pass needs the position of every maximum.
  if (context.cost != nullptr) context.cost->keep_bytes(y.numel() * static_cast<int64_t>(sizeof(int64_t)));
  return y;
}

AdaptiveAvgPool::AdaptiveAvgPool(int64_t size)
    : size_(size), form_(pool_form(LayerKind::kAvgPool, {.kernel = 0, .stride = 0})) {}

at::Tensor AdaptiveAvgPool::operator()(const at::Tensor& x, const Context& context) const {
  return as_layer(form_, x, context,
                  [this](const at::Tensor& in, const Context& inner) { return pool(in, inner); });
}

at::Tensor AdaptiveAvgPool::pool(const at::Tensor& given, const Context& context) const {
  if (is_blocked(given) && size_ == 1) {
    return given.mean({2, 3}).reshape({given.size(0), channels_of(given), 1, 1});
  }
  const at::Tensor x = to_plain(given);
  // Windows of one pixel: the mean is the image.
  const bool is_mean_of_one = x.size(2) == size_ && x.size(3) == size_;
  if (is_mean_of_one && context.fuses(x)) return x;
  // The backward pass of a mean over the whole image needs its size only.
  if (context.cost != nullptr && size_ > 1) context.cost->keep(x);
  return at::adaptive_avg_pool2d(x, {size_, size_});
}

}  // namespace lockstep::kernels
