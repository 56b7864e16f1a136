#pragma once

#include <vector>

#include "lockstep/limit/trial.h"

namespace lockstep::limit {

// The parts of each kind of layer. Every function appends what it measured to `parts`.

void add_convolution(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
/// Batch normalization of the layer's output, with the addition and the ReLU that follow it.
void add_norm(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
/// The backward pass of a ReLU that is fused into the forward pass of the operation before it.
void add_relu_backward(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                       const LimitOptions& options);
void add_pool(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);
void add_response_norm(std::vector<PartLimit>& parts, const kernels::Layer& layer,
                       const LimitOptions& options);
void add_linear(std::vector<PartLimit>& parts, const kernels::Layer& layer, const LimitOptions& options);

/// The data type of images, gradients and weights.
inline dnnl::memory::data_type value_type(const LimitOptions& options) {
  return options.bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

/// Appends the layer's ReLU, if it has one and no normalization, to a primitive.
dnnl::primitive_attr ending_of(const kernels::Layer& layer);

}  // namespace lockstep::limit
