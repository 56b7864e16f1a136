#include <optional>

#include "lockstep/kernels/dropout.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/models/conv_chain.h"
#include "lockstep/models/networks.h"

namespace lockstep::models {
namespace {

using kernels::Context;
using kernels::MaxPool;
using replica::Parameters;

/// Standard deviation of all initial weights.
constexpr double kDeviation = 0.01;
constexpr double kAuxiliaryWeight = 0.3;

/// Channels of the four branches: 1x1; 1x1, then 3x3; 1x1, then 3x3 (5x5 in the paper); pooling, then 1x1.
struct Widths {
  int64_t one;
  int64_t three_reduced, three;
  int64_t five_reduced, five;
  int64_t pooled;
};

class Inception {
 public:
  Inception(Parameters& parameters, const std::string& name, int64_t in, const Widths& widths)
      : one_(parameters, name, kDeviation, {same_size("branch1", in, widths.one)}),
        three_(parameters, name, kDeviation,
               {same_size("branch2.0", in, widths.three_reduced),
                same_size("branch2.1", widths.three_reduced, widths.three, 3)}),
        five_(parameters, name, kDeviation,
              {same_size("branch3.0", in, widths.five_reduced),
               same_size("branch3.1", widths.five_reduced, widths.five, 3)}),
        pooled_(parameters, name, kDeviation, {same_size("branch4.1", in, widths.pooled)}) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    // Separate statements fix the order, which the bucket plan follows.
    const at::Tensor one = one_(x, context);
    const at::Tensor three = three_(x, context);
    const at::Tensor five = five_(x, context);
    return kernels::concatenate({one, three, five, pooled_(pool_(x, context), context)});
  }

 private:
  ConvChain one_, three_, five_;
  // Keeps the size of the image, so that the four branches can be concatenated.
  MaxPool pool_{{.kernel = 3, .stride = 1, .padding = 1, .ceil = true}};
  ConvChain pooled_;
};

/// A classifier attached to the middle of the network.
class Auxiliary {
 public:
  Auxiliary(Parameters& parameters, const std::string& name, int64_t in)
      : conv_(parameters, name, kDeviation, {same_size("conv", in, kChannels)}),
        fc1_(parameters, name + ".fc1", kChannels * kLeft * kLeft, kHidden,
             linear_init(kChannels * kLeft * kLeft, kDeviation)),
        dropout_(name + ".dropout", 0.7),
        fc2_(parameters, name + ".fc2", kHidden, kImageNetClasses, linear_init(kHidden, kDeviation)) {}

  AuxiliaryLogits operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor y = kernels::flatten_image(conv_(avg_pool_(x, context), context));
    return {fc2_(dropout_(fc1_(y, context), context), context), kAuxiliaryWeight};
  }

 private:
  static constexpr int64_t kLeft = 4;
  static constexpr int64_t kChannels = 128;
  static constexpr int64_t kHidden = 1024;

  kernels::AdaptiveAvgPool avg_pool_{kLeft};
  ConvChain conv_;
  kernels::LinearRelu fc1_;
  kernels::Dropout dropout_;
  kernels::Linear fc2_;
};

class GoogLeNet : public Model {
 public:
  GoogLeNet(const ModelOptions& options, bool auxiliary)
      : Model(Parameters(options.seed, options.memory_format)),
        conv1_(parameters_, "conv1", kDeviation,
               {{"", {.in_channels = 3, .out_channels = 64, .kernel = 7, .stride = 2, .padding = 3}}}),
        conv2_(parameters_, "conv2", kDeviation, {same_size("", 64, 64)}),
        conv3_(parameters_, "conv3", kDeviation, {same_size("", 64, 192, 3)}),
        inception3a_(parameters_, "inception3a", 192, {64, 96, 128, 16, 32, 32}),
        inception3b_(parameters_, "inception3b", 256, {128, 128, 192, 32, 96, 64}),
        inception4a_(parameters_, "inception4a", 480, {192, 96, 208, 16, 48, 64}),
        inception4b_(parameters_, "inception4b", 512, {160, 112, 224, 24, 64, 64}),
        inception4c_(parameters_, "inception4c", 512, {128, 128, 256, 24, 64, 64}),
        inception4d_(parameters_, "inception4d", 512, {112, 144, 288, 32, 64, 64}),
        inception4e_(parameters_, "inception4e", 528, {256, 160, 320, 32, 128, 128}),
        inception5a_(parameters_, "inception5a", 832, {256, 160, 320, 32, 128, 128}),
        inception5b_(parameters_, "inception5b", 832, {384, 192, 384, 48, 128, 128}),
        aux1_(auxiliary ? std::optional<Auxiliary>(std::in_place, parameters_, "aux1", 512) : std::nullopt),
        aux2_(auxiliary ? std::optional<Auxiliary>(std::in_place, parameters_, "aux2", 528) : std::nullopt),
        fc_(parameters_, "fc", 1024, kImageNetClasses, linear_init(1024, kDeviation)) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    Output output;
    const auto classify = [&](const std::optional<Auxiliary>& auxiliary, const at::Tensor& x) {
      if (auxiliary && context.training) output.auxiliary.push_back((*auxiliary)(x, context));
    };
    at::Tensor x = halve_(conv1_(images, context), context);
    x = halve_(conv3_(conv2_(x, context), context), context);
    x = halve_(inception3b_(inception3a_(x, context), context), context);
    x = inception4a_(x, context);
    // Each classifier runs right behind its input, so that its gradients become ready in torchvision's order.
    classify(aux1_, x);
    x = inception4d_(inception4c_(inception4b_(x, context), context), context);
    classify(aux2_, x);
    x = last_halve_(inception4e_(x, context), context);
    x = inception5b_(inception5a_(x, context), context);
    x = dropout_(avg_pool_(x, context).flatten(1), context);
    output.logits = fc_(x, context);
    return output;
  }

 private:
  ConvChain conv1_, conv2_, conv3_;
  MaxPool halve_{{.kernel = 3, .stride = 2, .ceil = true}};
  MaxPool last_halve_{{.kernel = 2, .stride = 2, .ceil = true}};
  Inception inception3a_, inception3b_, inception4a_, inception4b_, inception4c_, inception4d_, inception4e_;
  Inception inception5a_, inception5b_;
  std::optional<Auxiliary> aux1_;
  std::optional<Auxiliary> aux2_;
  kernels::AdaptiveAvgPool avg_pool_{1};
  kernels::Dropout dropout_{"dropout", 0.2};
  kernels::Linear fc_;
};

}  // namespace

const CreateModel create_googlenet = create<GoogLeNet, /*auxiliary=*/false>;
const CreateModel create_googlenet_aux = create<GoogLeNet, /*auxiliary=*/true>;

}  // namespace lockstep::models
