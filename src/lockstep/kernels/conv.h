#pragma once

#include <string>

#include <ATen/core/Tensor.h>

#include "lockstep/kernels/context.h"
#include "lockstep/kernels/layer_init.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::kernels {

/// Height and width; one number stands for both.
struct Extent {
  constexpr Extent(int64_t both) : height(both), width(both) {}
  constexpr Extent(int64_t height_, int64_t width_) : height(height_), width(width_) {}

  int64_t height;
  int64_t width;
};

struct ConvShape {
  int64_t in_channels = 0;
  int64_t out_channels = 0;
  Extent kernel = 1;
  int64_t stride = 1;
  Extent padding = 0;
  int64_t groups = 1;

  /// How many inputs each output sums up.
  int64_t fan_in() const { return in_channels / groups * kernel.height * kernel.width; }
};

/// Convolution. Registers `name`.weight and, where `init` has one, `name`.bias.
class Conv2d {
 public:
  Conv2d(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
         const LayerInit& init);

  /// x: [batch, in_channels, height, width].
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  ConvShape shape_;
  at::Tensor weight_;
  /// Undefined when there is none.
  at::Tensor bias_;
};

/// Convolution, then ReLU. Registers what Conv2d does.
class ConvRelu {
 public:
  ConvRelu(replica::Parameters& parameters, const std::string& name, const ConvShape& shape,
           const LayerInit& init);
  at::Tensor operator()(const at::Tensor& x, const Context& context) const;

 private:
  Conv2d conv_;
};

}  // namespace lockstep::kernels
