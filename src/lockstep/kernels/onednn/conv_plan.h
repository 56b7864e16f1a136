#pragma once

#include <memory>
#include <vector>

#include "lockstep/kernels/conv_shape.h"
#include "lockstep/kernels/onednn/engine.h"

namespace lockstep::kernels::onednn {

/// A convolution's primitives for inputs of one shape and type, and how what they read and write differs from
/// what is given: images are blocked (but for the network's own), weights as the parameter lies in memory,
/// bias and gradients of parameters fp32.
struct ConvPlan {
  bool relu = false;
  std::vector<int64_t> output_sizes;
  dnnl::memory::desc output, bias;

  dnnl::convolution_forward::primitive_desc forward;
  dnnl::convolution_forward forward_primitive;
  Reorder forward_x, forward_weight, forward_y;

  dnnl::convolution_backward_data::primitive_desc backward_data;
  dnnl::convolution_backward_data backward_data_primitive;
  Reorder backward_data_dy, backward_data_weight, backward_data_dx;

  dnnl::convolution_backward_weights::primitive_desc backward_weights;
  dnnl::convolution_backward_weights backward_weights_primitive;
  Reorder backward_weights_x, backward_weights_dy, backward_weights_gradient;

  dnnl::eltwise_backward::primitive_desc relu_backward;
  dnnl::eltwise_backward relu_backward_primitive;
};

/// x: the input as it comes, blocked, or contiguous and without a gradient. Where oneDNN has no fast code for
/// blocked images (narrow groups), its primitives choose their own layouts. Null where there is none at all.
std::unique_ptr<ConvPlan> make_conv_plan(const ConvShape& shape, bool relu, const at::Tensor& x,
                                         const at::Tensor& weight, bool with_bias);

}  // namespace lockstep::kernels::onednn
