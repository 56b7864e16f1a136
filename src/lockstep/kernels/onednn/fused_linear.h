#pragma once

#include <map>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/replica/gradient_place.h"

namespace lockstep::kernels::onednn {

struct LinearPlan;

/// One fully connected layer on oneDNN. The gradient of its weight, most of what a network with such layers
/// has, is written once and in fp32, also where bf16 is computed with. Not thread safe: a replica belongs to
/// one thread.
class FusedLinear {
 public:
  FusedLinear();
  ~FusedLinear();
  FusedLinear(const FusedLinear&) = delete;
  FusedLinear& operator=(const FusedLinear&) = delete;

  /// x: [batch, in], weight: [out, in] and bias: [out] fp32. Returns [batch, out], in bf16 where autocast is
  /// on, or an undefined tensor where oneDNN has no fast code for this type on this processor. `place`: where
  /// the weight's gradient may be left.
  at::Tensor operator()(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                        const replica::GradientPlace& place);

 private:
  /// By batch and type; none is ever dropped: backward passes point to them. Null: no fast code.
  std::map<std::vector<int64_t>, std::unique_ptr<LinearPlan>> plans_;
};

}  // namespace lockstep::kernels::onednn
