#pragma once

#include <vector>

#include "lockstep/limit/layer_parts.h"
#include "lockstep/limit/trial.h"

namespace lockstep::limit {

// What the kinds of layers are made of. Each adds its parts to `parts`.

void add_convolution(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
/// Batch normalisation of the layer's output, with what follows it.
void add_norm(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
/// The backward pass of a ReLU that is part of the forward pass of what is before it.
void add_relu_backward(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                       const LimitOptions& options);
void add_pool(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
void add_response_norm(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                       const LimitOptions& options);
void add_linear(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);

/// Of images, gradients and weights.
inline dnnl::memory::data_type value_type(const LimitOptions& options) {
  return options.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// ReLU on what the primitive computes, where the layer has one there.
dnnl::primitive_attr ending_of(const kernels::Layer& layer);

}  // namespace lockstep::limit
