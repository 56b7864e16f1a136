#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/conv.h"
#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Adds 1 to the batch counters of all normalizations of a network, in one operation: on a GPU a launch for
/// each would take longer than the additions. Call once per forward pass in training.
void count_batch(const replica::Parameters& parameters);

/// The operations that follow a normalization, in this order.
struct NormTail {
  /// Returns a tensor of the output's shape that is to be added; the tensor is not changed. Called before a
  /// fused normalization, which needs it, and after one that is not fused.
  std::function<at::Tensor()> residual;
  NormSteps steps;
};

/// Batch normalization over (batch, height, width) with momentum 0.1.
/// Registers `name`.weight (ones) and .bias (zeros), and the buffers .running_mean, .running_var and
/// .num_batches_tracked. Training normalizes by the statistics of the batch and updates the running ones (the
/// variance by its unbiased estimate); evaluation uses the running ones.
class BatchNorm {
 public:
  BatchNorm(replica::Parameters& parameters, const std::string& name, int64_t channels, double epsilon);
  Fork operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const;

 private:
  /// All fp32, [channels].
  NormLayer layer_;
};

/// Names under which a convolution and its batch normalization are registered ("layer1.0.conv1",
/// "layer1.0.bn1").
struct ConvBnNames {
  std::string conv;
  std::string bn;
};

/// Details that differ between families of networks.
struct ConvBnStyle {
  double epsilon = 1e-5;
  /// Standard deviation of the convolution's initial weights; absent: kaiming_normal_fan_out().
  std::optional<double> weight_deviation;
};

/// Convolution without bias, batch normalization.
class ConvBn {
 public:
  ConvBn(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
         const ConvBnStyle& style = {});
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;
  /// The same, followed by `tail`.
  Fork operator()(const at::Tensor& x, const NormTail& tail, const Context& context) const;

 private:
  Conv2d conv_;
  BatchNorm bn_;
};

/// Convolution without bias, batch normalization, ReLU.
class ConvBnRelu {
 public:
  ConvBnRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape,
             const ConvBnStyle& style = {})
      : conv_bn_(parameters, names, shape, style) {}
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  ConvBn conv_bn_;
};

/// The end of a residual block: relu(bn(conv(x)) + residual), for the next block's path and shortcut.
class ConvBnAddRelu {
 public:
  ConvBnAddRelu(replica::Parameters& parameters, const ConvBnNames& names, const ConvShape& shape)
      : conv_bn_(parameters, names, shape) {}
  /// `residual` returns a tensor of the output's shape, which is not changed. It is called after convolution
  /// and normalization, so that a shortcut with layers of its own comes first in the backward pass. The order
  /// in which gradients become ready, and with it the bucket plan, is then that of torchvision's networks.
  Fork operator()(const at::Tensor& x, const std::function<at::Tensor()>& residual,
                  const Context& context) const;

 private:
  ConvBn conv_bn_;
};

}  // namespace lockstep::kernels
