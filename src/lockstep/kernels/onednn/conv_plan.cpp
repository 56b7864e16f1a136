#include "lockstep/kernels/onednn/conv_plan.h"

#include <string_view>
#include <vector>

#include "lockstep/kernels/image_layout.h"

namespace lockstep::kernels::onednn {
namespace {

using dnnl::algorithm;
using dnnl::memory;

memory::desc weights_desc(const ConvShape& shape, memory::data_type type) {
  const int64_t groups = shape.groups;
  const int64_t in = shape.in_channels / groups;
  const int64_t out = shape.out_channels / groups;
  if (groups == 1) {
    return {{out, in, shape.kernel.height, shape.kernel.width}, type, memory::format_tag::any};
  }
  return {{groups, out, in, shape.kernel.height, shape.kernel.width}, type, memory::format_tag::any};
}

memory::desc parameter_desc(const ConvShape& shape, const at::Tensor& weight) {
  memory::dims sizes = weight.sizes().vec();
  memory::dims strides = weight.strides().vec();
  if (shape.groups > 1) {
    sizes[0] /= shape.groups;
    sizes.insert(sizes.begin(), shape.groups);
    strides.insert(strides.begin(), sizes[1] * strides[0]);
  }
  return {sizes, memory::data_type::f32, strides};
}

int64_t output_extent(int64_t input, int64_t kernel, int64_t padding, int64_t stride) {
  return (input + 2 * padding - kernel) / stride + 1;
}

/// Whether an implementation is reference code, or computes groups as one matrix product each.
bool is_slow(const char* implementation) {
  return is_reference(implementation) ||
         std::string_view(implementation).find("gemm") != std::string_view::npos;
}

/// A convolution and the layouts that its operands come in.
struct Asked {
  ConvShape shape;
  bool relu = false;
  memory::desc x, parameter, bias, y;

