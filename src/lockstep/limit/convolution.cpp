#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/winograd.h"
#include "lockstep/limit/primitives.h"

namespace lockstep::limit {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

/// The descriptors that the three directions of a convolution share, in one layout.
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
  /// Empty if the layer has no bias.
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

/// The same convolution by Winograd's minimal filtering (kernels/winograd.h), which supports fp32 in one
/// layout.
class Winograd {
 public:
  /// Throws dnnl::error if the layer, the precision or the layout does not suit.
  Winograd(Trial& trial, const kernels::Layer& layer, const LimitOptions& options, Tag tag)
      : trial_(trial), relu_(layer.form.ending == kernels::LayerEnding::kRelu) {
    const kernels::Window& window = layer.form.window;
    const kernels::ConvShape conv{.in_channels = layer.in[1],
                                  .out_channels = layer.out[1],
                                  .kernel = {window.kernel_height, window.kernel_width},
                                  .stride = window.stride,
                                  .padding = {window.pad_height, window.pad_width},
                                  .groups = window.groups};
    const Tag own = kernels::channels_per_block() == 16 ? Tag::nChw16c : Tag::nChw8c;
    shape_ = kernels::winograd_shape(conv, layer.in[0], layer.in[2], layer.in[3]);
    if (options.bf16 || tag != own || !kernels::suits_winograd(conv, shape_))
      throw dnnl::error(dnnl_unimplemented, "not a convolution for Winograd's filtering");
    const auto fp32 = memory::data_type::f32;
    x_ = trial.operand({layer.in, fp32, own});
    y_ = trial.operand({layer.out, fp32, own});
    weight_ = trial.operand({Shape::weight_sizes(layer), fp32, Tag::ohwi});
    if (layer.form.bias) bias_ = trial.operand({{layer.out[1]}, fp32, Tag::x});
  }

  void forward() {
    add([shape = shape_, relu = relu_, x = x_, y = y_, weight = weight_, bias = bias_] {
      kernels::winograd_forward(shape, data(x), data(weight), bias ? data(bias) : nullptr, relu, data(y));
    });
  }

  void backward_data() {
    add([shape = shape_, dx = x_, dy = y_, weight = weight_] {
      kernels::winograd_backward_data(shape, data(dy), data(weight), data(dx));
    });
  }

  void backward_weights() {
    add([shape = shape_, x = x_, dy = y_, weight = weight_] {
      kernels::winograd_backward_weights(shape, data(x), data(dy), 1, false, data(weight));
    });
  }

 private:
  static float* data(const memory& operand) { return static_cast<float*>(operand.get_data_handle()); }

  void add(std::function<void()> compute) {
    trial_.add("winograd", std::move(compute),
               {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, weight_}, {DNNL_ARG_DST, y_}});
  }

  Trial& trial_;
  kernels::WinogradShape shape_;
  bool relu_;
  memory x_, y_, weight_, bias_;
};

}  // namespace

void add_convolution(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                     const LimitOptions& options) {
  const auto add = [&](Direction direction, auto prepare, void (Winograd::*filter)()) {
    const Prepare direct = [&](Trial& trial, Tag tag) {
      prepare(trial, Shape(layer, value_type(options), tag));
    };
    const Prepare filtered = [&](Trial& trial, Tag tag) { (Winograd(trial, layer, options, tag).*filter)(); };
    // Winograd's first, which is the faster one if it suits; direct trials are then given up early.
    PartLimit part =
        measure_best(Work::kConvolution, direction, layouts_or_any(), {filtered, direct}, options);
    part.multiply_adds = layer.multiply_adds();
    parts.push_back(std::move(part));
  };
  add(
      Direction::kForward, [&](Trial& trial, const Shape& shape) { prepare_forward(trial, layer, shape); },
      &Winograd::forward);
  if (layer.input_learns) add(Direction::kBackwardData, prepare_backward_data, &Winograd::backward_data);
  add(
      Direction::kBackwardWeights,
      [&](Trial& trial, const Shape& shape) { prepare_backward_weights(trial, layer, shape); },
      &Winograd::backward_weights);
}

}  // namespace lockstep::limit
