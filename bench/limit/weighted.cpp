// Layers with weights: oneDNN has three primitives for each, with the same operands for a convolution as for
// a linear layer (an inner product):
//
//     forward             x, weights, [bias]  ->  y, with the ReLU that follows
//     backward data       dy, weights         ->  dx
//     backward weights    x, dy               ->  dw, [db]

#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/winograd.h"

#include "trial.h"

namespace lockstep::limit {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

/// The descriptors of a convolution's three directions, in one layout.
struct ConvolutionShape {
  using Forward = dnnl::convolution_forward;
  using BackwardData = dnnl::convolution_backward_data;
  using BackwardWeights = dnnl::convolution_backward_weights;

  ConvolutionShape(const Layer& layer, memory::data_type type, Tag tag)
      : in(layer.in, type, tag), out(layer.out, type, tag), weights(weight_sizes(layer), type, Tag::any) {
    const Window& window = layer.window;
    if (layer.bias) bias = memory::desc({layer.out[1]}, memory::data_type::f32, Tag::x);
    strides = {window.stride, window.stride};
    padding = {window.pad_height, window.pad_width};
  }

  static memory::dims weight_sizes(const Layer& layer) {
    const Window& window = layer.window;
    const int64_t groups = window.groups;
    memory::dims sizes{layer.out[1] / groups, layer.in[1] / groups, window.kernel_height,
                       window.kernel_width};
    if (groups > 1) sizes.insert(sizes.begin(), groups);
    return sizes;
  }

  Forward::primitive_desc forward(const dnnl::primitive_attr& ending = {}) const {
    return {
        processor(), prop_kind::forward_training, kDirect, in, weights, bias, out, strides, padding, padding,
        ending};
  }
  BackwardData::primitive_desc backward_data() const {
    return {processor(), kDirect, in, weights, out, strides, padding, padding, forward()};
  }
  BackwardWeights::primitive_desc backward_weights() const {
    return {processor(), kDirect, in, weights, bias, out, strides, padding, padding, forward()};
  }

  static constexpr algorithm kDirect = algorithm::convolution_direct;
  memory::desc in, out, weights;
  /// Empty if the layer has no bias.
  memory::desc bias;
  memory::dims strides, padding;
};

/// The same of a linear layer, which always has a bias.
struct LinearShape {
  using Forward = dnnl::inner_product_forward;
  using BackwardData = dnnl::inner_product_backward_data;
  using BackwardWeights = dnnl::inner_product_backward_weights;

  LinearShape(const Layer& layer, memory::data_type type, Tag tag)
      : in(layer.in, type, tag),
        out(layer.out, type, tag),
        weights({layer.out[1], layer.in[1]}, type, tag),
        bias({layer.out[1]}, memory::data_type::f32, Tag::x) {}

  Forward::primitive_desc forward(const dnnl::primitive_attr& ending = {}) const {
    return {processor(), prop_kind::forward_training, in, weights, bias, out, ending};
  }
  BackwardData::primitive_desc backward_data() const { return {processor(), in, weights, out, forward()}; }
  BackwardWeights::primitive_desc backward_weights() const {
    return {processor(), in, weights, bias, out, forward()};
  }

  memory::desc in, out, weights, bias;
};

/// A way to compute one direction by oneDNN.
template <typename Shape>
Prepare direct(const Layer& layer, Direction direction, const LimitOptions& options) {
  return [&layer, direction, &options](Trial& trial, Tag tag) {
    const Shape shape(layer, value_type(options), tag);
    const bool has_bias = shape.bias.get_size() > 0;
    if (direction == Direction::kForward) {
      const auto descriptor = shape.forward(ending_of(layer));
      Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
                               {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
                               {DNNL_ARG_DST, trial.operand(descriptor.dst_desc())}};
      if (has_bias) operands.emplace(DNNL_ARG_BIAS, trial.operand(descriptor.bias_desc()));
      trial.add(descriptor, typename Shape::Forward(descriptor), std::move(operands));
    } else if (direction == Direction::kBackwardData) {
      const auto descriptor = shape.backward_data();
      trial.add(descriptor, typename Shape::BackwardData(descriptor),
                {{DNNL_ARG_DIFF_SRC, trial.operand(descriptor.diff_src_desc())},
                 {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
                 {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}});
    } else {
      const auto descriptor = shape.backward_weights();
      Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
                               {DNNL_ARG_DIFF_WEIGHTS, trial.operand(descriptor.diff_weights_desc())},
                               {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}};
      if (has_bias) operands.emplace(DNNL_ARG_DIFF_BIAS, trial.operand(descriptor.diff_bias_desc()));
      trial.add(descriptor, typename Shape::BackwardWeights(descriptor), std::move(operands));
    }
  };
}

/// Measures the three directions, each in the ways that `ways` returns for it.
template <typename Ways>
void add_directions(std::vector<PartLimit>& parts, Work work, const Layer& layer,
                    const std::vector<Layout>& layouts, const LimitOptions& options, const Ways& ways) {
  using enum Direction;
  for (const Direction direction : {kForward, kBackwardData, kBackwardWeights}) {
    if (direction == kBackwardData && !layer.input_learns) continue;
    parts.push_back(measure_best(work, direction, layouts, ways(direction), options));
    parts.back().multiply_adds = layer.multiply_adds();
  }
}

/// The same convolution by Winograd's minimal filtering (kernels/winograd.h), which supports fp32 in one
/// layout.
class Winograd {
 public:
  /// Throws dnnl::error if the layer, the precision or the layout does not suit.
  Winograd(Trial& trial, const Layer& layer, const LimitOptions& options, Tag tag)
      : trial_(trial), relu_(layer.ending == LayerEnding::kRelu) {
    const Window& window = layer.window;
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
    weight_ = trial.operand({ConvolutionShape::weight_sizes(layer), fp32, Tag::ohwi});
    if (layer.bias) bias_ = trial.operand({{layer.out[1]}, fp32, Tag::x});
  }

  void run(Direction direction) {
    if (direction == Direction::kForward) {
      add([shape = shape_, relu = relu_, x = x_, y = y_, weight = weight_, bias = bias_] {
        kernels::winograd_forward(shape, data(x), data(weight), bias ? data(bias) : nullptr, relu, data(y));
      });
    } else if (direction == Direction::kBackwardData) {
      add([shape = shape_, dx = x_, dy = y_, weight = weight_] {
        kernels::winograd_backward_data(shape, data(dy), data(weight), data(dx));
      });
    } else {
      add([shape = shape_, x = x_, dy = y_, weight = weight_] {
        kernels::winograd_backward_weights(shape, data(x), data(dy), 1, false, data(weight));
      });
    }
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

void add_convolution(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  // Winograd's first, which is the faster one if it suits; direct trials are then given up early.
  add_directions(parts, Work::kConvolution, layer, layouts_or_any(), options, [&](Direction direction) {
    const Prepare filtered = [&, direction](Trial& trial, Tag tag) {
      Winograd(trial, layer, options, tag).run(direction);
    };
    return std::vector<Prepare>{filtered, direct<ConvolutionShape>(layer, direction, options)};
  });
}

void add_linear(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  add_directions(parts, Work::kLinear, layer, matrix_layouts(), options, [&](Direction direction) {
    return std::vector<Prepare>{direct<LinearShape>(layer, direction, options)};
  });
}

}  // namespace lockstep::limit
