#include "lockstep/models/inception_v3.h"

#include <optional>

#include "lockstep/kernels/dropout.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/models/inception_blocks.h"

namespace lockstep::models {
namespace {

using kernels::Context;
using replica::Parameters;

constexpr double kInceptionAuxiliaryWeight = 0.4;

kernels::LayerInit inception_linear_init(int64_t in, double deviation) {
  return {replica::Init::normal(deviation), kernels::uniform_fan_in(in).bias};
}

/// The classifier in the middle of the network.
class AuxiliaryClassifier {
 public:
  AuxiliaryClassifier(Parameters& parameters, const std::string& name, int64_t in)
      : convolutions_(parameters, name, kInceptionDeviation,
                      {same_size("conv0", in, 128), valid("conv1", 128, 768, 5)}),
        fc_(parameters, name + ".fc", 768, kImageNetClasses, inception_linear_init(768, 0.001)) {}

  AuxiliaryLogits operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor y = convolutions_(pool_(x, context), context);
    return {fc_(kernels::flatten_image(avg_pool_(y, context)), context), kInceptionAuxiliaryWeight};
  }

 private:
  kernels::AvgPool pool_{{.kernel = 5, .stride = 3}};
  ConvChain convolutions_;
  kernels::AdaptiveAvgPool avg_pool_{1};
  kernels::Linear fc_;
};

class InceptionV3 : public Model {
 public:
  InceptionV3(const ModelOptions& options, bool auxiliary)
      : Model(Parameters(options.seed, options.memory_format)),
        conv1a_(parameters_, "Conv2d_1a_3x3", kInceptionDeviation, {valid("", 3, 32, 3, 2)}),
        conv2a_(parameters_, "Conv2d_2a_3x3", kInceptionDeviation, {valid("", 32, 32, 3)}),
        conv2b_(parameters_, "Conv2d_2b_3x3", kInceptionDeviation, {same_size("", 32, 64, 3)}),
        conv3b_(parameters_, "Conv2d_3b_1x1", kInceptionDeviation, {same_size("", 64, 80)}),
        conv4a_(parameters_, "Conv2d_4a_3x3", kInceptionDeviation, {valid("", 80, 192, 3)}),
        mixed5b_(parameters_, "Mixed_5b", 192, 32),
        mixed5c_(parameters_, "Mixed_5c", 256, 64),
        mixed5d_(parameters_, "Mixed_5d", 288, 64),
        mixed6a_(parameters_, "Mixed_6a", 288),
        mixed6b_(parameters_, "Mixed_6b", 768, 128),
        mixed6c_(parameters_, "Mixed_6c", 768, 160),
        mixed6d_(parameters_, "Mixed_6d", 768, 160),
        mixed6e_(parameters_, "Mixed_6e", 768, 192),
        auxiliary_(auxiliary
                       ? std::optional<AuxiliaryClassifier>(std::in_place, parameters_, "AuxLogits", 768)
                       : std::nullopt),
        mixed7a_(parameters_, "Mixed_7a", 768),
        mixed7b_(parameters_, "Mixed_7b", 1280),
        mixed7c_(parameters_, "Mixed_7c", 2048),
        fc_(parameters_, "fc", 2048, kImageNetClasses, inception_linear_init(2048, kInceptionDeviation)) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    Output output;
    at::Tensor x = conv2b_(conv2a_(conv1a_(images, context), context), context);
    x = conv4a_(conv3b_(halve_(x, context), context), context);
    x = mixed5b_(halve_(x, context), context);
    x = mixed6a_(mixed5d_(mixed5c_(x, context), context), context);
    x = mixed6c_(mixed6b_(x, context), context);
    x = mixed6e_(mixed6d_(x, context), context);
    if (auxiliary_ && context.training) output.auxiliary.push_back((*auxiliary_)(x, context));
    x = mixed7c_(mixed7b_(mixed7a_(x, context), context), context);
    x = dropout_(kernels::flatten_image(avg_pool_(x, context)), context);
    output.logits = fc_(x, context);
    return output;
  }

 private:
  ConvChain conv1a_;
  ConvChain conv2a_;
  ConvChain conv2b_;
  kernels::MaxPool halve_{{.kernel = 3, .stride = 2}};
  ConvChain conv3b_;
  ConvChain conv4a_;
  InceptionA mixed5b_;
  InceptionA mixed5c_;
  InceptionA mixed5d_;
  InceptionB mixed6a_;
  InceptionC mixed6b_;
  InceptionC mixed6c_;
  InceptionC mixed6d_;
  InceptionC mixed6e_;
  std::optional<AuxiliaryClassifier> auxiliary_;
  InceptionD mixed7a_;
  InceptionE mixed7b_;
  InceptionE mixed7c_;
  kernels::AdaptiveAvgPool avg_pool_{1};
  kernels::Dropout dropout_{"dropout", 0.5};
  kernels::Linear fc_;
};

}  // namespace

std::unique_ptr<Model> create_inception_v3(const ModelOptions& options) {
  return std::make_unique<InceptionV3>(options, /*auxiliary=*/false);
}

std::unique_ptr<Model> create_inception_v3_aux(const ModelOptions& options) {
  return std::make_unique<InceptionV3>(options, /*auxiliary=*/true);
}

}  // namespace lockstep::models
