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
using kernels::Extent;
using replica::Parameters;

/// Standard deviation of all initial weights but those of the auxiliary classifier's last layer.
constexpr double kInceptionDeviation = 0.1;
constexpr double kInceptionAuxiliaryWeight = 0.4;

constexpr Extent kWide7{1, 7};
constexpr Extent kTall7{7, 1};
constexpr Extent kWide3{1, 3};
constexpr Extent kTall3{3, 1};

at::Tensor average(const at::Tensor& x, const Context& context) {
  static const kernels::AvgPool pool({.kernel = 3, .stride = 1, .padding = 1});
  return pool(x, context);
}

at::Tensor halve(const at::Tensor& x, const Context& context) {
  static const kernels::MaxPool pool({.kernel = 3, .stride = 2});
  return pool(x, context);
}

/// One branch of block `name`.
ConvChain branch(Parameters& parameters, const std::string& name, const std::vector<ChainLink>& links) {
  return {parameters, name, kInceptionDeviation, links};
}

// The blocks, named by torchvision's letters. In Szegedy et al. 2015, A is figure 5 (35x35 pixels), B the
// reduction to 17x17, C figure 6, D the reduction to 8x8, and E figure 7. Every forward pass computes the
// branches in separate statements: C++ leaves the order of function arguments open, and the order of the
// forward pass fixes the order in which gradients become ready, hence the bucket plan.

class InceptionA {
 public:
  InceptionA(Parameters& parameters, const std::string& name, int64_t in, int64_t pooled)
      : one_(branch(parameters, name, {same_size("branch1x1", in, 64)})),
        five_(branch(parameters, name,
                     {same_size("branch5x5_1", in, 48), same_size("branch5x5_2", 48, 64, 5)})),
        three_twice_(branch(parameters, name,
                            {same_size("branch3x3dbl_1", in, 64), same_size("branch3x3dbl_2", 64, 96, 3),
                             same_size("branch3x3dbl_3", 96, 96, 3)})),
        pooled_(branch(parameters, name, {same_size("branch_pool", in, pooled)})) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor one = one_(x, context);
    const at::Tensor five = five_(x, context);
    const at::Tensor three_twice = three_twice_(x, context);
    return kernels::concatenate({one, five, three_twice, pooled_(average(x, context), context)});
  }

 private:
  ConvChain one_, five_, three_twice_, pooled_;
};

class InceptionB {
 public:
  InceptionB(Parameters& parameters, const std::string& name, int64_t in)
      : three_(branch(parameters, name, {valid("branch3x3", in, 384, 3, 2)})),
        three_twice_(branch(parameters, name,
                            {same_size("branch3x3dbl_1", in, 64), same_size("branch3x3dbl_2", 64, 96, 3),
                             valid("branch3x3dbl_3", 96, 96, 3, 2)})) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor three = three_(x, context);
    const at::Tensor three_twice = three_twice_(x, context);
    return kernels::concatenate({three, three_twice, halve(x, context)});
  }

 private:
  ConvChain three_, three_twice_;
};

class InceptionC {
 public:
  /// `width`: channels between the 7x1 and 1x7 convolutions.
  InceptionC(Parameters& parameters, const std::string& name, int64_t in, int64_t width)
      : one_(branch(parameters, name, {same_size("branch1x1", in, 192)})),
        seven_(branch(parameters, name,
                      {same_size("branch7x7_1", in, width), same_size("branch7x7_2", width, width, kWide7),
                       same_size("branch7x7_3", width, 192, kTall7)})),
        seven_twice_(
            branch(parameters, name,
                   {same_size("branch7x7dbl_1", in, width), same_size("branch7x7dbl_2", width, width, kTall7),
                    same_size("branch7x7dbl_3", width, width, kWide7),
                    same_size("branch7x7dbl_4", width, width, kTall7),
                    same_size("branch7x7dbl_5", width, 192, kWide7)})),
        pooled_(branch(parameters, name, {same_size("branch_pool", in, 192)})) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor one = one_(x, context);
    const at::Tensor seven = seven_(x, context);
    const at::Tensor seven_twice = seven_twice_(x, context);
    return kernels::concatenate({one, seven, seven_twice, pooled_(average(x, context), context)});
  }

 private:
  ConvChain one_, seven_, seven_twice_, pooled_;
};

