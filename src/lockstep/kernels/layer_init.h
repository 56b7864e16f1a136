#pragma once

#include <cmath>
#include <cstdint>
#include <optional>

#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Initial values of a layer's weight and bias.
struct LayerInit {
  replica::Init weight;
  /// Absent: the layer has no bias.
  std::optional<replica::Init> bias;
};

/// Normal with standard deviation sqrt(2 / (kernel_area * out_channels)), no bias: He et al. 2015, equation
/// 14, torchvision's choice for the convolutions of its residual networks. Groups are ignored, as in
/// torchvision.
inline LayerInit kaiming_normal_fan_out(int64_t out_channels, int64_t kernel_area) {
  const auto fan_out = static_cast<double>(kernel_area * out_channels);
  return {replica::Init::normal(std::sqrt(2.0 / fan_out)), std::nullopt};
}

/// Weight and bias uniform in +-1/sqrt(fan_in): PyTorch's default for linear layers and convolutions.
inline LayerInit uniform_fan_in(int64_t fan_in) {
  const auto init = replica::Init::uniform(1.0 / std::sqrt(static_cast<double>(fan_in)));
  return {init, init};
}

}  // namespace lockstep::kernels
