#include "lockstep/limit/primitives.h"

namespace lockstep::limit {
namespace {

using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

struct LinearShape {
  LinearShape(const kernels::Layer& layer, memory::data_type type, Tag tag)
      : in(layer.in, type, tag),
        out(layer.out, type, tag),
        weights({layer.out[1], layer.in[1]}, type, tag),
        bias({layer.out[1]}, memory::data_type::f32, Tag::x) {}

  dnnl::inner_product_forward::primitive_desc forward(const dnnl::primitive_attr& ending = {}) const {
    return {processor(), prop_kind::forward_training, in, weights, bias, out, ending};
  }

  memory::desc in, out, weights, bias;
};

void prepare_linear_forward(Trial& trial, const kernels::Layer& layer, const LinearShape& shape) {
  const auto descriptor = shape.forward(ending_of(layer));
  trial.add(descriptor, dnnl::inner_product_forward(descriptor),
            {{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
             {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
             {DNNL_ARG_BIAS, trial.operand(descriptor.bias_desc())},
             {DNNL_ARG_DST, trial.operand(descriptor.dst_desc())}});
}

void prepare_linear_backward_data(Trial& trial, const LinearShape& shape) {
  const dnnl::inner_product_backward_data::primitive_desc descriptor(processor(), shape.in, shape.weights,
                                                                     shape.out, shape.forward());
  trial.add(descriptor, dnnl::inner_product_backward_data(descriptor),
            {{DNNL_ARG_DIFF_SRC, trial.operand(descriptor.diff_src_desc())},
             {DNNL_ARG_WEIGHTS, trial.operand(descriptor.weights_desc())},
             {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}});
}

void prepare_linear_backward_weights(Trial& trial, const LinearShape& shape) {
  const dnnl::inner_product_backward_weights::primitive_desc descriptor(
      processor(), shape.in, shape.weights, shape.bias, shape.out, shape.forward());
  trial.add(descriptor, dnnl::inner_product_backward_weights(descriptor),
            {{DNNL_ARG_SRC, trial.operand(descriptor.src_desc())},
             {DNNL_ARG_DIFF_WEIGHTS, trial.operand(descriptor.diff_weights_desc())},
             {DNNL_ARG_DIFF_BIAS, trial.operand(descriptor.diff_bias_desc())},
             {DNNL_ARG_DIFF_DST, trial.operand(descriptor.diff_dst_desc())}});
}

}  // namespace

void add_linear(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options) {
  const auto add = [&](Direction direction, auto prepare) {
    const Prepare way = [&](Trial& trial, Tag tag) {
      prepare(trial, LinearShape(layer, value_type(options), tag));
    };
    PartLimit part = measure_best(Work::kLinear, direction, matrix_layouts(), {way}, options);
    part.multiply_adds = layer.multiply_adds();
    parts.push_back(std::move(part));
  };
  add(Direction::kForward,
      [&](Trial& trial, const LinearShape& shape) { prepare_linear_forward(trial, layer, shape); });
  if (layer.input_learns) add(Direction::kBackwardData, prepare_linear_backward_data);
  add(Direction::kBackwardWeights, prepare_linear_backward_weights);
}

}  // namespace lockstep::limit
