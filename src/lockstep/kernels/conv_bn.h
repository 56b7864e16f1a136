#pragma once

#include <functional>
#include <optional>
#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/batch_norm.h"
#include "lockstep/kernels/context.h"
#include "lockstep/kernels/conv.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Where a convolution and the batch normalisation behind it are registered ("layer1.0.conv1",
/// "layer1.0.bn1").
struct ConvBnNames {
  std::string conv;
  std::string bn;
};

/// What differs from one family of networks to the next.
struct ConvBnStyle {
  double epsilon = 1e-5;
  /// Of the convolution's first values; without it kaiming_normal_fan_out's.
  std::optional<double> weight_deviation;
};

/// Convolution without bias, batch normalisation.
class ConvBn {
 public:
  ConvBn(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
         const ConvBnStyle& style = {});
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// And what follows.
  Fork operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const;

 private:
  Conv2d conv_;
  BatchNorm bn_;
  LayerForm form_;
};

/// Convolution without bias, batch normalisation, ReLU.
class ConvBnRelu {
 public:
  ConvBnRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
             const ConvBnStyle& style = {});
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  ConvBn conv_bn_;
  LayerForm form_;
};

/// The end of a residual block: relu(bn(conv(x)) + residual), for the next block's path and shortcut.
class ConvBnAddRelu {
 public:
  ConvBnAddRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape);
  /// `residual` gives a tensor of the output's shape, which is not changed. It is called after convolution
  /// and normalisation, so that a shortcut with layers of its own comes first in the backward pass: the order
  /// in which gradients become ready, and with it the bucket plan, is then that of torchvision's networks.
  Fork operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                  const Context& context) const;

 private:
  ConvBn conv_bn_;
  LayerForm form_;
};

}  // namespace lockstep::kernels
