#include <algorithm>
#include <map>
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
  dnnl::pooling_forward::primitive_desc forward;
  dnnl::pooling_backward::primitive_desc backward;
  dnnl::pooling_forward forward_primitive;
  dnnl::pooling_backward backward_primitive;
};

/// Number of windows, as LibTorch counts them: in ceil mode, a window that starts in the right or lower
/// padding is dropped.
int64_t output_extent(int64_t input, const PoolShape& shape) {
  const int64_t room = input + 2 * shape.padding - shape.kernel;
  int64_t windows = (room + (shape.ceil ? shape.stride - 1 : 0)) / shape.stride + 1;
  if (shape.ceil && (windows - 1) * shape.stride >= input + shape.padding) --windows;
  return windows;
}

std::unique_ptr<PoolPlan> make_plan(const at::Tensor& x, const PoolShape& shape, PoolKind kind) {
  auto plan = std::make_unique<PoolPlan>();
  const int64_t height = output_extent(x.size(2), shape);
  const int64_t width = output_extent(x.size(3), shape);
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
  try {
    plan->forward = {engine(),         dnnl::prop_kind::forward_training,
                     algorithm,        plan->source,
                     plan->output,     strides,
                     kernel,           dilation,
                     before,           after,
                     user_scratchpad()};
    plan->backward = {engine(), algorithm, plan->source, plan->output,  strides,          kernel,
                      dilation, before,    after,        plan->forward, user_scratchpad()};
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented) return nullptr;
    throw;
  }
  if (is_reference(plan->forward.impl_info_str())) return nullptr;
  plan->forward_primitive = dnnl::pooling_forward(plan->forward);
  plan->backward_primitive = dnnl::pooling_backward(plan->backward);
  return plan;
}

/// The calling thread's plan for this input. Plans are never destroyed, because backward passes point to
/// them.
const PoolPlan* plan_for(const at::Tensor& x, const PoolShape& shape, PoolKind kind) {
  thread_local std::map<std::vector<int64_t>, std::unique_ptr<PoolPlan>> plans;
  std::vector<int64_t> key = x.sizes().vec();
  key.insert(key.end(), {static_cast<int64_t>(x.scalar_type()), shape.kernel, shape.stride, shape.padding,
                         int64_t{shape.ceil}, static_cast<int64_t>(kind)});
  const auto [found, is_new] = plans.try_emplace(std::move(key));
  if (is_new) found->second = make_plan(x, shape, kind);
  return found->second.get();
}

class PoolFunction : public torch::autograd::Function<PoolFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const PoolPlan* plan) {
    at::Tensor y = at::empty(plan->output_sizes, x.options());
    Arguments arguments{{DNNL_ARG_SRC, memory_of(plan->source, x)},
                        {DNNL_ARG_DST, memory_of(plan->output, y)}};
    const memory::desc workspace_desc = plan->forward.workspace_desc();
    at::Tensor workspace;
    if (workspace_desc.get_size() > 0) {
      workspace = allocate(workspace_desc);
      arguments.emplace(DNNL_ARG_WORKSPACE, memory_of(workspace_desc, workspace));
    }
    run(plan->forward_primitive, plan->forward.scratchpad_desc(), std::move(arguments));
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
      arguments.emplace(DNNL_ARG_WORKSPACE, memory_of(plan->forward.workspace_desc(), workspace));
    }
    run(plan->backward_primitive, plan->backward.scratchpad_desc(), std::move(arguments));
    return {of_x, at::Tensor()};
  }
};

}  // namespace

at::Tensor fused_pool(const at::Tensor& x, const PoolShape& shape, PoolKind kind) {
  const PoolPlan* plan = plan_for(x, shape, kind);
  return plan == nullptr ? at::Tensor() : PoolFunction::apply(x, plan);
}

}  // namespace lockstep::kernels::onednn