class InceptionD {
 public:
  InceptionD(Parameters& parameters, const std::string& name, int64_t in)
      : three_(branch(parameters, name,
                      {same_size("branch3x3_1", in, 192), valid("branch3x3_2", 192, 320, 3, 2)})),
        seven_(
            branch(parameters, name,
                   {same_size("branch7x7x3_1", in, 192), same_size("branch7x7x3_2", 192, 192, kWide7),
                    same_size("branch7x7x3_3", 192, 192, kTall7), valid("branch7x7x3_4", 192, 192, 3, 2)})) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor three = three_(x, context);
    const at::Tensor seven = seven_(x, context);
    return kernels::concatenate({three, seven, halve(x, context)});
  }

 private:
  ConvChain three_, seven_;
};

class InceptionE {
 public:
  InceptionE(Parameters& parameters, const std::string& name, int64_t in)
      : one_(branch(parameters, name, {same_size("branch1x1", in, 320)})),
        three_(branch(parameters, name, {same_size("branch3x3_1", in, 384)})),
        three_wide_(branch(parameters, name, {same_size("branch3x3_2a", 384, 384, kWide3)})),
        three_tall_(branch(parameters, name, {same_size("branch3x3_2b", 384, 384, kTall3)})),
        three_twice_(
            branch(parameters, name,
                   {same_size("branch3x3dbl_1", in, 448), same_size("branch3x3dbl_2", 448, 384, 3)})),
        three_twice_wide_(branch(parameters, name, {same_size("branch3x3dbl_3a", 384, 384, kWide3)})),
        three_twice_tall_(branch(parameters, name, {same_size("branch3x3dbl_3b", 384, 384, kTall3)})),
        pooled_(branch(parameters, name, {same_size("branch_pool", in, 192)})) {}

  at::Tensor operator()(const at::Tensor& x, const Context& context) const {
    const at::Tensor one = one_(x, context);
    at::Tensor split = three_(x, context);
    const at::Tensor three_wide = three_wide_(split, context);
    // torchvision concatenates pairs first, then everything. The intermediate results are kept for the
    // backward pass, so the same memory is needed here.
    const at::Tensor three = kernels::concatenate({three_wide, three_tall_(split, context)});
    split = three_twice_(x, context);
    const at::Tensor three_twice_wide = three_twice_wide_(split, context);
    const at::Tensor three_twice =
        kernels::concatenate({three_twice_wide, three_twice_tall_(split, context)});
    return kernels::concatenate({one, three, three_twice, pooled_(average(x, context), context)});
  }

 private:
  ConvChain one_, three_, three_wide_, three_tall_, three_twice_, three_twice_wide_, three_twice_tall_;
  ConvChain pooled_;
};

/// The classifier in the middle of the network.
class AuxiliaryClassifier {
 public:
  AuxiliaryClassifier(Parameters& parameters, const std::string& name, int64_t in)
      : convolutions_(parameters, name, kInceptionDeviation,
                      {same_size("conv0", in, 128), valid("conv1", 128, 768, 5)}),
        fc_(parameters, name + ".fc", 768, kImageNetClasses, linear_init(768, 0.001)) {}

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
        fc_(parameters_, "fc", 2048, kImageNetClasses, linear_init(2048, kInceptionDeviation)) {}

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
  ConvChain conv1a_, conv2a_, conv2b_;
  kernels::MaxPool halve_{{.kernel = 3, .stride = 2}};
  ConvChain conv3b_, conv4a_;
  InceptionA mixed5b_, mixed5c_, mixed5d_;
  InceptionB mixed6a_;
  InceptionC mixed6b_, mixed6c_, mixed6d_, mixed6e_;
  std::optional<AuxiliaryClassifier> auxiliary_;
  InceptionD mixed7a_;
  InceptionE mixed7b_, mixed7c_;
  kernels::AdaptiveAvgPool avg_pool_{1};
  kernels::Dropout dropout_{"dropout", 0.5};
  kernels::Linear fc_;
};

}  // namespace

const CreateModel create_inception_v3 = create<InceptionV3, /*auxiliary=*/false>;
const CreateModel create_inception_v3_aux = create<InceptionV3, /*auxiliary=*/true>;

}  // namespace lockstep::models
