#include "lockstep/kernels/layer_clock.h"

#include <chrono>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <torch/csrc/autograd/autograd.h>

#include "lockstep/kernels/conv_bn.h"
#include "lockstep/kernels/pool.h"

namespace lockstep::kernels {
namespace {

using testing::ElementsAre;

/// A residual block with a projection on its shortcut, behind a convolution that sees the image.
class LayerClockTest : public testing::Test {
 protected:
  at::Tensor forward(LayerWatch* watch) {
    Context context;
    context.layers = watch;
    const at::Tensor x = stem_(image_, context);
    const auto shortcut = [&] {
      if (watch != nullptr) std::this_thread::sleep_for(pause_);
      return projection_(x, context);
    };
    return pool_(block_(x, shortcut, context).path, context).sum();
  }

  std::vector<at::Tensor> gradients(LayerWatch* watch) {
    return torch::autograd::grad({forward(watch)}, parameters_.tensors());
  }

  replica::Parameters parameters_{1, at::MemoryFormat::ChannelsLast};
  ConvBnRelu stem_{parameters_, {"stem", "stem.bn"}, {.in_channels = 3, .out_channels = 4}};
  ConvBnAddRelu block_{parameters_, {"block", "block.bn"}, {.in_channels = 4, .out_channels = 8}};
  ConvBn projection_{parameters_, {"projection", "projection.bn"}, {.in_channels = 4, .out_channels = 8}};
  MaxPool pool_{{}};
  at::Tensor image_ = at::randn({2, 3, 8, 8}).contiguous(at::MemoryFormat::ChannelsLast);
  std::chrono::milliseconds pause_{0};
};

TEST_F(LayerClockTest, changes_no_gradient) {
  LayerClock clock;
  clock.begin_pass();
  const std::vector<at::Tensor> watched = gradients(&clock);
  clock.end_pass();
  const std::vector<at::Tensor> plain = gradients(nullptr);
  ASSERT_EQ(watched.size(), plain.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(at::equal(watched[i], plain[i])) << i;
}

TEST_F(LayerClockTest, has_a_time_for_every_layer_in_both_directions_of_every_pass) {
  LayerClock clock;
  for (int pass = 0; pass < 2; ++pass) {
    clock.begin_pass();
    gradients(&clock);
    clock.end_pass();
  }
  std::vector<std::string> names;
  for (const Layer& layer : clock.layers()) names.push_back(layer.form.name);
  EXPECT_THAT(names, ElementsAre("stem", "block", "projection", "max_pool1"));
  ASSERT_EQ(clock.passes().size(), 2);
  for (const auto& pass : clock.passes()) {
    ASSERT_EQ(pass.size(), 4);
    for (const LayerClock::Times& times : pass) {
      EXPECT_GT(times.forward_s, 0);
      EXPECT_GT(times.backward_s, 0);
    }
  }
}

TEST_F(LayerClockTest, counts_a_layer_within_another_once) {
  LayerClock clock;
  clock.begin_pass();
  const auto begin = std::chrono::steady_clock::now();
  gradients(&clock);
  clock.end_pass();
  const std::chrono::duration<double> all = std::chrono::steady_clock::now() - begin;
  double sum_s = 0;
  for (const LayerClock::Times& times : clock.passes().front()) sum_s += times.forward_s + times.backward_s;
  EXPECT_LE(sum_s, all.count());
}

TEST_F(LayerClockTest, gives_what_comes_before_the_shortcut_to_the_block_around_it) {
  pause_ = std::chrono::milliseconds(20);
  LayerClock clock;
  clock.begin_pass();
  gradients(&clock);
  clock.end_pass();
  // Slept within the block, not within the projection.
  EXPECT_GE(clock.passes().front()[1].forward_s, 0.02);
}

}  // namespace
}  // namespace lockstep::kernels
