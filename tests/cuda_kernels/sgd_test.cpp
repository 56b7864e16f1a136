#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "cuda_kernels/host_kernels.h"
#include "cuda_kernels/image_data.h"

namespace lockstep::cuda_kernels {
namespace {

struct SgdCase {
  double momentum = 0.9;
  double weight_decay = 1e-2;
  bool nesterov = false;
  Number copies = Number::kBf16;
  /// The tensors that begin after a multiple of 16 bytes: parameters, gradients, momenta or copies by their
  /// number.
  std::optional<int> shifted = std::nullopt;

  int shift_of(int tensor) const { return shifted == tensor ? 1 : 0; }
};

std::ostream& operator<<(std::ostream& out, const SgdCase& own) {
  return out << fmt::format("momentum {}, decay {}, nesterov {}, copies of {}, tensors {} shifted",
                            own.momentum, own.weight_decay, own.nesterov,
                            c10::toString(scalar_type(own.copies)), own.shifted.value_or(-1));
}

/// Tensors of a network's odd sizes, updated by the kernel and by LibTorch's fused SGD.
class SgdRun {
 public:
  explicit SgdRun(const SgdCase& own) : own_(own) {
    const at::Generator generator = at::detail::createCPUGenerator(3);
    for (const int64_t size :
         {int64_t{1}, int64_t{7}, int64_t{8}, kBlock - 1, kBlock, kBlock + 1, 3 * kBlock + 5}) {
      parameters_.emplace_back(Number::kFloat, size, own.shift_of(0));
      gradients_.emplace_back(Number::kFloat, size, own.shift_of(1));
      momenta_.emplace_back(Number::kFloat, size, own.shift_of(2));
      copies_.emplace_back(own.copies, size, own.shift_of(3));
      parameters_.back().tensor().copy_(at::randn({size}, generator));
      torch_parameters_.push_back(parameters_.back().tensor().clone());
      torch_momenta_.push_back(at::zeros({size}));
    }
    generator_ = generator;
  }

  /// New gradients, and an update by both.
  void step(SgdUpdate settings) {
    std::vector<at::Tensor> gradients;
    for (GuardedValues& gradient : gradients_) {
      gradient.tensor().copy_(at::randn({gradient.tensor().numel()}, generator_));
      gradients.push_back(gradient.tensor() * settings.factor);
    }
    const bool skipped = settings.skip != nullptr && *settings.skip != 0;
    const float rate = settings.rate_on_device != nullptr ? *settings.rate_on_device : settings.rate;
    if (!skipped) {
      const std::vector<at::Tensor> none;
      at::_fused_sgd_(torch_parameters_, gradients, own_.momentum == 0 ? none : torch_momenta_,
                      own_.weight_decay, own_.momentum, rate, 0, own_.nesterov, false, settings.first_step,
                      {}, {});
    }
    host_kernels().update(with_tensors(settings), nullptr);
  }

  void expect_like_torch() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      SCOPED_TRACE(i);
      expect_fp32(parameters_[i].tensor(), torch_parameters_[i].to(at::kDouble), "parameters");
      if (own_.momentum != 0) expect_fp32(momenta_[i].tensor(), torch_momenta_[i].to(at::kDouble), "momenta");
      for (const auto* values : {&parameters_, &gradients_, &momenta_, &copies_}) {
        EXPECT_TRUE((*values)[i].is_guarded());
      }
    }
  }

  void expect_copies_to_be_rounded_parameters() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      EXPECT_TRUE(copies_[i].tensor().equal(parameters_[i].tensor().to(scalar_type(own_.copies)))) << i;
    }
  }

  SgdUpdate settings() const {
    return {.copies = own_.copies,
            .factor = 1,
            .weight_decay = static_cast<float>(own_.weight_decay),
            .momentum = static_cast<float>(own_.momentum),
            .rate = 0.1f,
            .nesterov = own_.nesterov};
  }

 private:
  static constexpr int64_t kBlock = int64_t{kThreads} * kGroup;

  SgdUpdate with_tensors(SgdUpdate update) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      update.of[update.tensors++] = {
          .parameter = static_cast<float*>(parameters_[i].data()),
          .gradient = static_cast<const float*>(gradients_[i].data()),
          .momentum = own_.momentum == 0 ? nullptr : static_cast<float*>(momenta_[i].data()),
          .copy = copies_[i].data(),
          .size = parameters_[i].tensor().numel()};
    }
    return update;
  }

  SgdCase own_;
  at::Generator generator_;
  std::vector<GuardedValues> parameters_, gradients_, momenta_, copies_;
  std::vector<at::Tensor> torch_parameters_, torch_momenta_;
};

class SgdKernelTest : public testing::TestWithParam<SgdCase> {
 protected:
  void SetUp() override { set_host_gpu({.processors = 1, .shuffle = 7}); }
};

TEST_P(SgdKernelTest, three_steps_agree_with_libtorch) {
  SgdRun run(GetParam());
  SgdUpdate settings = run.settings();
  for (int step = 0; step < 3; ++step) {
    settings.first_step = step == 0;
    run.step(settings);
  }
  run.expect_like_torch();
  run.expect_copies_to_be_rounded_parameters();
}

INSTANTIATE_TEST_SUITE_P(Settings, SgdKernelTest,
                         testing::Values(SgdCase{}, SgdCase{.copies = Number::kHalf},
                                         SgdCase{.copies = Number::kFloat}, SgdCase{.momentum = 0},
                                         SgdCase{.weight_decay = 0}, SgdCase{.nesterov = true},
                                         SgdCase{.shifted = 0}, SgdCase{.shifted = 1}, SgdCase{.shifted = 2},
                                         SgdCase{.shifted = 3}));

TEST(SgdKernelSettingsTest, the_factor_scales_gradients_and_the_devices_rate_wins) {
  set_host_gpu({});
  SgdRun run({});
  const float rate = 0.25f;
  SgdUpdate settings = run.settings();
  settings.first_step = true;
  settings.factor = 0.5f;
  settings.rate_on_device = &rate;
  run.step(settings);
  run.expect_like_torch();
}

TEST(SgdKernelSettingsTest, a_skipped_step_changes_nothing) {
  set_host_gpu({});
  SgdRun run({});
  float skip = 0;
  SgdUpdate settings = run.settings();
  settings.first_step = true;
  settings.skip = &skip;
  run.step(settings);
  settings.first_step = false;
  skip = 1;
  run.step(settings);
  run.expect_like_torch();
  run.expect_copies_to_be_rounded_parameters();
}

}  // namespace
}  // namespace lockstep::cuda_kernels
