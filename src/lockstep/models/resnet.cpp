#include <array>
#include <optional>
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
using kernels::ConvBn;
using kernels::ConvBnAddRelu;
using kernels::ConvBnRelu;
using kernels::ConvShape;
using kernels::Fork;
using replica::Parameters;

ConvShape conv3x3(int64_t in_channels, int64_t out_channels, int64_t stride = 1) {
  return {
      .in_channels = in_channels, .out_channels = out_channels, .kernel = 3, .stride = stride, .padding = 1};
}

kernels::ConvBnNames conv_bn_names(const std::string& block, int number) {
  return {fmt::format("{}.conv{}", block, number), fmt::format("{}.bn{}", block, number)};
}

// The networks for ImageNet.

struct ResNetShape {
  /// Residual blocks in each of the four stages.
  std::array<int, 4> blocks;
  bool bottleneck = true;
  int64_t groups = 1;
  /// Channels per group in the first stage.
  int64_t width_per_group = 64;
  bool stride_in_first_1x1 = false;
};

struct BlockShape {
  int64_t in_channels = 0;
  /// Channels of the stage: 64, 128, 256, 512.
  int64_t planes = 0;
  int64_t stride = 1;
};

/// A residual block. Its input and output are a Fork, so that the gradients of the path and of the shortcut
/// are added in the kernel that uses the sum.
class Block {
 public:
  virtual ~Block() = default;
  virtual Fork operator()(const Fork& x, const Context& context) const = 0;
};

/// The identity, or a 1x1 projection if the block changes the shape.
class Shortcut {
 public:
  Shortcut(Parameters& parameters, const std::string& name, const BlockShape& shape, int64_t out_channels) {
    if (shape.stride == 1 && shape.in_channels == out_channels) return;
    projection_.emplace(
        parameters, kernels::ConvBnNames{name + ".downsample.0", name + ".downsample.1"},
        ConvShape{.in_channels = shape.in_channels, .out_channels = out_channels, .stride = shape.stride});
  }

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    return projection_ ? (*projection_)(x, context) : x;
  }

 private:
  std::optional<ConvBn> projection_;
};

class BasicBlock : public Block {
 public:
  BasicBlock(Parameters& parameters, const std::string& name, const BlockShape& shape)
      : first_(parameters, conv_bn_names(name, 1), conv3x3(shape.in_channels, shape.planes, shape.stride)),
        second_(parameters, conv_bn_names(name, 2), conv3x3(shape.planes, shape.planes)),
        shortcut_(parameters, name, shape, shape.planes) {}

  Fork operator()(const Fork& x, const Context& context) const override {
    const at::Tensor y = first_(x.path, context);
    return second_(
        y, [&] { return shortcut_(x.shortcut, context); }, context);
  }

 private:
  ConvBnRelu first_;
  ConvBnAddRelu second_;
  Shortcut shortcut_;
};

/// Output channels of a bottleneck block, relative to the stage's `planes`.
constexpr int64_t kBottleneckExpansion = 4;

class Bottleneck : public Block {
 public:
  Bottleneck(Parameters& parameters, const std::string& name, const BlockShape& shape,
             const ResNetShape& network)
      // Channels between the 1x1 convolutions, as torchvision computes them (Xie et al. 2016, section 3).
      : Bottleneck(parameters, name, shape, network,
                   shape.planes * network.width_per_group / 64 * network.groups) {}

  Fork operator()(const Fork& x, const Context& context) const override {
    const at::Tensor y = second_(first_(x.path, context), context);
    return third_(
        y, [&] { return shortcut_(x.shortcut, context); }, context);
  }

 private:
  Bottleneck(Parameters& parameters, const std::string& name, const BlockShape& shape,
             const ResNetShape& network, int64_t width)
      : first_(parameters, conv_bn_names(name, 1),
               {.in_channels = shape.in_channels,
                .out_channels = width,
                .stride = network.stride_in_first_1x1 ? shape.stride : 1}),
        second_(parameters, conv_bn_names(name, 2),
                {.in_channels = width,
                 .out_channels = width,
                 .kernel = 3,
                 .stride = network.stride_in_first_1x1 ? 1 : shape.stride,
                 .padding = 1,
                 .groups = network.groups}),
        third_(parameters, conv_bn_names(name, 3),
               {.in_channels = width, .out_channels = shape.planes * kBottleneckExpansion}),
        shortcut_(parameters, name, shape, shape.planes * kBottleneckExpansion) {}

