#include <optional>
#include <string_view>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/onednn/fused_layers.h"
#include "lockstep/kernels/winograd.h"
#include "lockstep/replica/releasable_memory.h"

namespace lockstep::kernels::onednn {

using dnnl::algorithm;
using dnnl::memory;

/// The primitives of a convolution for inputs of one shape and type, with the reorders between their layouts
/// and those of the tensors:
///
///     tensor                                 reorder               layout of the primitive
///     x, y and their gradients: blocked      none, except groups   blocked (image_layout.h)
///     weight: channels last, fp32            usually               blocked pairs, fp32 or bf16
///     weight's gradient: channels last       usually               blocked, fp32
///     bias and its gradient: fp32            none                  fp32
///
/// The image that enters the network is plain, and is read as it is: its channels behind each other, or,
/// where the output is channels-last, next to each other.
struct ConvPlan {
  bool relu = false;
  std::vector<int64_t> output_sizes;
  dnnl::memory::desc output, bias;

  Operation<dnnl::convolution_forward> forward;
  Reorder forward_x, forward_weight, forward_y;

  Operation<dnnl::convolution_backward_data> backward_data;
  Reorder backward_data_dy, backward_data_weight, backward_data_dx;

  Operation<dnnl::convolution_backward_weights> backward_weights;
  Reorder backward_weights_x, backward_weights_dy, backward_weights_gradient;
  /// The gradient of the weights as a product over all pixels, dy^T * x, where `by_product`.
  bool by_product = false;
  Operation<dnnl::matmul> weights_product;
  Reorder weights_product_gradient;

