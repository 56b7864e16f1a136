#include <algorithm>
#include <memory>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/fused_layers.h"

namespace lockstep::kernels::onednn {
namespace {

using dnnl::memory;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct PoolPlan {
  std::vector<int64_t> output_sizes;
  memory::desc source, output;
  Operation<dnnl::pooling_forward> forward;
  Operation<dnnl::pooling_backward> backward;
};

/// Number of windows, as LibTorch counts them: in ceil mode, a window that starts in the right or lower
/// padding is dropped.
int64_t windows_along(int64_t input, const PoolShape& shape) {
  const int64_t room = input + 2 * shape.padding - shape.kernel;
  int64_t windows = (room + (shape.ceil ? shape.stride - 1 : 0)) / shape.stride + 1;
  if (shape.ceil && (windows - 1) * shape.stride >= input + shape.padding) --windows;
  return windows;
}

std::unique_ptr<PoolPlan> make_pool_plan(const at::Tensor& x, const PoolShape& shape, PoolKind kind) {
  auto plan = std::make_unique<PoolPlan>();
  const int64_t height = windows_along(x.size(2), shape);
  const int64_t width = windows_along(x.size(3), shape);
  if (height < 1 || width < 1) return nullptr;
  plan->output_sizes = {x.size(0), x.size(1), height, width, x.size(4)};
  plan->source = image_desc(x);
  plan->output = image_desc(at::empty(plan->output_sizes, x.options()));
  // oneDNN takes the padding after the image explicitly: as much as the last window needs.
  const auto behind = [&](int64_t input, int64_t output) {
    return (output - 1) * shape.stride + shape.kernel - input - shape.padding;
  };
  const memory::dims after{behind(x.size(2), height), behind(x.size(3), width)};
  // A mean over a window beyond LibTorch's padding divides by fewer pixels, which oneDNN cannot do.
  if (kind == PoolKind::kMean &&
      std::ranges::any_of(after, [&](int64_t rows) { return rows > shape.padding; })) {
    return nullptr;
  }
  const memory::dims strides{shape.stride, shape.stride};
  const memory::dims kernel{shape.kernel, shape.kernel};
  const memory::dims before{shape.padding, shape.padding};
  const memory::dims dilation{0, 0};
  const auto algorithm =
      kind == PoolKind::kMax ? dnnl::algorithm::pooling_max : dnnl::algorithm::pooling_avg_include_padding;
  const dnnl::pooling_forward::primitive_desc forward(engine(), dnnl::prop_kind::forward_training, algorithm,
                                                      plan->source, plan->output, strides, kernel, dilation,
                                                      before, after, user_scratchpad());
  if (is_reference(forward.impl_info_str())) return nullptr;
  plan->forward = forward;
  plan->backward =
      dnnl::pooling_backward::primitive_desc(engine(), algorithm, plan->source, plan->output, strides, kernel,
                                             dilation, before, after, forward, user_scratchpad());
  return plan;
}

class PoolFunction : public torch::autograd::Function<PoolFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const PoolPlan* plan) {
    at::Tensor y = at::empty(plan->output_sizes, x.options());
    Arguments arguments{{DNNL_ARG_SRC, memory_of(plan->source, x)},
                        {DNNL_ARG_DST, memory_of(plan->output, y)}};
    const memory::desc workspace_desc = plan->forward->workspace_desc();
    at::Tensor workspace;
    if (workspace_desc.get_size() > 0) {
      workspace = allocate(workspace_desc);
      arguments.emplace(DNNL_ARG_WORKSPACE, memory_of(workspace_desc, workspace));
    }
    plan->forward.run(std::move(arguments));
    saved->save_for_backward({workspace});
    saved->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    saved->saved_data["sizes"] = x.sizes().vec();
    return y;
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const at::Tensor workspace = saved->get_saved_variables()[0];
    const auto* plan = reinterpret_cast<const PoolPlan*>(saved->saved_data["plan"].toInt());
    const at::Tensor gradient = gradients[0].contiguous();
    at::Tensor of_x = at::empty(saved->saved_data["sizes"].toIntVector(), gradient.options());
    Arguments arguments{{DNNL_ARG_DIFF_DST, memory_of(plan->output, gradient)},
                        {DNNL_ARG_DIFF_SRC, memory_of(plan->source, of_x)}};
    if (workspace.defined()) {
      arguments.emplace(DNNL_ARG_WORKSPACE, memory_of(plan->forward->workspace_desc(), workspace));
    }
    plan->backward.run(std::move(arguments));
    return {of_x, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_pool(const at::Tensor& x, const PoolShape& shape, PoolKind kind) {
  // One cache per thread, whose plans are never destroyed, because backward passes point to them.
  thread_local Plans<PoolPlan> plans;
  const PoolPlan* plan =
      plan_for(plans, x, [&] { return make_pool_plan(x, shape, kind); },
               {shape.kernel, shape.stride, shape.padding, int64_t{shape.ceil}, static_cast<int64_t>(kind)});
  return plan == nullptr ? at::Tensor() : PoolFunction::apply(x, plan);
}

}  // namespace lockstep::kernels::onednn
