// Normalizations, and the ReLUs behind them.

#include "trial.h"

namespace lockstep::limit {
namespace {

using dnnl::memory;
using dnnl::normalization_flags;
using dnnl::prop_kind;
using Tag = memory::format_tag;

constexpr float kEpsilon = 1e-5F;

/// A batch normalization, fused with `fused`, and its operands in one layout.
class Norm {
 public:
  Norm(Trial& trial, const memory::desc& image, normalization_flags fused)
      : trial_(trial),
        image_(image),
        flags_(normalization_flags::use_scale | normalization_flags::use_shift | fused),
        adds_(fused == normalization_flags::fuse_norm_add_relu),
        forward_(processor(), prop_kind::forward_training, image, image, kEpsilon, flags_),
        scale_(trial.operand(forward_.weights_desc(), true)),
        mean_(trial.operand(forward_.mean_desc())),
        variance_(trial.operand(forward_.variance_desc(), true)),
        workspace_(trial.operand(forward_.workspace_desc())) {}

  /// Returns the result.
  memory run_forward() {
    Trial::Operands operands{{DNNL_ARG_SRC, trial_.operand(image_)},
                             {DNNL_ARG_DST, trial_.operand(image_)},
                             {DNNL_ARG_SCALE, scale_},
                             {DNNL_ARG_SHIFT, trial_.operand(forward_.weights_desc())},
                             {DNNL_ARG_MEAN, mean_},
                             {DNNL_ARG_VARIANCE, variance_}};
    if (adds_) operands.emplace(DNNL_ARG_SRC_1, trial_.operand(image_));
    add_workspace(operands);
    const memory result = operands.at(DNNL_ARG_DST);
    trial_.add(forward_, dnnl::batch_normalization_forward(forward_), std::move(operands));
    return result;
  }

  void run_backward(const memory& gradient) {
    const dnnl::batch_normalization_backward::primitive_desc backward(
        processor(), prop_kind::backward, image_, image_, image_, kEpsilon, flags_, forward_);
    Trial::Operands operands{{DNNL_ARG_SRC, trial_.operand(image_)},
                             {DNNL_ARG_DIFF_DST, gradient},
                             {DNNL_ARG_DIFF_SRC, trial_.operand(image_)},
                             {DNNL_ARG_SCALE, scale_},
                             {DNNL_ARG_MEAN, mean_},
                             {DNNL_ARG_VARIANCE, variance_},
                             {DNNL_ARG_DIFF_SCALE, trial_.operand(backward.diff_weights_desc())},
                             {DNNL_ARG_DIFF_SHIFT, trial_.operand(backward.diff_weights_desc())}};
    if (adds_) operands.emplace(DNNL_ARG_DIFF_SRC_1, trial_.operand(image_));
    add_workspace(operands);
    trial_.add(backward, dnnl::batch_normalization_backward(backward), std::move(operands));
  }

 private:
  void add_workspace(Trial::Operands& operands) const {
    if (workspace_.get_desc().get_size() > 0) operands.emplace(DNNL_ARG_WORKSPACE, workspace_);
  }

