#include <ATen/TensorOperators.h>
#include <ATen/ops/constant_pad_nd.h>

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
using kernels::ConvShape;
using kernels::LayerInit;
using replica::Init;
using replica::Parameters;

constexpr int64_t kAlexHidden = 4096;
/// Height and width of the input of the linear layers.
constexpr int64_t kAlexLeft = 6;
/// Overlapping windows (Krizhevsky et al. 2012, section 3.4).
constexpr kernels::PoolShape kPool{.kernel = 3, .stride = 2};
constexpr double kAlexDropProbability = 0.5;

/// torchvision leaves all initial values at PyTorch's default.
ConvRelu convolution(Parameters& parameters, const std::string& name, const ConvShape& shape) {
  return {parameters, name, shape, kernels::uniform_fan_in(shape.fan_in())};
}

/// Dropout comes before a linear layer, as in torchvision; in AlexNetCaffe it comes after one.
class AlexNet : public Model {
 public:
  explicit AlexNet(const ModelOptions& options)
      : Model(Parameters(options.seed, options.memory_format)),
        conv1_(convolution(parameters_, "features.0",
                           {.in_channels = 3, .out_channels = 64, .kernel = 11, .stride = 4, .padding = 2})),
        conv2_(convolution(parameters_, "features.3",
                           {.in_channels = 64, .out_channels = 192, .kernel = 5, .padding = 2})),
        conv3_(convolution(parameters_, "features.6",
                           {.in_channels = 192, .out_channels = 384, .kernel = 3, .padding = 1})),
        conv4_(convolution(parameters_, "features.8",
                           {.in_channels = 384, .out_channels = 256, .kernel = 3, .padding = 1})),
        conv5_(convolution(parameters_, "features.10",
                           {.in_channels = 256, .out_channels = 256, .kernel = 3, .padding = 1})),
        fc1_(parameters_, "classifier.1", 256 * kAlexLeft * kAlexLeft, kAlexHidden),
        fc2_(parameters_, "classifier.4", kAlexHidden, kAlexHidden),
        fc3_(parameters_, "classifier.6", kAlexHidden, kImageNetClasses) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    at::Tensor x = pool_(conv1_(images, context), context);
    x = pool_(conv2_(x, context), context);
    x = conv5_(conv4_(conv3_(x, context), context), context);
    x = kernels::flatten_image(avg_pool_(pool_(x, context), context));
    x = fc1_(dropout1_(x, context), context);
    x = fc2_(dropout2_(x, context), context);
    return {fc3_(x, context)};
  }

 private:
  ConvRelu conv1_, conv2_, conv3_, conv4_, conv5_;
  kernels::MaxPool pool_{kPool};
  kernels::AdaptiveAvgPool avg_pool_{kAlexLeft};
  kernels::Dropout dropout1_{"classifier.0", kAlexDropProbability};
  kernels::Dropout dropout2_{"classifier.3", kAlexDropProbability};
  kernels::LinearRelu fc1_, fc2_;
  kernels::Linear fc3_;
};

/// The initial values of Krizhevsky et al. 2012, section 5: biases that are not 0 give the ReLUs positive
/// inputs in the first steps.
LayerInit normal(double deviation, double bias) {
  return {Init::normal(deviation), Init::constant(bias)};
}

constexpr int64_t kNeighbors = 2;
constexpr double kBias = 2;
constexpr double kAlpha = 1e-4;
constexpr double kExponent = 0.75;

/// Sums each channel with its neighbors, as a sum of shifted copies of the image: several times faster on a
/// CPU than average pooling in three dimensions, and it keeps the memory format.
at::Tensor sum_over_neighbors(const at::Tensor& squares) {
  const int64_t channels = squares.size(1);
  const at::Tensor padded = at::constant_pad_nd(squares, {0, 0, 0, 0, kNeighbors, kNeighbors});
  at::Tensor sum = padded.narrow(1, 0, channels);
  for (int64_t shift = 1; shift <= 2 * kNeighbors; ++shift) sum = sum + padded.narrow(1, shift, channels);
  return sum;
}

/// Krizhevsky et al. 2012, section 3.3: x / (2 + 1e-4 * s)^0.75, where s is the sum of squares over the
/// channel and up to two neighbors on either side. torch.nn.LocalResponseNorm averages instead of summing, so
/// its equivalent has size 5, alpha 5e-4, beta 0.75 and k 2.
class LocalResponseNorm {
 public:
  /// `given`: [batch, channels, height, width].
  at::Tensor operator()(const at::Tensor& given, const Context& context) const {
    const at::Tensor x = kernels::to_plain(given);
    const at::Tensor base = sum_over_neighbors(x * x) * kAlpha + kBias;
    const at::Tensor divisor = base.pow(kExponent);
    if (context.cost != nullptr) {
      for (const at::Tensor& kept : {x, base, divisor}) context.cost->keep(kept);
    }
    return x / divisor;
  }
};

class AlexNetCaffe : public Model {
 public:
  explicit AlexNetCaffe(const ModelOptions& options)
      : Model(Parameters(options.seed, options.memory_format)),
        conv1_(parameters_, "conv1", {.in_channels = 3, .out_channels = 96, .kernel = 11, .stride = 4},
               normal(0.01, 0)),
        conv2_(parameters_, "conv2",
               {.in_channels = 96, .out_channels = 256, .kernel = 5, .padding = 2, .groups = 2},
               normal(0.01, 0.1)),
        conv3_(parameters_, "conv3", {.in_channels = 256, .out_channels = 384, .kernel = 3, .padding = 1},
               normal(0.01, 0)),
        conv4_(parameters_, "conv4",
               {.in_channels = 384, .out_channels = 384, .kernel = 3, .padding = 1, .groups = 2},
               normal(0.01, 0.1)),
        conv5_(parameters_, "conv5",
               {.in_channels = 384, .out_channels = 256, .kernel = 3, .padding = 1, .groups = 2},
               normal(0.01, 0)),
        fc6_(parameters_, "fc6", 256 * kAlexLeft * kAlexLeft, kAlexHidden, normal(0.005, 0.1)),
        fc7_(parameters_, "fc7", kAlexHidden, kAlexHidden, normal(0.005, 0.1)),
        fc8_(parameters_, "fc8", kAlexHidden, kImageNetClasses, normal(0.01, 0)) {}

  Output forward(const at::Tensor& images, const Context& context) override {
    // Theano-MPI pools first; the paper normalizes first, which costs more.
    at::Tensor x = norm_(pool_(conv1_(images, context), context), context);
    x = norm_(pool_(conv2_(x, context), context), context);
    x = conv5_(conv4_(conv3_(x, context), context), context);
    x = kernels::flatten_image(pool_(x, context));
    x = dropout6_(fc6_(x, context), context);
    x = dropout7_(fc7_(x, context), context);
    return {fc8_(x, context)};
  }

 private:
  ConvRelu conv1_, conv2_, conv3_, conv4_, conv5_;
  kernels::MaxPool pool_{kPool};
  LocalResponseNorm norm_;
  kernels::Dropout dropout6_{"drop6", kAlexDropProbability};
  kernels::Dropout dropout7_{"drop7", kAlexDropProbability};
  kernels::LinearRelu fc6_, fc7_;
  kernels::Linear fc8_;
};

}  // namespace

const CreateModel create_alexnet = create<AlexNet>;
const CreateModel create_alexnet_caffe = create<AlexNetCaffe>;

}  // namespace lockstep::models