  Operation<dnnl::eltwise_backward> relu_backward;
};

namespace {

using replica::GradientPlace;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Up to this many channels, oneDNN has fast code for plain images.
constexpr int64_t kFewChannels = 3;

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
  plan.forward_x = {asked.x, plan.forward->src_desc()};
  plan.forward_weight = {asked.parameter, plan.forward->weights_desc()};
  plan.forward_y = {plan.forward->dst_desc(), asked.y};
}

void add_backward_data(const Asked& asked, ConvPlan& plan) {
  plan.backward_data = first_fast(asked, [&](const Layouts& layouts) {
    return dnnl::convolution_backward_data::primitive_desc(
        engine(), algorithm::convolution_direct, layouts.x,
        weights_desc(asked.shape, asked.x.get_data_type()), layouts.y, asked.strides(), asked.padding(),
        asked.padding(), hint_of(asked, layouts), user_scratchpad());
  });
  plan.backward_data_dy = {asked.y, plan.backward_data->diff_dst_desc()};
  plan.backward_data_weight = {asked.parameter, plan.backward_data->weights_desc()};
  plan.backward_data_dx = {plan.backward_data->diff_src_desc(), asked.x};
}

void add_backward_weights(const Asked& asked, ConvPlan& plan) {
  plan.backward_weights = first_fast(asked, [&](const Layouts& layouts) {
    return dnnl::convolution_backward_weights::primitive_desc(
        engine(), algorithm::convolution_direct, layouts.x, weights_desc(asked.shape, memory::data_type::f32),
        asked.bias, layouts.y, asked.strides(), asked.padding(), asked.padding(), hint_of(asked, layouts),
        user_scratchpad());
  });
  plan.backward_weights_x = {asked.x, plan.backward_weights->src_desc()};
  plan.backward_weights_dy = {asked.y, plan.backward_weights->diff_dst_desc()};
  plan.backward_weights_gradient = {plan.backward_weights->diff_weights_desc(), asked.parameter};
}

/// Most pixels of an image whose 1x1 convolutions in channels-last have their weights' gradient from a
/// product: 4.1 instead of 5.8 ms between 512 and 2,048 channels over 7x7 pixels, but 8.0 instead of 5.0 ms
/// between 64 and 256 over 56x56 (16 images, bf16, two cores of a Zen 4).
constexpr int64_t kPixelsOfProduct = 64;

void add_weights_product(const Asked& asked, ConvPlan& plan) {
  const ConvShape& shape = asked.shape;
  const memory::dims in = asked.x.get_dims();
  const bool fits = shape.kernel.height == 1 && shape.kernel.width == 1 && shape.stride == 1 &&
                    shape.padding.height == 0 && shape.padding.width == 0 && shape.groups == 1 &&
                    asked.bias.get_ndims() == 0 && in[2] * in[3] <= kPixelsOfProduct;
  if (!fits || asked.x.get_data_type() != memory::data_type::bf16 ||
      tag_of(at::kBFloat16) != memory::format_tag::nhwc)
    return;
  const int64_t pixels = in[0] * in[2] * in[3];
  const auto bf16 = memory::data_type::bf16;
  const memory::desc of_weight({shape.out_channels, shape.in_channels}, memory::data_type::f32,
                               memory::format_tag::ab);
  const dnnl::matmul::primitive_desc product(
      engine(), {{shape.out_channels, pixels}, bf16, memory::format_tag::ba},
      {{pixels, shape.in_channels}, bf16, memory::format_tag::ab}, of_weight, user_scratchpad());
  if (is_slow(product.impl_info_str())) return;
  plan.by_product = true;
  plan.weights_product = product;
  plan.weights_product_gradient = {of_weight, of_weight};
}

void add_relu_backward(ConvPlan& plan) {
  const algorithm by_output = algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc hint(engine(), dnnl::prop_kind::forward_training, by_output,
                                                   plan.output, plan.output, 0.0F, 0.0F);
  plan.relu_backward = dnnl::eltwise_backward::primitive_desc(
      engine(), by_output, plan.output, plan.output, plan.output, 0.0F, 0.0F, hint, user_scratchpad());
}

/// x: blocked, or contiguous and without a gradient. If oneDNN has no fast code for blocked images (narrow
/// groups), its primitives choose their own layouts. Returns null if there is no fast code at all.
std::unique_ptr<ConvPlan> make_conv_plan(const ConvShape& shape, bool relu, const at::Tensor& x,
                                         const at::Tensor& weight, bool with_bias) {
  const int64_t block = block_width(shape.out_channels, x.scalar_type());
  const int64_t height = output_extent(x.size(2), shape.kernel.height, shape.padding.height, shape.stride);
  const int64_t width = output_extent(x.size(3), shape.kernel.width, shape.padding.width, shape.stride);
  if (height < 1 || width < 1) return nullptr;
  auto plan = std::make_unique<ConvPlan>();
  plan->relu = relu;
  plan->output_sizes = {x.size(0), shape.out_channels / block, height, width, block};
  plan->output = {
      {x.size(0), shape.out_channels, height, width}, type_of(x.scalar_type()), tag_of(x.scalar_type())};
  if (with_bias) plan->bias = {{shape.out_channels}, memory::data_type::f32, memory::format_tag::x};
  const Asked asked{.shape = shape,
                    .relu = relu,
                    .x = image_desc(x),
                    .parameter = parameter_desc(shape, weight),
                    .bias = plan->bias,
                    .y = plan->output};
  add_forward(asked, *plan);
  // An input that is not blocked is the network's image, which needs no gradient.
  if (is_blocked(x)) add_backward_data(asked, *plan);
  add_backward_weights(asked, *plan);
  if (weight.is_contiguous(at::MemoryFormat::ChannelsLast)) add_weights_product(asked, *plan);
  if (relu) add_relu_backward(*plan);
  return plan;
}

class ConvFunction : public torch::autograd::Function<ConvFunction> {
 public:
  static at::Tensor forward(AutogradContext* saved, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const ConvPlan* plan,
                            const GradientPlace* place) {
    replica::uses(weight, bias.value_or(at::Tensor()));
    const at::Tensor y = at::empty(plan->output_sizes, x.options());
    const Read in(plan->forward_x, x);
    const Read weights(plan->forward_weight, weight);
    Written out(plan->forward_y, y);
    Arguments arguments{
        {DNNL_ARG_SRC, in.memory()}, {DNNL_ARG_WEIGHTS, weights.memory()}, {DNNL_ARG_DST, out.memory()}};
    if (bias) arguments.emplace(DNNL_ARG_BIAS, memory_of(plan->bias, *bias));
    plan->forward.run(std::move(arguments));
    out.finish();
    saved->save_for_backward({x, weight, plan->relu ? y : at::Tensor()});
    saved->saved_data["plan"] = reinterpret_cast<int64_t>(plan);
    saved->saved_data["place"] = reinterpret_cast<int64_t>(place);
    saved->saved_data["bias"] = bias.has_value();
    return y;
  }

