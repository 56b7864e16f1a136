#include <vector>

#include <fmt/format.h>

#include <ATen/ops/constant_pad_nd.h>

#include "lockstep/kernels/conv_bn.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/models/networks.h"

namespace lockstep::models {
namespace {

using kernels::Context;
using kernels::ConvBnAddRelu;
using kernels::ConvBnRelu;
using kernels::ConvShape;
using kernels::Fork;
using replica::Parameters;

constexpr int kStages = 3;
constexpr int64_t kFirstChannels = 16;
constexpr int64_t kLastChannels = kFirstChannels << (kStages - 1);

ConvShape conv3x3(int64_t in_channels, int64_t out_channels, int64_t stride = 1) {
  return {
      .in_channels = in_channels, .out_channels = out_channels, .kernel = 3, .stride = stride, .padding = 1};
}

class CifarBlock {
 public:
  CifarBlock(Parameters& parameters, const std::string& name, int64_t in_channels, int64_t out_channels)
      : new_channels_(out_channels - in_channels),
        first_(parameters, {name + ".conv1", name + ".bn1"},
               conv3x3(in_channels, out_channels, new_channels_ > 0 ? 2 : 1)),
        second_(parameters, {name + ".conv2", name + ".bn2"}, conv3x3(out_channels, out_channels)) {}

  Fork operator()(const Fork& x, const Context& context) const {
    const at::Tensor y = first_(x.path, context);
    return second_(
        y, [&] { return shortcut(x.shortcut); }, context);
  }

 private:
  /// The identity, or option A of He et al. 2015: every second pixel, and zeros for the added channels.
  at::Tensor shortcut(const at::Tensor& x) const {
    if (new_channels_ == 0) return x;
    const at::Tensor every_second =
        kernels::to_plain(x).slice(2, std::nullopt, std::nullopt, 2).slice(3, std::nullopt, std::nullopt, 2);
    return at::constant_pad_nd(every_second, {0, 0, 0, 0, new_channels_ / 2, new_channels_ / 2});
  }

  int64_t new_channels_;
  ConvBnRelu first_;
  ConvBnAddRelu second_;
};

std::vector<CifarBlock> build_cifar_blocks(Parameters& parameters, int blocks_per_stage) {
  std::vector<CifarBlock> blocks;
  int64_t channels = kFirstChannels;
  for (int stage = 0; stage < kStages; ++stage) {
    const int64_t out_channels = kFirstChannels << stage;
    for (int i = 0; i < blocks_per_stage; ++i) {
      blocks.emplace_back(parameters, fmt::format("layer{}.{}", stage + 1, i), channels, out_channels);
      channels = out_channels;
    }
  }
  return blocks;
}

class CifarResNet : public Model {
 public:
  CifarResNet(const ModelOptions& options, int blocks_per_stage)
      : Model(Parameters(options.seed, options.memory_format)),
        stem_(parameters_, {"conv1", "bn1"}, conv3x3(3, kFirstChannels)),
        blocks_(build_cifar_blocks(parameters_, blocks_per_stage)),
        fc_(parameters_, "fc", kLastChannels, kCifar10Classes) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    const at::Tensor first = stem_(images, context);
    Fork x{first, first};
    for (const CifarBlock& block : blocks_) x = block(x, context);
    return {fc_(kernels::flatten_image(avg_pool_(x.path, context)), context)};
  }

 private:
  ConvBnRelu stem_;
  std::vector<CifarBlock> blocks_;
  kernels::AdaptiveAvgPool avg_pool_{1};
  kernels::Linear fc_;
};

}  // namespace

std::unique_ptr<Model> create_resnet20(const ModelOptions& options) {
  return std::make_unique<CifarResNet>(options, 3);
}

std::unique_ptr<Model> create_resnet56(const ModelOptions& options) {
  return std::make_unique<CifarResNet>(options, 9);
}

}  // namespace lockstep::models
