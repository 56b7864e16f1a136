// The kernels of lockstep_cuda_kernels.so on a GPU, against the same kernels on the host, which other tests
// compare with LibTorch.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "lockstep/base/error.h"
#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/accelerator.h"

#include "cuda_kernels/host_kernels.h"

namespace lockstep::kernels {
namespace {

using cuda_kernels::KernelsPluginV1;
using cuda_kernels::Number;

struct ImageCase {
  int64_t batch, channels, size;
  at::ScalarType type;
};

class GpuKernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    const replica::AcceleratorStatus status = replica::accelerator_status();
    if (!status.usable) GTEST_SKIP() << "no GPU: " << status.detail;
    accelerator_ = replica::open_accelerator(0);
    accelerator_->enter_thread();
    plugin_ = &cuda_kernels::open_kernels();
    at::manual_seed(1);
  }

  /// Everything that a forward and a backward pass of a forked, residual normalization make, on the CPU.
  static std::vector<at::Tensor> pass(const ImageCase& own, c10::Device device,
                                      const KernelsPluginV1& kernels) {
    at::manual_seed(2);
    const auto image = [&] {
      return at::randn({own.batch, own.channels, own.size, own.size})
          .to(own.type)
          .contiguous(at::MemoryFormat::ChannelsLast)
          .to(device);
    };
    const at::Tensor x = image().set_requires_grad(true);
    const at::Tensor residual = image().set_requires_grad(true);
    const std::vector<at::Tensor> factors{image(), image()};
    NormLayer layer{.weight = (at::rand({own.channels}) + 0.5).to(device),
                    .bias = at::randn({own.channels}).to(device),
                    .running_mean = at::zeros({own.channels}).to(device),
                    .running_variance = at::ones({own.channels}).to(device)};
    layer.weight.set_requires_grad(true);
    layer.bias.set_requires_grad(true);
    const Fork made = gpu_norm(x, residual, layer, {.relu = true, .forks = true}, kernels);
    ((made.path * factors[0]).sum() + (made.shortcut * factors[1]).sum()).backward();
    std::vector<at::Tensor> all{made.path,       layer.running_mean,  layer.running_variance, x.grad(),
                                residual.grad(), layer.weight.grad(), layer.bias.grad()};
    for (at::Tensor& tensor : all) tensor = tensor.detach().cpu();
    return all;
  }

  void* stream() const { return accelerator_->stream(); }

  std::shared_ptr<replica::Accelerator> accelerator_;
  const KernelsPluginV1* plugin_ = nullptr;
};

TEST_F(GpuKernelsTest, a_normalization_is_that_of_the_host_and_the_same_bits_every_time) {
  for (const ImageCase& own : {ImageCase{8, 64, 28, at::kFloat}, ImageCase{8, 64, 28, at::kBFloat16},
                               ImageCase{8, 64, 28, at::kHalf}, ImageCase{3, 19, 9, at::kBFloat16},
                               ImageCase{3, 19, 9, at::kFloat}, ImageCase{2, 2048, 7, at::kBFloat16},
                               ImageCase{1, 300, 1, at::kFloat}, ImageCase{16, 256, 56, at::kBFloat16}}) {
    SCOPED_TRACE(testing::Message() << own.batch << "x" << own.channels << "x" << own.size << " "
                                    << c10::toString(own.type));
    const auto found = pass(own, accelerator_->device(), *plugin_);
    const auto again = pass(own, accelerator_->device(), *plugin_);
    const auto exact = pass(own, at::kCPU, cuda_kernels::host_kernels());
    // One unit of the format in images; sums over them differ in their order.
    const double unit = own.type == at::kFloat ? 1e-5 : own.type == at::kHalf ? 0x1p-10 : 0x1p-7;
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_TRUE(found[i].equal(again[i])) << "result " << i;
      const at::Tensor alike =
          at::isclose(found[i].to(at::kDouble), exact[i].to(at::kDouble), unit, 1e-4).to(at::kDouble);
      // Next to 0, one value in some millions is rounded to another side of the ReLU, with the sums of its
      // channel.
      EXPECT_GE(alike.mean().item<double>(), 0.99) << "result " << i << " of " << found[i].numel();
    }
  }
}

