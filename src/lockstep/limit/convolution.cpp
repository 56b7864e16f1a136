#include "lockstep/limit/primitives.h"

namespace lockstep::limit {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

/// What the three directions of a convolution have in common, in one layout.
struct Shape {
  Shape(const kernels::Layer& layer, memory::data_type type, Tag tag)
      : in(layer.in, type, tag), out(layer.out, type, tag), weights(weight_sizes(layer), type, Tag::any) {
    const kernels::Window& window = layer.form.window;
    if (layer.form.bias) bias = memory::desc({layer.out[1]}, memory::data_type::f32, Tag::x);
    strides = {window.stride, window.stride};
    padding = {window.pad_height, window.pad_width};
  }

  static memory::dims weight_sizes(const kernels::Layer& layer) {
    const kernels::Window& window = layer.form.window;
    const int64_t groups = window.groups;
    memory::dims sizes{layer.out[1] / groups, layer.in[1] / groups, window.kernel_height,
                       window.kernel_width};
    if (groups > 1) sizes.insert(sizes.begin(), groups);
    return sizes;
  }

  dnnl::convolution_forward::primitive_desc forward(const dnnl::primitive_attr& ending = {}) const {
    return {processor(),
            prop_kind::forward_training,
            algorithm::convolution_direct,
            in,
            weights,
            bias,
            out,
            strides,
            padding,
            padding,
            ending};
  }

  memory::desc in, out, weights;
  /// Empty without one.
  memory::desc bias;
  memory::dims strides, padding;
};

void prepare_forward(Trial& trial, const kernels::Layer& layer, const Shape& shape) {
  const auto descriptor = shape.forward(ending_of(layer));
  Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
                           {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
                           {DNNL_ARG_DST, trial.operand(descriptor.dst_desc())}};
  if (layer.form.bias) operands.emplace(DNNL_ARG_BIAS, trial.operand(descriptor.bias_desc()));
  trial.add(descriptor, dnnl::convolution_forward(descriptor), std::move(operands));
}

void prepare_backward_data(Trial& trial, const Shape& shape) {
  const dnnl::convolution_backward_data::primitive_desc descriptor(
      processor(), algorithm::convolution_direct, shape.in, shape.weights, shape.out, shape.strides,
      shape.padding, shape.padding, shape.forward());
  trial.add(descriptor, dnnl::convolution_backward_data(descriptor),
            {{DNNL_ARG_DIFF_SRC, trial.operand(descriptor.diff_src_desc())},
             {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
             {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}});
}

void prepare_backward_weights(Trial& trial, const kernels::Layer& layer, const Shape& shape) {
  const dnnl::convolution_backward_weights::primitive_desc descriptor(
      processor(), algorithm::convolution_direct, shape.in, shape.weights, shape.bias, shape.out,
      shape.strides, shape.padding, shape.padding, shape.forward());
  Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
                           {DNNL_ARG_DIFF_WEIGHTS, trial.operand(descriptor.diff_weights_desc())},
                           {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}};
  if (layer.form.bias) operands.emplace(DNNL_ARG_DIFF_BIAS, trial.operand(descriptor.diff_bias_desc()));
  trial.add(descriptor, dnnl::convolution_backward_weights(descriptor), std::move(operands));
}

}  // namespace

void add_convolution(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                     const LimitOptions& options) {
  const auto add = [&](Direction direction, auto prepare) {
    const Prepare way = [&](Trial& trial, Tag tag) {
      prepare(trial, Shape(layer, value_type(options), tag));
    };
    PartLimit part = measure_best(Work::kConvolution, direction, layouts_or_any(), {way}, options);
    part.multiply_adds = layer.multiply_adds();
    parts.push_back(std::move(part));
  };
  add(Direction::kForward, [&](Trial& trial, const Shape& shape) { prepare_forward(trial, layer, shape); });
  if (layer.input_learns) add(Direction::kBackwardData, prepare_backward_data);
  add(Direction::kBackwardWeights,
      [&](Trial& trial, const Shape& shape) { prepare_backward_weights(trial, layer, shape); });
}

}  // namespace lockstep::limit
