#include "lockstep/models/conv_chain.h"

#include <utility>

namespace lockstep::models {
namespace {

/// torchvision's BasicConv2d; all other networks use PyTorch's default of 1e-5.
constexpr double kEpsilon = 1e-3;

}  // namespace

ChainLink same_size(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel) {
  return {std::move(name),
          {.in_channels = in_channels,
           .out_channels = out_channels,
           .kernel = kernel,
           // Kernels are odd, so half of one on either side keeps the size.
           .padding = {kernel.height / 2, kernel.width / 2}}};
}

ChainLink valid(std::string name, int64_t in_channels, int64_t out_channels, kernels::Extent kernel,
                int64_t stride) {
  return {std::move(name),
          {.in_channels = in_channels, .out_channels = out_channels, .kernel = kernel, .stride = stride}};
}

kernels::LayerInit linear_init(int64_t in, double deviation) {
  return {replica::Init::normal(deviation), kernels::uniform_fan_in(in).bias};
}

ConvChain::ConvChain(replica::Parameters& parameters, const std::string& block, double deviation,
                     const std::vector<ChainLink>& links) {
  for (const auto& [link, shape] : links) {
    const std::string name = link.empty() ? block : block + "." + link;
    convolutions_.emplace_back(parameters, kernels::ConvBnNames{name + ".conv", name + ".bn"}, shape,
                               kernels::ConvBnStyle{.epsilon = kEpsilon, .weight_deviation = deviation});
  }
}

at::Tensor ConvChain::operator()(const at::Tensor& x, const kernels::Context& context) const {
  at::Tensor y = x;
  for (const kernels::ConvBnRelu& convolution : convolutions_) y = convolution(y, context);
  return y;
}

}  // namespace lockstep::models
