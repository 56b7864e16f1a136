#include "lockstep/limit/primitives.h"

namespace lockstep::limit {

using kernels::LayerEnding;
using kernels::LayerKind;

dnnl::primitive_attr ending_of(const kernels::Layer& layer) {
  dnnl::primitive_attr attributes;
  if (layer.form.ending != LayerEnding::kRelu) return attributes;
  dnnl::post_ops after;
  after.append_eltwise(dnnl::algorithm::eltwise_relu, 0, 0);
  attributes.set_post_ops(after);
  return attributes;
}

std::vector<PartLimit> measure_parts(const kernels::Layer& layer, const LimitOptions& options) {
  std::vector<PartLimit> parts;
  switch (layer.form.kind) {
    case LayerKind::kConvolution:
      add_convolution(parts, layer, options);
      break;
    case LayerKind::kLinear:
      add_linear(parts, layer, options);
      break;
    case LayerKind::kMaxPool:
    case LayerKind::kAvgPool:
      add_pool(parts, layer, options);
      break;
    case LayerKind::kResponseNorm:
      add_response_norm(parts, layer, options);
      break;
  }
  // A ReLU without normalization is fused into the forward primitive (ending_of()); its backward pass is
  // separate.
  if (kernels::has_norm(layer.form.ending)) add_norm(parts, layer, options);
  if (layer.form.ending == LayerEnding::kRelu) add_relu_backward(parts, layer, options);
  return parts;
}

}  // namespace lockstep::limit
