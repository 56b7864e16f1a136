#pragma once

#include <map>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/conv_shape.h"
#include "lockstep/replica/gradient_place.h"

namespace lockstep::kernels::onednn {

struct ConvPlan;

/// One convolution of a network, with bias and ReLU where it has them, on oneDNN, or by own kernels where
/// they are faster (winograd_conv.h). Its primitives are made once per shape of the input and kept. Not
/// thread safe: a replica belongs to one thread.
class FusedConv {
 public:
  FusedConv(const ConvShape& shape, bool relu);
  ~FusedConv();
  FusedConv(const FusedConv&) = delete;
  FusedConv& operator=(const FusedConv&) = delete;

  /// x: an image of either kind. Returns a blocked one, or an undefined tensor where this convolution is not
  /// covered: channels that do not fill blocks (but for images of at most three channels, whose gradient is
  /// not wanted), groups that do not, or a type that oneDNN has no fast code for on this processor. Computes
  /// in bf16 where autocast is on. `bias`: may be undefined. `place`: where the weight's gradient may be
  /// left.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const replica::GradientPlace& place);

 private:
  /// Null: not covered.
  const ConvPlan* plan_for(const at::Tensor& x, const at::Tensor& weight, bool with_bias);

  ConvShape shape_;
  bool relu_;
  /// By batch, height, width and type of the input. None is ever dropped: backward passes point to them.
  std::map<std::vector<int64_t>, std::unique_ptr<ConvPlan>> plans_;
};

}  // namespace lockstep::kernels::onednn