  static variable_list backward(AutogradContext* saved, const variable_list& gradients) {
    const variable_list variables = saved->get_saved_variables();
    const auto& plan = *reinterpret_cast<const ConvPlan*>(saved->saved_data["plan"].toInt());
    const auto& wanted = *reinterpret_cast<const GradientPlace*>(saved->saved_data["place"].toInt());
    const at::Tensor& x = variables[0];
    const at::Tensor& weight = variables[1];
    replica::uses(weight, wanted.tensor);
    at::Tensor gradient = gradients[0].contiguous();
    if (plan.relu) gradient = through_relu(plan, gradient, variables[2]);
    at::Tensor of_x;
    if (saved->needs_input_grad(0)) {
      of_x = at::empty_like(x);
      const Read in(plan.backward_data_dy, gradient);
      const Read weights(plan.backward_data_weight, weight);
      Written out(plan.backward_data_dx, of_x);
      plan.backward_data.run({{DNNL_ARG_DIFF_DST, in.memory()},
                              {DNNL_ARG_WEIGHTS, weights.memory()},
                              {DNNL_ARG_DIFF_SRC, out.memory()}});
      out.finish();
    }
    at::Tensor of_bias;
    if (saved->saved_data["bias"].toBool()) of_bias = at::empty({weight.size(0)}, at::kFloat);
    const GradientPlace place = wanted.or_new(weight);
    write_weight_gradient(plan, x, gradient, of_bias, place);
    return {of_x, place.tensor, of_bias, at::Tensor(), at::Tensor()};
  }

 private:
  static at::Tensor through_relu(const ConvPlan& plan, const at::Tensor& gradient, const at::Tensor& y) {
    at::Tensor masked = at::empty_like(gradient);
    plan.relu_backward.run({{DNNL_ARG_DST, memory_of(plan.output, y)},
                            {DNNL_ARG_DIFF_DST, memory_of(plan.output, gradient)},
                            {DNNL_ARG_DIFF_SRC, memory_of(plan.output, masked)}});
    return masked;
  }

  static void write_weight_gradient(const ConvPlan& plan, const at::Tensor& x, const at::Tensor& gradient,
                                    const at::Tensor& of_bias, const GradientPlace& place) {
    if (plan.by_product) {
      Written out(plan.weights_product_gradient, place.tensor, place.scale, place.add);
      plan.weights_product.run({{DNNL_ARG_SRC, memory_of(plan.weights_product->src_desc(), gradient)},
                                {DNNL_ARG_WEIGHTS, memory_of(plan.weights_product->weights_desc(), x)},
                                {DNNL_ARG_DST, out.memory()}});
      return out.finish();
    }
    const Read in(plan.backward_weights_x, x);
    const Read behind(plan.backward_weights_dy, gradient);
    Written out(plan.backward_weights_gradient, place.tensor, place.scale, place.add);
    Arguments arguments{{DNNL_ARG_SRC, in.memory()},
                        {DNNL_ARG_DIFF_DST, behind.memory()},
                        {DNNL_ARG_DIFF_WEIGHTS, out.memory()}};
    if (of_bias.defined()) arguments.emplace(DNNL_ARG_DIFF_BIAS, memory_of(plan.bias, of_bias));
    plan.backward_weights.run(std::move(arguments));
    out.finish();
  }
};

}  // namespace

FusedConv::FusedConv(const ConvShape& shape, bool relu) : shape_(shape), relu_(relu) {}

FusedConv::~FusedConv() = default;

at::Tensor FusedConv::operator()(const at::Tensor& given, const at::Tensor& weight, const at::Tensor& bias,
                                 const GradientPlace& place) {
  if (!can_block(shape_.out_channels)) return {};
  const bool blocks = can_block(shape_.in_channels);
  if (!blocks && (shape_.in_channels > kFewChannels || is_blocked(given) || given.requires_grad())) return {};
  const at::ScalarType type = computing_type(given);
  const auto plain = layout_of(type) == ImageLayout::kChannelsLast ? at::MemoryFormat::ChannelsLast
                                                                   : at::MemoryFormat::Contiguous;
  const at::Tensor x = blocks ? to_blocked(given, type) : given.contiguous(plain).to(type);
  if (blocks && can_winograd(shape_, x, weight)) return winograd_conv(shape_, relu_, x, weight, bias, place);
  const ConvPlan* plan =
      plan_for(plans_, x, [&] { return make_conv_plan(shape_, relu_, x, weight, bias.defined()); });
  if (plan == nullptr) return {};
  return ConvFunction::apply(x, weight, bias.defined() ? std::optional(bias) : std::nullopt, plan, &place);
}

}  // namespace lockstep::kernels::onednn
