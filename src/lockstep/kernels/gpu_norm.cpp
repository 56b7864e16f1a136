#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/cuda_kernels/plugin.h"
#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/releasable_memory.h"

namespace lockstep::kernels {
namespace {

using cuda_kernels::KernelsPluginV1;
using cuda_kernels::Number;
using cuda_kernels::Shape;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Number number_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kBFloat16:
      return Number::kBf16;
    case at::kHalf:
      return Number::kHalf;
    default:
      return Number::kFloat;
  }
}

Shape shape_of(const at::Tensor& x) {
  return {.rows = x.size(0) * x.size(2) * x.size(3), .channels = static_cast<int32_t>(x.size(1))};
}

at::Tensor as_nhwc(const at::Tensor& image) {
  return image.defined() ? image.contiguous(at::MemoryFormat::ChannelsLast) : image;
}

at::Tensor like_image(const at::Tensor& image) {
  return at::empty_like(image, at::MemoryFormat::ChannelsLast);
}

template <typename T = void>
const T* data_in(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<const T*>(tensor.const_data_ptr()) : nullptr;
}

template <typename T = void>
T* data_out(const at::Tensor& tensor) {
  return tensor.defined() ? static_cast<T*>(tensor.mutable_data_ptr()) : nullptr;
}

/// The current stream of a device as a cudaStream_t; null on a CPU.
void* current_stream(c10::Device device) {
  if (device.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl gpu(device.type());
  return gpu.getStreamNativeHandle(gpu.getStream(device));
}

/// The memory in which kernels sum over blocks, one for each stream: passes of a stream follow each other,
/// and leave it as they found it.
class Workspaces {
 public:
  /// Lives as long as the process, because the GPU's memory must not be released after CUDA has ended.
  static Workspaces& get() {
    static auto* const all = new Workspaces;
    return *all;
  }

  void* take(c10::Device device, void* stream, int64_t bytes) {
    const std::lock_guard lock(mutex_);
    at::Tensor& workspace = of_streams_[{device.index(), stream}];
    if (!workspace.defined() || workspace.numel() < bytes) {
      workspace = at::zeros({bytes}, at::TensorOptions().dtype(at::kByte).device(device));
    }
    return workspace.mutable_data_ptr();
  }

 private:
  std::mutex mutex_;
  std::map<std::pair<c10::DeviceIndex, void*>, at::Tensor> of_streams_;
};

/// Calls enqueue(workspace, stream) on x's device and in its current stream.
template <typename Enqueue>
void in_stream_of(const at::Tensor& x, const KernelsPluginV1& kernels, const Enqueue& enqueue) {
  const c10::DeviceGuard on_device(x.device());
  void* const stream = current_stream(x.device());
  enqueue(Workspaces::get().take(x.device(), stream, kernels.norm_workspace_bytes(shape_of(x))), stream);
}

/// Rows of the batch's statistics, [2, channels] in fp32.
enum BatchStatistic { kBatchMean, kBatchInverseDeviation, kBatchStatistics };

class GpuNorm : public torch::autograd::Function<GpuNorm> {
 public:
  /// weight and bias are the layer's; they are arguments so that autograd sees them. Returns one tensor, or
  /// two if steps.forks.
  static variable_list forward(AutogradContext* saved, const at::Tensor& given, const at::Tensor& weight,
                               const at::Tensor& bias, const std::optional<at::Tensor>& residual,
                               const NormLayer& layer, const NormSteps& steps,
                               const KernelsPluginV1* kernels) {
    replica::uses(weight, bias);
    const at::Tensor x = as_nhwc(given);
    const at::Tensor added = as_nhwc(residual.value_or(at::Tensor()));
    const at::Tensor y = like_image(x);
    const Shape shape = shape_of(x);
    at::Tensor mask;
    if (steps.relu) {
      mask = at::empty({shape.rows, cuda_kernels::groups_of(shape.channels)}, x.options().dtype(at::kByte));
    }
    const at::Tensor statistics =
        at::empty({kBatchStatistics, x.size(1)}, x.options().dtype(at::kFloat).memory_format(std::nullopt));
    in_stream_of(x, *kernels, [&](void* workspace, void* stream) {
      kernels->normalize({.shape = shape,
                          .number = number_of(x),
                          .x = data_in(x),
                          .residual = data_in(added),
                          .weight = data_in<float>(weight),
                          .bias = data_in<float>(bias),
                          .epsilon = layer.epsilon,
                          .momentum = layer.momentum,
                          .y = data_out(y),
                          .mask = data_out<uint8_t>(mask),
                          .mean = data_out<float>(statistics[kBatchMean]),
                          .inverse_deviation = data_out<float>(statistics[kBatchInverseDeviation]),
                          .running_mean = data_out<float>(layer.running_mean),
                          .running_variance = data_out<float>(layer.running_variance),
                          .workspace = workspace},
                         stream);
    });
    saved->save_for_backward({x, weight, mask, statistics});
    saved->saved_data["has_residual"] = residual.has_value();
    saved->saved_data["kernels"] = reinterpret_cast<int64_t>(kernels);
    saved->set_materialize_grads(false);
    if (steps.forks) return {y, y.variable_data()};
    return {y};
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    const at::Tensor& mask = variables[2];
    const at::Tensor& statistics = variables[3];
    replica::uses(weight);
    const auto& kernels = *reinterpret_cast<const KernelsPluginV1*>(saved->saved_data["kernels"].toInt());
    const bool has_residual = saved->saved_data["has_residual"].toBool();
    at::Tensor dy = as_nhwc(gradients[0]);
    at::Tensor more = gradients.size() > 1 ? as_nhwc(gradients[1]) : at::Tensor();
    if (!dy.defined()) std::swap(dy, more);

    const at::Tensor dx = like_image(x);
    const at::Tensor of_weight = at::empty_like(weight);
    const at::Tensor of_bias = at::empty_like(weight);
    // dz, the gradient behind ReLU and addition. Without both it is dy.
    const bool differs = more.defined() || (has_residual && mask.defined());
    const at::Tensor dz = differs ? like_image(x) : at::Tensor();
    in_stream_of(x, kernels, [&](void* workspace, void* stream) {
      kernels.normalize_backward({.shape = shape_of(x),
                                  .number = number_of(x),
                                  .dy = data_in(dy),
                                  .more = data_in(more),
                                  .mask = data_in<uint8_t>(mask),
                                  .x = data_in(x),
                                  .weight = data_in<float>(weight),
                                  .mean = data_in<float>(statistics[kBatchMean]),
                                  .inverse_deviation = data_in<float>(statistics[kBatchInverseDeviation]),
                                  .of_weight = data_out<float>(of_weight),
                                  .of_bias = data_out<float>(of_bias),
                                  .dz = data_out(dz),
                                  .dx = data_out(dx),
                                  .workspace = workspace},
                                 stream);
    });
    const at::Tensor of_residual = !has_residual ? at::Tensor() : differs ? dz : dy;
    return {dx, of_weight, of_bias, of_residual, at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

bool has_gpu_norm(const at::Tensor& x) {
  const at::ScalarType type = x.scalar_type();
  return x.dim() == 4 && x.size(1) <= cuda_kernels::kMostChannels &&
         (type == at::kFloat || type == at::kBFloat16 || type == at::kHalf);
}

Fork gpu_norm(const at::Tensor& x, const at::Tensor& residual, const NormLayer& layer, const NormSteps& steps,
              const KernelsPluginV1& kernels) {
  const variable_list made =
      GpuNorm::apply(x, layer.weight, layer.bias, residual.defined() ? std::optional(residual) : std::nullopt,
                     layer, steps, &kernels);
  return {made.front(), made.back()};
}

}  // namespace lockstep::kernels
