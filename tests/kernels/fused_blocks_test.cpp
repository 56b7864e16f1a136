// Every block computes with fused kernels what it computes with LibTorch's operations, as exactly.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/conv2d.h>
#include <ATen/ops/max_pool2d.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include "lockstep/kernels/conv_bn.h"
#include "lockstep/kernels/image_layout.h"
#include "lockstep/kernels/onednn/instruction_set.h"
#include "lockstep/kernels/pool.h"
#include "lockstep/replica/precision.h"

namespace lockstep::kernels {
namespace {

using replica::Precision;

/// Results of a block: its output, the gradients of input, residual and parameters, and buffers.
struct Made {
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;

  void add(const std::string& name, const at::Tensor& tensor) {
    names.push_back(name);
    tensors.push_back(to_plain(tensor.detach()).to(at::kDouble).contiguous());
  }
};

double error_of(const at::Tensor& found, const at::Tensor& exact) {
  return (found - exact).norm().item().toDouble() / (exact.norm().item().toDouble() + 1e-30);
}

/// fused may err as much as LibTorch's operations do, and half as much again.
void expect_as_exact(const Made& fused, const Made& aten, const Made& exact, double slack) {
  ASSERT_EQ(fused.names, exact.names);
  for (size_t i = 0; i < exact.tensors.size(); ++i) {
    ASSERT_EQ(fused.tensors[i].sizes(), exact.tensors[i].sizes()) << exact.names[i];
    EXPECT_LE(error_of(fused.tensors[i], exact.tensors[i]),
              1.5 * error_of(aten.tensors[i], exact.tensors[i]) + slack)
        << exact.names[i];
  }
}

enum class Tail { kBias, kBiasRelu, kNorm, kNormRelu, kNormAddRelu };

struct ConvCase {
  int64_t batch, height, width;
  ConvShape shape;
  Tail tail = Tail::kNormRelu;
  Precision precision = Precision::kFp32;
  /// Whether fused kernels take the convolution.
  bool covered = true;
  double mean = 0;
};

std::ostream& operator<<(std::ostream& out, const ConvCase& own) {
  return out << fmt::format(
             "{}x{}x{}x{} to {}, kernel {}x{}, stride {}, padding {}x{}, groups {}, tail {}, {}", own.batch,
             own.shape.in_channels, own.height, own.width, own.shape.out_channels, own.shape.kernel.height,
             own.shape.kernel.width, own.shape.stride, own.shape.padding.height, own.shape.padding.width,
             own.shape.groups, static_cast<int>(own.tail),
             own.precision == Precision::kFp32 ? "fp32" : "bf16");
}

/// Rounded to bf16 where that is the type to compute with, so that all begin with the same.
at::Tensor draw(at::IntArrayRef sizes, const ConvCase& own) {
  const at::Tensor drawn = at::randn(sizes).contiguous(at::MemoryFormat::ChannelsLast);
  return own.precision == Precision::kFp32 ? drawn : drawn.to(at::kBFloat16).to(at::kFloat);
}

class FusedConvBlocks : public testing::TestWithParam<ConvCase> {
 protected:
  FusedConvBlocks() {
    at::set_num_threads(1);
    at::manual_seed(11);
    const ConvCase& own = GetParam();
    x_ = draw({own.batch, own.shape.in_channels, own.height, own.width}, own) + own.mean;
    const at::Tensor shape =
        at::conv2d(x_, draw(weight_sizes(), own), {}, own.shape.stride, padding(), 1, own.shape.groups);
    residual_ = draw(shape.sizes(), own);
    gradient_ = draw(shape.sizes(), own);
    more_ = draw(shape.sizes(), own);
  }

