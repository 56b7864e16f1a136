#pragma once

#include <string>
#include <vector>

#include "lockstep/kernels/conv_bn.h"

namespace lockstep::models {

/// One convolution of an Inception block.
struct ChainLink {
  /// Within the block; "" for a block that is one convolution.
  std::string name;
  kernels::ConvShape shape;
};

/// A convolution that leaves height and width as they are.
ChainLink same_size(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel = 1);
/// A convolution without padding.
ChainLink valid(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel,
                int64_t stride = 1);

/// Convolutions behind each other, each with batch normalisation (epsilon 1e-3) and ReLU: a branch of an
/// Inception block. Registers `block`.`link`.conv and .bn, as torchvision's BasicConv2d does.
class ConvChain {
 public:
  /// `deviation`: of the first weights, which are normal.
  ConvChain(replica::Parameters& parameters, const std::string& block, double deviation,
            const std::vector<ChainLink>& links);
  at::Tensor operator()(const at::Tensor& x, const kernels::Context& context) const;

 private:
  std::vector<kernels::ConvBnRelu> convolutions_;
};

}  // namespace lockstep::models
