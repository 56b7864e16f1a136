#include <vector>

#include <fmt/format.h>

#include "lockstep/kernels/conv.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/linear.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/models/networks.h"

namespace lockstep::models {
namespace {

using kernels::uniform_fan_in;

// Convolutions are initialized like linear layers, as PyTorch does by default.
class Lenet5 : public Model {
 public:
  explicit Lenet5(const ModelOptions& options)
      : Model(replica::Parameters(options.seed, options.memory_format)),
        conv1_(parameters_, "conv1", {.in_channels = 1, .out_channels = 6, .kernel = 5, .padding = 2},
               uniform_fan_in(1 * 5 * 5)),
        conv2_(parameters_, "conv2", {.in_channels = 6, .out_channels = 16, .kernel = 5},
               uniform_fan_in(6 * 5 * 5)),
        pool_({.kernel = 2, .stride = 2}),
        fc1_(parameters_, "fc1", 16 * 5 * 5, 120),
        fc2_(parameters_, "fc2", 120, 84),
        fc3_(parameters_, "fc3", 84, 10) {}

  Output forward(const at::Tensor& images, const kernels::Context& context) override {
    at::Tensor x = pool_(conv1_(images, context), context);
    x = kernels::flatten_image(pool_(conv2_(x, context), context));
    return {fc3_(fc2_(fc1_(x, context), context), context)};
  }

 private:
  kernels::ConvRelu conv1_, conv2_;
  kernels::MaxPool pool_;
  kernels::LinearRelu fc1_, fc2_;
  kernels::Linear fc3_;
};

/// Values of a CIFAR-10 image.
constexpr int64_t kInputs = 3 * 32 * 32;

class Mlp : public Model {
 public:
  /// `layers`: hidden ones, of `width` values each.
  Mlp(const ModelOptions& options, int layers, int64_t width)
      : Model(replica::Parameters(options.seed, options.memory_format)),
        hidden_(build_hidden(parameters_, layers, width)),
        last_(parameters_, fmt::format("fc{}", layers + 1), width, kCifar10Classes) {}

  Output forward(const at::Tensor& images, const kernels::Context& context) override {
    at::Tensor x = images.flatten(1);
    for (const kernels::LinearRelu& layer : hidden_) x = layer(x, context);
    return {last_(x, context)};
  }

 private:
  static std::vector<kernels::LinearRelu> build_hidden(replica::Parameters& parameters, int layers,
                                                       int64_t width) {
    std::vector<kernels::LinearRelu> hidden;
    for (int i = 0; i < layers; ++i) {
      hidden.emplace_back(parameters, fmt::format("fc{}", i + 1), i == 0 ? kInputs : width, width);
    }
    return hidden;
  }

  std::vector<kernels::LinearRelu> hidden_;
  kernels::Linear last_;
};

}  // namespace

const CreateModel create_lenet5 = create<Lenet5>;
const CreateModel create_mlp = create<Mlp, 3, 512>;
const CreateModel create_trivial = create<Mlp, 1, 16>;

}  // namespace lockstep::models
