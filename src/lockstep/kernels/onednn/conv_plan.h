#pragma once

#include <memory>
#include <vector>

#include "lockstep/kernels/onednn/engine.h"
#include "lockstep/kernels/shapes.h"

namespace lockstep::kernels::onednn {

/// The primitives of a convolution for inputs of one shape and type, with the reorders between their layouts
/// and those of the tensors:
///
///     tensor                                 reorder               layout of the primitive
///     x, y and their gradients: blocked      none, except groups   blocked
///     weight: channels last, fp32            usually               blocked pairs, fp32 or bf16
///     weight's gradient: channels last       usually               blocked, fp32
///     bias and its gradient: fp32            none                  fp32
///
/// The image that enters the network is plain, and is read as it is.
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

/// x: blocked, or contiguous and without a gradient. If oneDNN has no fast code for blocked images (narrow
/// groups), its primitives choose their own layouts. Returns null if there is no fast code at all.
std::unique_ptr<ConvPlan> make_conv_plan(const ConvShape& shape, bool relu, const at::Tensor& x,
                                         const at::Tensor& weight, bool with_bias);

}  // namespace lockstep::kernels::onednn
