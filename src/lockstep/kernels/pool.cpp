#include "lockstep/kernels/pool.h"

#include <ATen/ops/adaptive_avg_pool2d.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/fused_layers.h"

namespace lockstep::kernels {
at::Tensor WindowPool::operator()(const at::Tensor& given, const Context& context) const {
  if (context.fuses(given) && is_blocked(given)) {
    // Undefined if fused kernels do not cover it.
    if (const at::Tensor y = onednn::fused_pool(given, shape_, kind_); y.defined()) return y;
  }
  const at::Tensor x = to_plain(given);
  if (context.cost != nullptr) context.cost->keep(x);
  if (kind_ == PoolKind::kMean)
    return at::avg_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, shape_.ceil);
  at::Tensor y = at::max_pool2d(x, shape_.kernel, shape_.stride, shape_.padding, /*dilation=*/1, shape_.ceil);
  // The backward pass needs the position of every maximum.
  if (context.cost != nullptr) context.cost->keep_bytes(y.numel() * static_cast<int64_t>(sizeof(int64_t)));
  return y;
}

at::Tensor AdaptiveAvgPool::operator()(const at::Tensor& given, const Context& context) const {
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
