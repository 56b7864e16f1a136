#include "lockstep/strategies/powersgd.h"

#include <cmath>

#include <gtest/gtest.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/allclose.h>
#include <ATen/ops/linalg_qr.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"

namespace lockstep::strategies {
namespace {

constexpr int kRank = 3;
constexpr int64_t kRows = 40, kColumns = 50;

/// PowerSGD by its definition, in fp64, of the mean of all gradients.
struct Definition {
  at::Tensor error = at::zeros({kRows, kColumns}, at::kDouble);
  at::Tensor factor = first_factor(0, kColumns, kRank).to(at::kDouble);

  at::Tensor operator()(const at::Tensor& mean) {
    const at::Tensor all = mean.to(at::kDouble) + error;
    const at::Tensor left = std::get<0>(at::linalg_qr(all.matmul(factor)));
    factor = all.t().matmul(left);
    const at::Tensor sum = left.matmul(factor.t());
    error = all - sum;
    return sum;
  }
};

/// The gradient of a rank in a step: a few strong directions in noise.
at::Tensor gradient_of(int rank, int step) {
  at::Tensor gradient = at::zeros({kRows, kColumns});
  const auto draw = [generator = at::detail::createCPUGenerator(static_cast<uint64_t>(100 * rank + step))](
                        at::IntArrayRef shape) { return at::randn(shape, generator); };
  for (const double strength : {4.0, 2.0, 1.0})
    gradient += draw({kRows, 1}).matmul(draw({1, kColumns})) * strength;
  return gradient + draw({kRows, kColumns}) * 0.3;
}

StrategyOptions low_rank() {
  StrategyOptions options;
  options.powersgd = kRank;
  return options;
}

class PowerSgdTest : public testing::TestWithParam<int> {};

// Each step begins where the last one ended, and sends what earlier ones left out.
TEST_P(PowerSgdTest, sums_are_those_of_the_definition_over_steps) {
  const int ranks = GetParam();
  test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
    test::RecordingCommunicator recording(group);
    replica::Parameters none{1, at::MemoryFormat::Contiguous};
    PowerSgd own({.parameters = none, .optimizer = {}, .communicator = &recording, .options = low_rank()});
    Definition definition;
    for (int step = 0; step < 6; ++step) {
      at::Tensor mean = at::zeros({kRows, kColumns});
      for (int rank = 0; rank < ranks; ++rank) mean += gradient_of(rank, step) / ranks;
      const at::Tensor matrix = gradient_of(group.rank(), step).div_(ranks), bias = at::ones({7}).div_(ranks);
      recording.forget();
      own.sum({{0, matrix}, {1, bias}});
      const at::Tensor expected = definition(mean);
      EXPECT_LT((matrix - expected).norm().item<double>(), 1e-4 * expected.norm().item<double>()) << step;
      EXPECT_TRUE(at::allclose(bias, at::ones({7})));
      ASSERT_EQ(recording.calls().size(), 2U);
      EXPECT_EQ(recording.calls()[0].bytes, size_t{4 * (kRows * kRank + 7)});
      EXPECT_EQ(recording.calls()[1].bytes, size_t{4 * kColumns * kRank});
    }
    EXPECT_EQ(own.buffer_bytes(), 4 * (kRows * kColumns + kColumns * kRank));
    for (const Measured& measured : own.measured()) {
      if (measured.name != "share_left_out") continue;
      EXPECT_GT(measured.value, 0.01);
      EXPECT_LT(measured.value, 1);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(ranks, PowerSgdTest, testing::Values(1, 2, 3, 4));

TEST(PowerSgdMatrixTest, tensors_are_matrices_of_their_outermost_dimension_in_memory) {
  EXPECT_FALSE(matrix_to_factor(at::ones({4096}), 1));
  EXPECT_FALSE(matrix_to_factor(at::ones({20, 20}), 8)) << "its factors are not half as large";
  EXPECT_EQ(matrix_to_factor(at::ones({64, 32, 3, 3}), 4)->sizes(), at::IntArrayRef({64, 288}));
  const at::Tensor last = at::randn({64, 32, 3, 3}).contiguous(at::MemoryFormat::ChannelsLast);
  EXPECT_EQ(matrix_to_factor(last, 4)->data_ptr(), last.data_ptr());
  EXPECT_EQ(matrix_to_factor(at::ones({100, 200}).t(), 4)->sizes(), at::IntArrayRef({100, 200}));
}

// Nothing to send is no direction to lose.
TEST(PowerSgdMatrixTest, a_gradient_of_zeros_stays_zero_and_later_ones_are_sent) {
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    replica::Parameters none{1, at::MemoryFormat::Contiguous};
    PowerSgd own({.parameters = none, .optimizer = {}, .communicator = &group, .options = low_rank()});
    at::Tensor matrix = at::zeros({kRows, kColumns});
    own.sum({{0, matrix}});
    EXPECT_EQ(matrix.abs().sum().item<double>(), 0);
    matrix.fill_(1);
    own.sum({{0, matrix}});
    EXPECT_TRUE(at::allclose(matrix, at::zeros({kRows, kColumns}).add(2), 1e-4));
  });
}

}  // namespace
}  // namespace lockstep::strategies
