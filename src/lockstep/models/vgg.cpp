#include <array>
#include <vector>

#include <fmt/format.h>

#include "lockstep/kernels/conv.h"
#include "lockstep/kernels/dropout.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/models/networks.h"

namespace lockstep::models {
namespace {

using kernels::Context;
using kernels::ConvRelu;
using kernels::LayerInit;
using replica::Init;
using replica::Parameters;

/// Number of convolutions before each of the five pooling layers.
using Depths = std::array<int, 5>;
using Stage = std::vector<ConvRelu>;

constexpr std::array<int64_t, 5> kWidths{64, 128, 256, 512, 512};
constexpr int64_t kVggHidden = 4096;
/// Height and width of the input of the linear layers.
constexpr int64_t kVggLeft = 7;
constexpr double kVggDropProbability = 0.5;

/// torchvision's values: its convolutions have a bias, unlike those of its residual networks.
LayerInit conv_init(int64_t out_channels) {
  return {kernels::kaiming_normal_fan_out(out_channels, 3 * 3).weight, Init::constant(0)};
}

LayerInit vgg_linear_init() {
  return {Init::normal(0.01), Init::constant(0)};
}

/// torchvision numbers convolutions, ReLUs and pooling layers in one sequence: a convolution and its ReLU
/// take two numbers, the pooling layer at the end of a stage takes one.
std::vector<Stage> build_stages(Parameters& parameters, const Depths& depths) {
  std::vector<Stage> stages;
  int64_t in_channels = 3;
  int number = 0;
  for (size_t i = 0; i < depths.size(); ++i) {
    Stage& stage = stages.emplace_back();
    for (int depth = 0; depth < depths[i]; ++depth) {
      stage.emplace_back(
          parameters, fmt::format("features.{}", number),
          kernels::ConvShape{
              .in_channels = in_channels, .out_channels = kWidths[i], .kernel = 3, .padding = 1},
          conv_init(kWidths[i]));
      in_channels = kWidths[i];
      number += 2;
    }
    ++number;
  }
  return stages;
}

class Vgg : public Model {
 public:
  Vgg(const ModelOptions& options, const Depths& depths)
      : Model(Parameters(options.seed, options.memory_format)),
        stages_(build_stages(parameters_, depths)),
        fc1_(parameters_, "classifier.0", kWidths.back() * kVggLeft * kVggLeft, kVggHidden,
             vgg_linear_init()),
        fc2_(parameters_, "classifier.3", kVggHidden, kVggHidden, vgg_linear_init()),
        fc3_(parameters_, "classifier.6", kVggHidden, kImageNetClasses, vgg_linear_init()) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    at::Tensor x = images;
    for (const Stage& stage : stages_) {
      for (const ConvRelu& convolution : stage) x = convolution(x, context);
      x = pool_(x, context);
    }
    x = kernels::flatten_image(avg_pool_(x, context));
    x = dropout1_(fc1_(x, context), context);
    x = dropout2_(fc2_(x, context), context);
    return {fc3_(x, context)};
  }

 private:
  std::vector<Stage> stages_;
  kernels::MaxPool pool_{{.kernel = 2, .stride = 2}};
  // Leaves an image of the published size unchanged.
  kernels::AdaptiveAvgPool avg_pool_{kVggLeft};
  kernels::Dropout dropout1_{"classifier.2", kVggDropProbability};
  kernels::Dropout dropout2_{"classifier.5", kVggDropProbability};
  kernels::LinearRelu fc1_, fc2_;
  kernels::Linear fc3_;
};

}  // namespace

const CreateModel create_vgg11 = create<Vgg, Depths{1, 1, 2, 2, 2}>;
const CreateModel create_vgg16 = create<Vgg, Depths{2, 2, 3, 3, 3}>;
const CreateModel create_vgg19 = create<Vgg, Depths{2, 2, 4, 4, 4}>;

}  // namespace lockstep::models
