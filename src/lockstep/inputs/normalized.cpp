#include "lockstep/inputs/normalized.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mul.h>

namespace lockstep::inputs {
namespace {

at::Tensor per_channel(const std::array<float, 3>& values, int64_t channels, at::Device device) {
  const at::Tensor all = at::empty({1, channels, 1, 1}, at::kFloat);
  for (int64_t c = 0; c < channels; ++c) {
    all.mutable_data_ptr<float>()[c] = values.at(static_cast<size_t>(c));
  }
  return all.to(device);
}

}  // namespace

ChannelScaling::ChannelScaling(const feed::Scaling& scaling, int64_t channels, at::Device device)
    : scale(per_channel(scaling.scale, channels, device)),
      shift(per_channel(scaling.shift, channels, device)) {}

at::Tensor normalized(const at::Tensor& pixels, const ChannelScaling& scaling,
                      at::MemoryFormat memory_format) {
  const at::NoGradGuard no_grad;
  const at::Tensor planes = pixels.permute({0, 3, 1, 2});
  at::Tensor images = at::empty(planes.sizes(), pixels.options().dtype(at::kFloat), memory_format);
  at::mul_out(images, planes, scaling.scale);
  return images.add_(scaling.shift);
}

}  // namespace lockstep::inputs
