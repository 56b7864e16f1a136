#pragma once

#include <string>
#include <vector>

#include "lockstep/kernels/conv_bn.h"

namespace lockstep::models {

/// One convolution of an Inception block.
struct ChainLink {
  /// Name within the block; "" if the block is a single convolution.
  std::string name;
  kernels::ConvShape shape;
};

/// A convolution padded so that height and width stay the same.
ChainLink same_size(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel = 1);
/// A convolution without padding.
ChainLink valid(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel,
                int64_t stride = 1);

/// Normally distributed weights of a linear layer with `in` inputs, and PyTorch's default for the bias.
kernels::LayerInit linear_init(int64_t in, double deviation);

/// A branch of an Inception block: consecutive convolutions, each followed by batch normalization (epsilon
/// 1e-3) and ReLU. Registers `block`.`link`.conv and .bn, as torchvision's BasicConv2d does.
class ConvChain {
 public:
  /// `deviation`: standard deviation of the normally distributed initial weights.
  ConvChain(replica::Parameters& parameters, const std::string& block, double deviation,
            const std::vector<ChainLink>& links);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  std::vector<kernels::ConvBnRelu> convolutions_;
};

}  // namespace lockstep::models
