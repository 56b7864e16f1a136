// The kernels of lockstep_cuda_kernels.so on a GPU, against the same kernels on the host, which other tests
// compare with LibTorch.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/isclose.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "lockstep/kernels/fused_norm.h"
#include "lockstep/replica/accelerator.h"

#include "cuda_kernels/host_kernels.h"

namespace lockstep::kernels {
namespace {

using cuda_kernels::KernelsPluginV1;

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

}  // namespace
}  // namespace lockstep::kernels
