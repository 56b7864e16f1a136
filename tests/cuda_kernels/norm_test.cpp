#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/isnan.h>

#include "cuda_kernels/host_kernels.h"
#include "cuda_kernels/norm_run.h"

namespace lockstep::cuda_kernels {
namespace {

class NormCasesTest : public testing::TestWithParam<NormCase> {};

TEST_P(NormCasesTest, agrees_with_libtorch) {
  set_host_gpu({});
  NormRun run(GetParam());
  run.run();
  run.expect_like_torch();
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NormCasesTest,
    testing::Values(
        NormCase{.batch = 1, .height = 1, .width = 1, .channels = 24},
        NormCase{.batch = 1, .height = 1, .width = 1, .channels = 5, .residual = true, .forks = true},
        NormCase{.batch = 1, .height = 9, .width = 4, .channels = 8, .number = Number::kBf16},
        NormCase{.batch = 2, .height = 1, .width = 1, .channels = 11, .number = Number::kHalf},
        NormCase{.batch = 40, .height = 1, .width = 1, .channels = 1},
        NormCase{.batch = 1, .height = 3, .width = 1, .channels = 2048, .residual = true},
        NormCase{.batch = 1, .height = 3, .width = 1, .channels = 2051, .forks = true},
        // More rows than all threads of all blocks take at once.
        NormCase{.batch = 8, .height = 40, .width = 40, .channels = 8, .number = Number::kBf16},
        NormCase{.batch = 8, .height = 40, .width = 40, .channels = 3, .residual = true, .forks = true},
        NormCase{.channels = 8, .shift = 1}, NormCase{.batch = 16, .channels = 19, .mean = 100}));

TEST(NormTest, a_constant_channel_becomes_its_bias) {
  set_host_gpu({});
  NormRun run({.channels = 9, .relu = false});
  run.x().select(1, 4).fill_(3.25);
  run.run();
  EXPECT_TRUE(run.y().select(1, 4).eq(run.bias[4]).all().item<bool>());
  EXPECT_EQ(run.mean[4].item<float>(), 3.25f);
  EXPECT_FLOAT_EQ(run.inverse[4].item<float>(), static_cast<float>(1 / std::sqrt(kEpsilon)));
}

/// A loss that is not finite ends a run, so a ReLU must not hide it.
TEST(NormTest, what_is_not_a_number_passes_the_relu) {
  set_host_gpu({});
  NormRun run({.channels = 8});
  run.x()[3][2] = std::numeric_limits<float>::quiet_NaN();
  run.run();
  EXPECT_TRUE(run.y().select(1, 2).isnan().all().item<bool>());
  EXPECT_TRUE(run.passed().select(1, 2).all().item<bool>());
  EXPECT_FALSE(run.y().select(1, 3).isnan().any().item<bool>());
}

/// A value that fp16 cannot hold is a 0, whose gradient LibTorch's ReLU stops.
TEST(NormTest, the_mask_is_that_of_the_rounded_value) {
  set_host_gpu({});
  NormRun run({.channels = 8, .number = Number::kHalf});
  run.weight.fill_(0);
  run.bias.fill_(1e-9f);
  run.run();
  EXPECT_TRUE(run.y().eq(0).all().item<bool>());
  EXPECT_FALSE(run.passed().any().item<bool>());
}

void expect_equal_bits(const std::vector<at::Tensor>& left, const std::vector<at::Tensor>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (size_t i = 0; i < left.size(); ++i) EXPECT_TRUE(left[i].equal(right[i])) << "result " << i;
}

constexpr NormCase kManyBlocks{
    .batch = 12, .height = 20, .width = 20, .channels = 300, .residual = true, .forks = true};

/// Neither the order of blocks nor that of threads is known on a GPU.
TEST(NormTest, the_order_of_blocks_and_threads_does_not_change_the_bits) {
  set_host_gpu({});
  NormRun in_order(kManyBlocks);
  in_order.run();
  for (const unsigned shuffle : {1u, 2u, 3u}) {
    set_host_gpu({.shuffle = shuffle, .reverse_threads = shuffle % 2 == 1});
    NormRun shuffled(kManyBlocks);
    shuffled.run();
    expect_equal_bits(in_order.made(), shuffled.made());
  }
}

TEST(NormTest, a_workspace_serves_one_pass_after_the_other) {
  set_host_gpu({.shuffle = 5});
  NormRun run(kManyBlocks);
  run.run();
  run.expect_like_torch();
  const at::Tensor mean = run.mean.clone();
  const at::Tensor of_weight = run.of_weight.clone();
  run.x().mul_(2);
  run.run();
  EXPECT_TRUE(run.mean.allclose(mean * 2));
  // x is twice as large, and so is its deviation.
  EXPECT_TRUE(run.of_weight.allclose(of_weight, 1e-3, 1e-3));
}

/// A stream has one workspace for all of a network's layers.
TEST(NormTest, a_workspace_serves_images_of_other_shapes) {
  set_host_gpu({});
  std::vector<char> workspace;
  for (const int64_t channels : {4096, 64, 2048, 300}) {
    SCOPED_TRACE(channels);
    NormRun run({.batch = 8, .height = 9, .width = 9, .channels = channels, .residual = true});
    run.run(workspace);
    run.expect_like_torch();
  }
}

}  // namespace
}  // namespace lockstep::cuda_kernels