  static std::vector<int64_t> weight_sizes() {
    const ConvShape& shape = GetParam().shape;
    return {shape.out_channels, shape.in_channels / shape.groups, shape.kernel.height, shape.kernel.width};
  }
  static std::vector<int64_t> padding() {
    return {GetParam().shape.padding.height, GetParam().shape.padding.width};
  }
  static bool has_norm() { return GetParam().tail >= Tail::kNorm; }
  static bool has_relu() { return GetParam().tail != Tail::kBias && GetParam().tail != Tail::kNorm; }
  static bool has_residual() { return GetParam().tail == Tail::kNormAddRelu; }
  /// The gradient of a network's images is not wanted.
  static bool wants_input_gradient() { return GetParam().shape.in_channels > 3; }

  replica::Parameters parameters() const { return replica::Parameters(5, at::MemoryFormat::ChannelsLast); }

  Made with(KernelChoice kernels) {
    const ConvCase& own = GetParam();
    const Context context{.kernels = kernels};
    replica::Parameters own_parameters = parameters();
    const at::Tensor x = x_.clone().set_requires_grad(wants_input_gradient());
    const at::Tensor residual = residual_.clone().set_requires_grad(true);
    at::Tensor y;
    Fork fork;
    {
      const replica::AutocastScope scope(own.precision, at::kCPU);
      const auto add = [&] { return residual; };
      const LayerInit init = uniform_fan_in(own.shape.fan_in());
      switch (own.tail) {
        case Tail::kBias:
          y = keep(Conv2d(own_parameters, "conv", own.shape, init))(x, context);
          break;
        case Tail::kBiasRelu:
          y = keep(ConvRelu(own_parameters, "conv", own.shape, init))(x, context);
          break;
        case Tail::kNorm:
          y = keep(ConvBn(own_parameters, {"conv", "bn"}, own.shape))(x, context);
          break;
        case Tail::kNormRelu:
          y = keep(ConvBnRelu(own_parameters, {"conv", "bn"}, own.shape))(x, context);
          break;
        case Tail::kNormAddRelu:
          fork = keep(ConvBnAddRelu(own_parameters, {"conv", "bn"}, own.shape))(x, add, context);
          y = fork.path;
          break;
      }
    }
    if (kernels == KernelChoice::kFused && own.covered && channels_per_block() == 16) {
      EXPECT_TRUE(is_blocked(y));
    }
    y = to_plain(y);
    if (has_residual()) {
      // Along both ways, as in the next block.
      const at::Tensor gradient = gradient_.to(y.scalar_type());
      torch::autograd::backward({y, to_plain(fork.shortcut)}, {gradient, more_.to(y.scalar_type())});
    } else {
      y.backward(gradient_.to(y.scalar_type()));
    }
    Made made;
    made.add("output", y);
    if (wants_input_gradient()) made.add("x", x.grad());
    if (has_residual()) made.add("residual", residual.grad());
    for (const auto& [name, value] : own_parameters.trainable()) made.add(name, value.grad());
    for (const auto& [name, value] : own_parameters.buffers()) made.add(name, value);
    return made;
  }

  /// The same in double precision, operation by operation.
  Made exactly() {
    const ConvCase& own = GetParam();
    replica::Parameters own_parameters = parameters();
    if (has_norm()) {
      ConvBn(own_parameters, {"conv", "bn"}, own.shape);
    } else {
      Conv2d(own_parameters, "conv", own.shape, uniform_fan_in(own.shape.fan_in()));
    }
    std::vector<at::Tensor> leaves;
    for (const auto& [name, value] : own_parameters.trainable()) {
      leaves.push_back(value.detach().to(at::kDouble).set_requires_grad(true));
    }
    const at::Tensor x = x_.to(at::kDouble).set_requires_grad(true);
    const at::Tensor residual = residual_.to(at::kDouble).set_requires_grad(true);
    std::vector<at::Tensor> buffers;
    for (const auto& [name, value] : own_parameters.buffers()) {
      buffers.push_back(value.is_floating_point() ? value.to(at::kDouble) : value + 1);
    }
    at::Tensor y = at::conv2d(x, leaves[0], has_norm() ? at::Tensor() : leaves[1], own.shape.stride,
                              padding(), 1, own.shape.groups);
    if (has_norm())
      y = at::batch_norm(y, leaves[1], leaves[2], buffers[0], buffers[1], true, 0.1, 1e-5, true);
    if (has_residual()) y = y + residual;
    if (has_relu()) y = y.relu();
    y.backward((has_residual() ? gradient_ + more_ : gradient_).to(at::kDouble));
    Made made;
    made.add("output", y);
    if (wants_input_gradient()) made.add("x", x.grad());
    if (has_residual()) made.add("residual", residual.grad());
    for (size_t i = 0; i < leaves.size(); ++i) made.add(own_parameters.trainable()[i].name, leaves[i].grad());
    for (size_t i = 0; i < buffers.size(); ++i) made.add(own_parameters.buffers()[i].name, buffers[i]);
    return made;
  }