TEST_F(GpuKernelsTest, a_normalization_can_be_recorded) {
  const at::TensorOptions there = at::TensorOptions().device(accelerator_->device());
  const at::Tensor x = at::randn({8, 64, 14, 14}, there).contiguous(at::MemoryFormat::ChannelsLast);
  const NormLayer layer{.weight = at::ones({64}, there),
                        .bias = at::zeros({64}, there),
                        .running_mean = at::zeros({64}, there),
                        .running_variance = at::ones({64}, there)};
  at::Tensor y;
  const auto work = [&] { y = gpu_norm(x, {}, layer, {.relu = true}, *plugin_).path; };
  work();
  const auto graph = accelerator_->record(work);
  x.mul_(3).add_(1);
  graph->launch();
  accelerator_->synchronize();
  const at::Tensor recorded = y.cpu();
  work();
  EXPECT_TRUE(recorded.equal(y.cpu()));
}

TEST_F(GpuKernelsTest, sgd_updates_and_refreshes_as_on_the_host) {
  constexpr int64_t kSize = 100003;
  const auto updated = [&](c10::Device device, const KernelsPluginV1& kernels, void* in) {
    at::manual_seed(3);
    const at::Tensor parameter = at::randn({kSize}).to(device);
    const at::Tensor gradient = at::randn({kSize}).to(device);
    const at::Tensor momentum = at::randn({kSize}).to(device);
    const at::Tensor copy = at::zeros({kSize}, at::TensorOptions().dtype(at::kBFloat16).device(device));
    cuda_kernels::SgdUpdate update{.tensors = 1,
                                   .copies = Number::kBf16,
                                   .factor = 0.5f,
                                   .weight_decay = 1e-4f,
                                   .momentum = 0.9f,
                                   .rate = 0.1f,
                                   .nesterov = true};
    update.of[0] = {parameter.mutable_data_ptr<float>(), gradient.const_data_ptr<float>(),
                    momentum.mutable_data_ptr<float>(), copy.mutable_data_ptr(), kSize};
    kernels.update(update, in);
    return std::vector<at::Tensor>{parameter.cpu(), momentum.cpu(), copy.cpu()};
  };
  const auto found = updated(accelerator_->device(), *plugin_, stream());
  const auto exact = updated(at::kCPU, cuda_kernels::host_kernels(), nullptr);
  EXPECT_TRUE(at::allclose(found[0], exact[0], 1e-5, 1e-6));
  EXPECT_TRUE(at::allclose(found[1], exact[1], 1e-5, 1e-6));
  EXPECT_TRUE(found[2].equal(found[0].to(at::kBFloat16)));
}

TEST_F(GpuKernelsTest, pixels_are_scaled_as_on_the_host) {
  constexpr int64_t kPixels = 40001;
  const auto converted = [&](c10::Device device, const KernelsPluginV1& kernels, void* in) {
    at::manual_seed(4);
    const at::Tensor pixels = at::randint(256, {kPixels, 3}).to(at::kByte).to(device);
    const at::Tensor images =
        at::empty({kPixels, 4}, at::TensorOptions().dtype(at::kBFloat16).device(device));
    kernels.convert_pixels({.pixels = kPixels,
                            .channels = 3,
                            .image_channels = 4,
                            .from = pixels.const_data_ptr<uint8_t>(),
                            .to = images.mutable_data_ptr(),
                            .number = Number::kBf16,
                            .scale = {0.017f, 0.018f, 0.019f, 0},
                            .shift = {-2.1f, -2.0f, -1.8f, 0}},
                           in);
    return images.cpu().to(at::kFloat);
  };
  // The GPU multiplies and adds with one rounding.
  EXPECT_TRUE(at::allclose(converted(accelerator_->device(), *plugin_, stream()),
                           converted(at::kCPU, cuda_kernels::host_kernels(), nullptr), 0x1p-7, 1e-6));
}

}  // namespace
}  // namespace lockstep::kernels