  Trial& trial_;
  memory::desc image_;
  normalization_flags flags_;
  bool adds_;
  dnnl::batch_normalization_forward::primitive_desc forward_;
  memory scale_, mean_, variance_, workspace_;
};

/// Adds relu(x + residual) as one pass.
void run_add_relu(Trial& trial, const memory& x) {
  dnnl::post_ops after;
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  dnnl::primitive_attr attributes;
  attributes.set_post_ops(after);
  const memory::desc image = x.get_desc();
  const dnnl::binary::primitive_desc descriptor(processor(), dnnl::algorithm::binary_add, image, image, image,
                                                attributes);
  trial.add(descriptor, dnnl::binary(descriptor),
            {{DNNL_ARG_SRC_0, x}, {DNNL_ARG_SRC_1, trial.operand(image)}, {DNNL_ARG_DST, x}});
}

/// Adds the backward pass of a ReLU and returns the gradient of its input.
memory run_relu_backward(Trial& trial, const memory::desc& image) {
  const auto relu = dnnl::algorithm::eltwise_relu_use_dst_for_bwd;
  const dnnl::eltwise_forward::primitive_desc forward(processor(), prop_kind::forward_training, relu, image,
                                                      image, 0.F, 0.F);
  const dnnl::eltwise_backward::primitive_desc backward(processor(), relu, image, image, image, 0.F, 0.F,
                                                        forward);
  const memory gradient = trial.operand(image);
  trial.add(backward, dnnl::eltwise_backward(backward),
            {{DNNL_ARG_DST, trial.operand(image)},
             {DNNL_ARG_DIFF_DST, trial.operand(image)},
             {DNNL_ARG_DIFF_SRC, gradient}});
  return gradient;
}

/// The ways to fuse an ending. Not every processor has norm + add + relu as one primitive, so that ending is
/// also tried as separate passes.
std::vector<normalization_flags> fusions(LayerEnding ending) {
  switch (ending) {
    case LayerEnding::kNormRelu:
      return {normalization_flags::fuse_norm_relu};
    case LayerEnding::kNormAddRelu:
      return {normalization_flags::fuse_norm_add_relu, normalization_flags::none};
    default:
      return {normalization_flags::none};
  }
}

// The constants of kernels::LocalResponseNorm; oneDNN divides alpha by the number of neighbors.
constexpr int64_t kNeighbors = 5;
constexpr float kAlpha = 5e-4F;
constexpr float kBeta = 0.75F;
constexpr float kOffset = 2;

dnnl::lrn_forward::primitive_desc response_norm_of(const memory::desc& image) {
  return {processor(),
          prop_kind::forward_training,
          dnnl::algorithm::lrn_across_channels,
          image,
          image,
          kNeighbors,
          kAlpha,
          kBeta,
          kOffset};
}

void add_workspace(Trial& trial, Trial::Operands& operands, const memory::desc& workspace) {
  if (workspace.get_size() > 0) operands.emplace(DNNL_ARG_WORKSPACE, trial.operand(workspace));
}

}  // namespace

void add_norm(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  const LayerEnding ending = layer.ending;
  std::vector<Prepare> forward;
  std::vector<Prepare> backward;
  for (const normalization_flags fused : fusions(ending)) {
    const bool separate = ending == LayerEnding::kNormAddRelu && fused == normalization_flags::none;
    const auto image = [&](Tag tag) { return memory::desc(layer.out, value_type(options), tag); };
    forward.emplace_back([=](Trial& trial, Tag tag) {
      const memory result = Norm(trial, image(tag), fused).run_forward();
      if (separate) run_add_relu(trial, result);
    });
    backward.emplace_back([=](Trial& trial, Tag tag) {
      const memory gradient = separate ? run_relu_backward(trial, image(tag)) : trial.operand(image(tag));
      Norm(trial, image(tag), fused).run_backward(gradient);
    });
  }
  parts.push_back(measure_best(Work::kNorm, Direction::kForward, plain_layouts(), forward, options));
  parts.push_back(measure_best(Work::kNorm, Direction::kBackward, plain_layouts(), backward, options));
}

void add_relu_backward(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  // Elementwise, so one layout will do.
  const Tag tag = layer.out.size() == 2 ? Tag::nc : Tag::nhwc;
  const Prepare way = [&](Trial& trial, Tag own) {
    run_relu_backward(trial, memory::desc(layer.out, value_type(options), own));
  };
  parts.push_back(measure_best(Work::kRelu, Direction::kBackward, {{tag == Tag::nc ? "nc" : "nhwc", tag}},
                               {way}, options));
}

void add_response_norm(std::vector<PartLimit>& parts, const Layer& layer, const LimitOptions& options) {
  const auto image = [&](Tag tag) { return memory::desc(layer.in, value_type(options), tag); };
  const Prepare forward = [&](Trial& trial, Tag tag) {
    const auto descriptor = response_norm_of(image(tag));
    Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(image(tag))},
                             {DNNL_ARG_DST, trial.operand(image(tag))}};
    add_workspace(trial, operands, descriptor.workspace_desc());
    trial.add(descriptor, dnnl::lrn_forward(descriptor), std::move(operands));
  };
  const Prepare backward = [&](Trial& trial, Tag tag) {
    const auto hint = response_norm_of(image(tag));
    const dnnl::lrn_backward::primitive_desc descriptor(processor(), dnnl::algorithm::lrn_across_channels,
                                                        image(tag), image(tag), image(tag), kNeighbors,
                                                        kAlpha, kBeta, kOffset, hint);
    Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(image(tag))},
                             {DNNL_ARG_DIFF_DST, trial.operand(image(tag))},
                             {DNNL_ARG_DIFF_SRC, trial.operand(image(tag))}};
    add_workspace(trial, operands, hint.workspace_desc());
    trial.add(descriptor, dnnl::lrn_backward(descriptor), std::move(operands));
  };
  parts.push_back(
      measure_best(Work::kResponseNorm, Direction::kForward, plain_layouts(), {forward}, options));
  parts.push_back(
      measure_best(Work::kResponseNorm, Direction::kBackward, plain_layouts(), {backward}, options));
}

}  // namespace lockstep::limit
