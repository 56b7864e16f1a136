#pragma once

#include <optional>

#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// The first values of a layer's weight and, where it has one, bias.
struct LayerInit {
  replica::Init weight;
  /// Without it the layer has no bias.
  std::optional<replica::Init> bias;
};

/// Normal with standard deviation sqrt(2 / (kernel_area * out_channels)), no bias: He et al. 2015, equation
/// 14, which torchvision draws the convolutions of its residual networks from. Groups do not enter, as in
/// torchvision.
LayerInit kaiming_normal_fan_out(int64_t out_channels, int64_t kernel_area);

/// Weight and bias uniform in +-1/sqrt(fan_in): what PyTorch draws linear layers and convolutions from.
LayerInit uniform_fan_in(int64_t fan_in);

}  // namespace lockstep::kernels
