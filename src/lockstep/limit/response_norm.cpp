#include "lockstep/limit/primitives.h"

namespace lockstep::limit {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Tag = memory::format_tag;

// The constants of kernels::LocalResponseNorm; oneDNN divides alpha by the number of neighbors.
constexpr int64_t kNeighbors = 5;
constexpr float kAlpha = 5e-4F;
constexpr float kBeta = 0.75F;
constexpr float kOffset = 2;

dnnl::lrn_forward::primitive_desc forward_of(const memory::desc& image) {
  return {processor(),
          prop_kind::forward_training,
          algorithm::lrn_across_channels,
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

void add_response_norm(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                       const LimitOptions& options) {
  const auto image = [&](Tag tag) { return memory::desc(layer.in, value_type(options), tag); };
  const Prepare forward = [&](Trial& trial, Tag tag) {
    const auto descriptor = forward_of(image(tag));
    Trial::Operands operands{{DNNL_ARG_SRC, trial.operand(image(tag))},
                             {DNNL_ARG_DST, trial.operand(image(tag))}};
    add_workspace(trial, operands, descriptor.workspace_desc());
    trial.add(descriptor, dnnl::lrn_forward(descriptor), std::move(operands));
  };
  const Prepare backward = [&](Trial& trial, Tag tag) {
    const auto hint = forward_of(image(tag));
    const dnnl::lrn_backward::primitive_desc descriptor(processor(), algorithm::lrn_across_channels,
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