 private:
  /// Backward passes point into blocks.
  template <typename Block>
  Block& keep(Block block) {
    auto kept = std::make_shared<Block>(std::move(block));
    kept_.push_back(kept);
    return *kept;
  }

  at::Tensor x_, residual_, gradient_;
  /// The gradient that comes back along the second way.
  at::Tensor more_;
  std::vector<std::shared_ptr<void>> kept_;
};

TEST_P(FusedConvBlocks, err_no_more_than_operation_by_operation) {
  const Made exact = exactly();
  // Four units of fp32: sums of hundreds of products err by several, and on some processors LibTorch's order
  // of summation happens to err by less than one.
  expect_as_exact(with(KernelChoice::kFused), with(KernelChoice::kAten), exact,
                  GetParam().precision == Precision::kFp32 ? 4.8e-7 : 1e-4);
}

TEST_P(FusedConvBlocks, gives_the_same_bits_again) {
  const Made once = with(KernelChoice::kFused);
  const Made again = with(KernelChoice::kFused);
  for (size_t i = 0; i < once.tensors.size(); ++i) {
    EXPECT_TRUE(once.tensors[i].equal(again.tensors[i])) << once.names[i];
  }
}

/// Whether that computed the convolution that `y` is.
bool is_by_winograd(const at::Tensor& y) {
  return y.grad_fn()->name().find("Winograd") != std::string::npos;
}

/// Batch and channels of the input: of a convolution by oneDNN, and of one by Winograd's filtering.
class FusedConvGradientPlace : public testing::TestWithParam<std::pair<int64_t, int64_t>> {};

TEST_P(FusedConvGradientPlace, is_where_the_weights_gradient_is_left) {
  // Otherwise oneDNN has no fast convolution, and LibTorch's is taken.
  const bool is_fused = onednn::instruction_set() != onednn::InstructionSet::kAny;
  at::set_num_threads(1);
  at::manual_seed(12);
  const auto [batch, channels] = GetParam();
  const ConvShape shape{.in_channels = channels, .out_channels = 32, .kernel = 3, .padding = 1};
  const at::Tensor x = at::randn({batch, channels, 7, 7}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto gradient_of = [&](const replica::GradientPlace& place) {
    replica::Parameters parameters(5, at::MemoryFormat::ChannelsLast);
    const Conv2d conv(parameters, "conv", shape, kaiming_normal_fan_out(32, 9));
    if (place.tensor.defined()) parameters.place_gradient(0, place);
    const at::Tensor y = conv(x, Context{.kernels = KernelChoice::kFused});
    const bool in_blocks = layout_of(at::kFloat) == ImageLayout::kBlocks;
    EXPECT_EQ(is_by_winograd(y), is_fused && in_blocks && batch == 8);
    y.sum().backward();
    return parameters.trainable()[0].value.grad();
  };
  const at::Tensor plain = gradient_of({});
  const at::Tensor place = at::ones_like(plain);
  const at::Tensor found = gradient_of({.tensor = place, .scale = 0.25, .add = true});
  if (!is_fused) {
    EXPECT_TRUE(found.equal(plain));
    EXPECT_TRUE(place.equal(at::ones_like(plain)));
    return;
  }
  EXPECT_LE(error_of(place - 1, plain * 0.25), 1e-5);
  gradient_of({.tensor = place});
  EXPECT_TRUE(place.equal(plain));
}

INSTANTIATE_TEST_SUITE_P(Kernels, FusedConvGradientPlace,
                         testing::Values(std::pair<int64_t, int64_t>{2, 16},
                                         std::pair<int64_t, int64_t>{8, 32}));

constexpr ConvShape shape(int64_t in, int64_t out, Extent kernel = 1, int64_t stride = 1, Extent padding = 0,
                          int64_t groups = 1) {
  return {.in_channels = in,
          .out_channels = out,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .groups = groups};
}

constexpr Precision kBf16 = Precision::kBf16;

INSTANTIATE_TEST_SUITE_P(
    Shapes, FusedConvBlocks,
    testing::Values(ConvCase{2, 14, 14, shape(32, 64)}, ConvCase{2, 14, 14, shape(32, 64), Tail::kNorm},
                    ConvCase{2, 14, 14, shape(32, 64), Tail::kNormAddRelu},
                    ConvCase{3, 9, 11, shape(16, 32, 3, 1, 1)},
                    ConvCase{4, 13, 13, shape(128, 144, 3, 1, 1), Tail::kBiasRelu},
                    ConvCase{1, 1, 1, shape(128, 128, 3, 1, 1), Tail::kBiasRelu},
                    ConvCase{4, 14, 9, shape(64, 64, 3, 1, 1), Tail::kNormAddRelu},
                    ConvCase{1, 7, 5, shape(64, 16, 3, 2, 1), Tail::kNormAddRelu},
                    ConvCase{2, 13, 13, shape(48, 64, 5, 1, 2), Tail::kBiasRelu},
                    ConvCase{2, 9, 9, shape(32, 32, {1, 7}, 1, {0, 3}), Tail::kBias},
                    ConvCase{4, 1, 1, shape(64, 32), Tail::kNorm}, ConvCase{1, 23, 23, shape(3, 64, 7, 2, 3)},
                    ConvCase{2, 31, 31, shape(3, 64, 11, 4, 2), Tail::kBiasRelu},
                    ConvCase{2, 12, 12, shape(1, 16, 5, 1, 2), Tail::kBiasRelu},
                    ConvCase{2, 8, 8, shape(64, 64, 3, 1, 1, 4), Tail::kNormRelu},
                    ConvCase{2, 8, 8, shape(64, 64, 3, 1, 1, 16), Tail::kNormRelu},
                    ConvCase{2, 8, 8, shape(32, 24), Tail::kNormRelu, Precision::kFp32, false},
                    ConvCase{2, 8, 8, shape(24, 32, 3, 1, 1), Tail::kNormRelu, Precision::kFp32, false},
                    ConvCase{2, 8, 8, shape(6, 16, 5), Tail::kBiasRelu, Precision::kFp32, false},
                    ConvCase{3, 9, 11, shape(16, 32, 3, 1, 1), Tail::kNormAddRelu, Precision::kFp32, true,
                             100},
                    ConvCase{2, 14, 14, shape(32, 64), Tail::kNormRelu, kBf16},
                    ConvCase{2, 14, 14, shape(32, 64), Tail::kNormAddRelu, kBf16},
                    ConvCase{16, 7, 7, shape(64, 160), Tail::kNormRelu, kBf16},
                    ConvCase{4, 1, 1, shape(32, 64), Tail::kNorm, kBf16},
                    ConvCase{3, 9, 11, shape(16, 32, 3, 2, 1), Tail::kNorm, kBf16},
                    ConvCase{4, 14, 9, shape(64, 64, 3, 1, 1), Tail::kBiasRelu, kBf16},
                    ConvCase{2, 13, 13, shape(48, 64, 5, 1, 2), Tail::kBiasRelu, kBf16},
                    ConvCase{1, 23, 23, shape(3, 64, 7, 2, 3), Tail::kNormRelu, kBf16}));

}  // namespace
}  // namespace lockstep::kernels
