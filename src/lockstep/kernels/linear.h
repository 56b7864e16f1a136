#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer_init.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

namespace onednn {
class FusedLinear;
}

/// Fully connected layer, x W^T + b, followed by ReLU if `relu` is set. Initial values are uniform in
/// +-1/sqrt(in) by default. Registers `name`.weight and `name`.bias; `init` must have both.
class Linear {
 public:
  Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
      : Linear(parameters, name, in, out, uniform_fan_in(in)) {}
  Linear(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out,
         const LayerInit& init, bool relu = false);
  /// x: [batch, in].
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  int64_t in_;
  bool relu_;
  at::Tensor weight_, bias_;
  std::shared_ptr<const replica::GradientPlace> weight_gradient_;
  std::shared_ptr<const at::Tensor> weight_copy_;
  std::shared_ptr<const replica::NarrowGradientSink> narrow_gradient_;
  std::shared_ptr<onednn::FusedLinear> fused_;
};

/// Fully connected layer, then ReLU. Registers the same parameters as Linear.
class LinearRelu : public Linear {
 public:
  LinearRelu(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out)
      : LinearRelu(parameters, name, in, out, uniform_fan_in(in)) {}
  LinearRelu(replica::Parameters& parameters, const std::string& name, int64_t in, int64_t out,
             const LayerInit& init)
      : Linear(parameters, name, in, out, init, /*relu=*/true) {}
};

}  // namespace lockstep::kernels
