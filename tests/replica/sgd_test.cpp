#include "lockstep/replica/sgd.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/rand_like.h>
#include <ATen/ops/zeros_like.h>

#include "lockstep/base/error.h"
#include "lockstep/replica/parameters.h"

namespace lockstep::replica {
namespace {

constexpr float kOverflow = std::numeric_limits<float>::infinity();

std::vector<at::Tensor> random_parameters() {
  at::set_num_threads(1);
  Parameters parameters(1, at::MemoryFormat::ChannelsLast);
  parameters.add("conv", {4, 3, 5, 5}, Init::normal(1));
  parameters.add("bias", {4}, Init::normal(1));
  return parameters.tensors();
}

/// Both get the same gradients, `factor` times as large in the second one.
void give_gradients(const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second,
                    double factor = 1) {
  for (size_t i = 0; i < first.size(); ++i) {
    const at::Tensor gradient = at::rand_like(first[i].detach());
    first[i].mutable_grad() = gradient;
    second[i].mutable_grad() = gradient.mul(factor);
  }
}

void expect_same(const std::vector<at::Tensor>& first, const std::vector<at::Tensor>& second) {
  for (size_t i = 0; i < first.size(); ++i) EXPECT_TRUE(at::equal(first[i], second[i])) << i;
}

std::shared_ptr<LossScale> loss_scale() {
  return std::make_shared<LossScale>(at::Device(at::kCPU), LossScaleOptions{.initial = 1024});
}

double scale_in(const LossScale& scale) {
  return scale.scaled(at::ones({})).item<double>();
}

TEST(SgdTest, sums_of_gradients_are_divided_as_they_are_applied) {
  for (const bool scaled : {false, true}) {
    for (const double momentum : {0.0, 0.9}) {
      const std::vector<at::Tensor> means = random_parameters();
      const std::vector<at::Tensor> sums = random_parameters();
      SgdOptions options{.learning_rate = 0.1F, .momentum = momentum, .weight_decay = 0.01};
      if (scaled) options.loss_scale = loss_scale();
      Sgd of_means(means, options);
      if (scaled) options.loss_scale = loss_scale();
      options.divide_gradients_by(4, at::kCPU);
      Sgd of_sums(sums, options);
      for (int step = 0; step < 3; ++step) {
        give_gradients(means, sums, 4);
        of_means.step();
        of_sums.step();
        expect_same(means, sums);
        // The memory holds the means afterwards.
        expect_same({means[0].grad(), means[1].grad()}, {sums[0].grad(), sums[1].grad()});
      }
    }
  }
}

TEST(SgdTest, a_rate_in_memory_gives_the_bits_of_the_number) {
  const std::vector<at::Tensor> plain = random_parameters();
  const std::vector<at::Tensor> following = random_parameters();
  // The number that a float holds.
  const double rate = 0.1F;
  SgdOptions options{.learning_rate = rate, .weight_decay = 0.01};
  Sgd by_number(plain, options);
  options.keep_rate_on(at::kCPU);
  Sgd by_tensor(following, options);
  for (int step = 0; step < 4; ++step) {
    if (step == 2) {
      by_number.set_learning_rate(0.5);
      by_tensor.set_learning_rate(0.5);
    }
    give_gradients(plain, following);
    by_number.step();
    by_tensor.step();
    expect_same(plain, following);
  }
}

TEST(SgdTest, nesterov_follows_the_definition_in_one_pass_and_in_two_halves) {
  const at::NoGradGuard no_grad;
  const SgdOptions options{.learning_rate = 0.1, .momentum = 0.75, .weight_decay = 0.01, .nesterov = true};
  at::Tensor value = at::full({16}, 2.0F);
  at::Tensor momentum;
  const at::Tensor fused = value.clone();
  const at::Tensor halves = value.clone();
  const at::Tensor fused_momentum = at::zeros_like(value);
  Sgd of_halves({halves}, options);
  for (int step = 0; step < 3; ++step) {
    const at::Tensor gradient = at::rand_like(value);
    const at::Tensor decayed = gradient.add(value, options.weight_decay);
    momentum = step == 0 ? decayed : decayed.add(momentum, options.momentum);
    value = value.sub(decayed.add(momentum, options.momentum), options.learning_rate);

    fused_sgd({fused}, {gradient.clone()}, {fused_momentum}, options, step == 0);
    halves.mutable_grad() = gradient.clone();
    of_halves.make_directions(/*share=*/0.5);
    halves.mutable_grad().mul_(2);
    of_halves.follow_directions();
    EXPECT_TRUE(at::allclose(fused, value, 1e-6, 1e-6)) << step;
    EXPECT_TRUE(at::allclose(halves, value, 1e-6, 1e-6)) << step;
  }
}

TEST(SgdTest, a_pass_that_was_prepared_reads_the_rate_that_is_set_later) {
  // A recorded step keeps a copy of the options; it sees the rate through the memory that they share.
  SgdOptions options{.learning_rate = 0.5, .momentum = 0, .weight_decay = 0};
  options.keep_rate_on(at::kCPU);
  const SgdOptions kept = options;
  options.set_learning_rate(0.25);
  const at::Tensor value = at::full({8}, 1.0F);
  fused_sgd({value}, {at::full({8}, 1.0F)}, {at::zeros_like(value)}, kept, false);
  EXPECT_TRUE(at::equal(value, at::full({8}, 0.75F)));
}

TEST(SgdTest, scaled_gradients_give_the_bits_of_plain_ones) {
  const std::vector<at::Tensor> plain = random_parameters();
  const std::vector<at::Tensor> scaled = random_parameters();
  SgdOptions options{.learning_rate = 0.1};
  Sgd without(plain, options);
  options.loss_scale = loss_scale();
  Sgd with(scaled, options);
  for (int step = 0; step < 3; ++step) {
    give_gradients(plain, scaled, 1024);
    without.step();
    with.step();
    expect_same(plain, scaled);
  }
}

TEST(SgdTest, a_step_that_overflows_changes_nothing_but_the_scale) {
  for (const float bad : {kOverflow, std::nanf("")}) {
    const std::vector<at::Tensor> parameters = random_parameters();
    const std::vector<at::Tensor> reference = random_parameters();
    SgdOptions options{.learning_rate = 0.1};
    Sgd without(reference, options);
    options.loss_scale = loss_scale();
    Sgd with(parameters, options);
    // The first step of all among them: momenta that were never written must not be read.
    for (int step = 0; step < 5; ++step) {
      const bool overflows = step == 0 || step == 3;
      give_gradients(reference, parameters, scale_in(*options.loss_scale));
      if (overflows) {
        parameters[1].mutable_grad()[2] = bad;
      } else {
        without.step();
      }
      with.step();
      expect_same(reference, parameters);
    }
    EXPECT_EQ(scale_in(*options.loss_scale), 256);
  }
}

/// The formula of torch.nn.utils.clip_grad_norm_.
TEST(SgdTest, gradients_above_the_norm_are_scaled_down_to_it) {
  for (const double limit : {1e-3, 1e6}) {
    const std::vector<at::Tensor> clipped = random_parameters(), plain = random_parameters();
    Sgd with(clipped, {.learning_rate = 0.1, .clip_norm = limit});
    Sgd without(plain, {.learning_rate = 0.1});
    give_gradients(plain, clipped);
    double square = 0;
    for (const at::Tensor& parameter : plain) square += parameter.grad().square().sum().item<double>();
    const double factor = std::min(1.0, limit / (std::sqrt(square) + 1e-6));
    for (const at::Tensor& parameter : plain) parameter.mutable_grad().mul_(factor);
    with.step();
    without.step();
    for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::allclose(plain[i], clipped[i], 1e-6, 1e-9));
  }
}

TEST(SgdTest, goes_on_with_the_same_bits_from_what_it_saved) {
  std::vector<at::Tensor> first = random_parameters();
  std::vector<at::Tensor> second = random_parameters();
  SgdOptions options{.learning_rate = 0.1};
  options.loss_scale = loss_scale();
  Sgd saved(first, options);
  options.loss_scale = loss_scale();
  Sgd restored(second, options);
  give_gradients(first, second, 1024);
  first[0].mutable_grad()[0] = kOverflow;
  saved.step();
  give_gradients(first, second, 512);
  saved.step();

  State state;
  saved.save(state);
  for (const NamedTensor& tensor : state.tensors) EXPECT_TRUE(tensor.value.is_cpu()) << tensor.name;
  restored.restore(state);
  EXPECT_EQ(scale_in(*options.loss_scale), 512);
  for (size_t i = 0; i < first.size(); ++i) {
    const at::NoGradGuard no_grad;
    second[i].copy_(first[i]);
  }
  give_gradients(first, second);
  saved.step();
  restored.step();
  expect_same(first, second);
}

}  // namespace
}  // namespace lockstep::replica