  ConvBnRelu first_, second_;
  ConvBnAddRelu third_;
  Shortcut shortcut_;
};

std::vector<std::unique_ptr<Block>> build_blocks(Parameters& parameters, const ResNetShape& shape) {
  std::vector<std::unique_ptr<Block>> blocks;
  int64_t channels = 64;
  for (int stage = 0; stage < 4; ++stage) {
    const int64_t planes = int64_t{64} << stage;
    for (int i = 0; i < shape.blocks[stage]; ++i) {
      const std::string name = fmt::format("layer{}.{}", stage + 1, i);
      // The first block of every stage but the first halves the image.
      const BlockShape block{channels, planes, stage > 0 && i == 0 ? 2 : 1};
      if (shape.bottleneck) {
        blocks.push_back(std::make_unique<Bottleneck>(parameters, name, block, shape));
        channels = planes * kBottleneckExpansion;
      } else {
        blocks.push_back(std::make_unique<BasicBlock>(parameters, name, block));
        channels = planes;
      }
    }
  }
  return blocks;
}

class ResNet : public Model {
 public:
  ResNet(const ModelOptions& options, const ResNetShape& shape)
      : Model(Parameters(options.seed, options.memory_format)),
        stem_(parameters_, {"conv1", "bn1"},
              {.in_channels = 3, .out_channels = 64, .kernel = 7, .stride = 2, .padding = 3}),
        max_pool_({.kernel = 3, .stride = 2, .padding = 1}),
        blocks_(build_blocks(parameters_, shape)),
        avg_pool_(1),
        fc_(parameters_, "fc", shape.bottleneck ? 512 * kBottleneckExpansion : 512, kImageNetClasses) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    // The first block's path and shortcut read the same tensor: only blocks make a Fork of two.
    const at::Tensor pooled = max_pool_(stem_(images, context), context);
    Fork x{pooled, pooled};
    for (const auto& block : blocks_) x = (*block)(x, context);
    return {fc_(kernels::flatten_image(avg_pool_(x.path, context)), context)};
  }

 private:
  ConvBnRelu stem_;
  kernels::MaxPool max_pool_;
  std::vector<std::unique_ptr<Block>> blocks_;
  kernels::AdaptiveAvgPool avg_pool_;
  kernels::Linear fc_;
};

// The networks for CIFAR-10.

constexpr int kStages = 3;
constexpr int64_t kFirstChannels = 16;
constexpr int64_t kLastChannels = kFirstChannels << (kStages - 1);

class CifarBlock {
 public:
  CifarBlock(Parameters& parameters, const std::string& name, int64_t in_channels, int64_t out_channels)
      : new_channels_(out_channels - in_channels),
        first_(parameters, conv_bn_names(name, 1),
               conv3x3(in_channels, out_channels, new_channels_ > 0 ? 2 : 1)),
        second_(parameters, conv_bn_names(name, 2), conv3x3(out_channels, out_channels)) {}

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

const CreateModel create_resnet18 = create<ResNet, ResNetShape{.blocks = {2, 2, 2, 2}, .bottleneck = false}>;
const CreateModel create_resnet34 = create<ResNet, ResNetShape{.blocks = {3, 4, 6, 3}, .bottleneck = false}>;
const CreateModel create_resnet50 = create<ResNet, ResNetShape{.blocks = {3, 4, 6, 3}}>;
const CreateModel create_resnet50_v1 =
    create<ResNet, ResNetShape{.blocks = {3, 4, 6, 3}, .stride_in_first_1x1 = true}>;
const CreateModel create_resnet101 = create<ResNet, ResNetShape{.blocks = {3, 4, 23, 3}}>;
const CreateModel create_resnet152 = create<ResNet, ResNetShape{.blocks = {3, 8, 36, 3}}>;
const CreateModel create_resnext50_32x4d =
    create<ResNet, ResNetShape{.blocks = {3, 4, 6, 3}, .groups = 32, .width_per_group = 4}>;
const CreateModel create_resnext101_32x8d =
    create<ResNet, ResNetShape{.blocks = {3, 4, 23, 3}, .groups = 32, .width_per_group = 8}>;
const CreateModel create_resnet20 = create<CifarResNet, 3>;
const CreateModel create_resnet56 = create<CifarResNet, 9>;

}  // namespace lockstep::models