  memory::dims strides() const { return {shape.stride, shape.stride}; }
  memory::dims padding() const { return {shape.padding.height, shape.padding.width}; }
};

/// Layouts of x and y in which a primitive is tried.
struct Layouts {
  memory::desc x, y;
};

memory::desc as(const memory::desc& desc, memory::format_tag tag) {
  return {desc.get_dims(), desc.get_data_type(), tag};
}

/// Returns the first primitive made by `make` that is fast code: in the given layouts and, for groups, which
/// may be narrower than a block, in the primitive's own choice and in channels last. Throws dnnl::error with
/// dnnl_unimplemented if there is none.
template <typename Make>
auto first_fast(const Asked& asked, const Make& make) {
  std::vector<Layouts> all{{asked.x, asked.y}};
  if (asked.shape.groups > 1) {
    for (const auto tag : {memory::format_tag::any, memory::format_tag::nhwc}) {
      all.push_back({as(asked.x, tag), as(asked.y, tag)});
    }
  }
  for (const Layouts& layouts : all) {
    try {
      auto found = make(layouts);
      if (!is_slow(found.impl_info_str())) return found;
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) throw;
    }
  }
  throw dnnl::error(dnnl_unimplemented, "no fast code for this convolution");
}

dnnl::convolution_forward::primitive_desc forward_of(const Asked& asked, const Layouts& layouts,
                                                     const dnnl::primitive_attr& attributes) {
  return {engine(),
          dnnl::prop_kind::forward_training,
          algorithm::convolution_direct,
          layouts.x,
          weights_desc(asked.shape, asked.x.get_data_type()),
          asked.bias,
          layouts.y,
          asked.strides(),
          asked.padding(),
          asked.padding(),
          attributes};
}

/// The forward primitive that backward primitives refer to; it must not have post-operations.
dnnl::convolution_forward::primitive_desc hint_of(const Asked& asked, const Layouts& layouts) {
  return forward_of(asked, layouts, user_scratchpad());
}

void add_forward(const Asked& asked, ConvPlan& plan) {
  dnnl::primitive_attr attributes = user_scratchpad();
  if (asked.relu) {
    dnnl::post_ops operations;
    operations.append_eltwise(algorithm::eltwise_relu, 0, 0);
    attributes.set_post_ops(operations);
  }
  plan.forward =
      first_fast(asked, [&](const Layouts& layouts) { return forward_of(asked, layouts, attributes); });
  plan.forward_x = {asked.x, plan.forward.src_desc()};
  plan.forward_weight = {asked.parameter, plan.forward.weights_desc()};
  plan.forward_y = {plan.forward.dst_desc(), asked.y};
  plan.forward_primitive = dnnl::convolution_forward(plan.forward);
}

void add_backward_data(const Asked& asked, ConvPlan& plan) {
  plan.backward_data = first_fast(asked, [&](const Layouts& layouts) {
    return dnnl::convolution_backward_data::primitive_desc(
        engine(), algorithm::convolution_direct, layouts.x,
        weights_desc(asked.shape, asked.x.get_data_type()), layouts.y, asked.strides(), asked.padding(),
        asked.padding(), hint_of(asked, layouts), user_scratchpad());
  });
  plan.backward_data_dy = {asked.y, plan.backward_data.diff_dst_desc()};
  plan.backward_data_weight = {asked.parameter, plan.backward_data.weights_desc()};
  plan.backward_data_dx = {plan.backward_data.diff_src_desc(), asked.x};
  plan.backward_data_primitive = dnnl::convolution_backward_data(plan.backward_data);
}

void add_backward_weights(const Asked& asked, ConvPlan& plan) {
  plan.backward_weights = first_fast(asked, [&](const Layouts& layouts) {
    return dnnl::convolution_backward_weights::primitive_desc(
        engine(), algorithm::convolution_direct, layouts.x, weights_desc(asked.shape, memory::data_type::f32),
        asked.bias, layouts.y, asked.strides(), asked.padding(), asked.padding(), hint_of(asked, layouts),
        user_scratchpad());
  });
  plan.backward_weights_x = {asked.x, plan.backward_weights.src_desc()};
  plan.backward_weights_dy = {asked.y, plan.backward_weights.diff_dst_desc()};
  plan.backward_weights_gradient = {plan.backward_weights.diff_weights_desc(), asked.parameter};
  plan.backward_weights_primitive = dnnl::convolution_backward_weights(plan.backward_weights);
}

void add_relu_backward(ConvPlan& plan) {
  const algorithm by_output = algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc hint(engine(), dnnl::prop_kind::forward_training, by_output,
                                                   plan.output, plan.output, 0.0F, 0.0F);
  plan.relu_backward = {engine(), by_output, plan.output, plan.output,      plan.output,
                        0.0F,     0.0F,      hint,        user_scratchpad()};
  plan.relu_backward_primitive = dnnl::eltwise_backward(plan.relu_backward);
}

}  // namespace

std::unique_ptr<ConvPlan> make_conv_plan(const ConvShape& shape, bool relu, const at::Tensor& x,
                                         const at::Tensor& weight, bool with_bias) {
  const int64_t block = channels_per_block();
  const int64_t height = output_extent(x.size(2), shape.kernel.height, shape.padding.height, shape.stride);
  const int64_t width = output_extent(x.size(3), shape.kernel.width, shape.padding.width, shape.stride);
  if (height < 1 || width < 1) return nullptr;
  auto plan = std::make_unique<ConvPlan>();
  plan->relu = relu;
  plan->output_sizes = {x.size(0), shape.out_channels / block, height, width, block};
  plan->output = {{x.size(0), shape.out_channels, height, width},
                  type_of(x.scalar_type()),
                  block == 16 ? memory::format_tag::nChw16c : memory::format_tag::nChw8c};
  if (with_bias) plan->bias = {{shape.out_channels}, memory::data_type::f32, memory::format_tag::x};
  const Asked asked{.shape = shape,
                    .relu = relu,
                    .x = image_desc(x),
                    .parameter = parameter_desc(shape, weight),
                    .bias = plan->bias,
                    .y = plan->output};
  try {
    add_forward(asked, *plan);
    // An input that is not blocked is the network's image, which needs no gradient.
    if (is_blocked(x)) add_backward_data(asked, *plan);
    add_backward_weights(asked, *plan);
    if (relu) add_relu_backward(*plan);
  } catch (const dnnl::error& error) {
    // Some types are not implemented on some processors.
    if (error.status == dnnl_unimplemented) return nullptr;
    throw;
  }
  return plan;
}

}  // namespace lockstep::kernels::onednn
