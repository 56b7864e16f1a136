#pragma once

#include <memory>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer_init.h"
#include "lockstep/kernels/shapes.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

namespace onednn {
class FusedConv;
}

/// Convolution, followed by ReLU if `relu` is set. Registers `name`.weight and, if `init` has one,
/// `name`.bias.
class Conv2d {
 public:
  Conv2d(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
         const LayerInit& init, bool relu = false);

  /// x: [batch, in_channels, height, width], plain or blocked.
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  ConvShape shape_;
  bool relu_;
  at::Tensor weight_;
  /// Undefined if there is none.
  at::Tensor bias_;
  std::shared_ptr<const replica::GradientPlace> weight_gradient_;
  std::shared_ptr<const at::Tensor> weight_copy_;
  std::shared_ptr<const replica::NarrowGradientSink> narrow_gradient_;
  std::shared_ptr<onednn::FusedConv> fused_;
};

/// Convolution, then ReLU. Registers the same parameters as Conv2d.
class ConvRelu : public Conv2d {
 public:
  ConvRelu(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
           const LayerInit& init)
      : Conv2d(parameters, name, shape, init, /*relu=*/true) {}
};

}  // namespace lockstep::kernels
