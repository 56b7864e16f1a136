#include "lockstep/replica/loss_scale.h"

#include <limits>
#include <optional>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/ones.h>

#include "lockstep/strategies/strategy.h"

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kRanks = 3;

/// The state of a rank after three steps.
struct Trained {
  std::vector<float> before, after;
};

std::vector<Trained> train(const std::string& strategy, std::optional<double> scale) {
  std::vector<Trained> trained(kRanks);
  test::with_thread_ranks(kRanks, [&](comm::Communicator& group) {
    const auto rank = static_cast<size_t>(group.rank());
    test::ReplicaChoice choice{.model = "lenet5", .strategy = strategy};
    // More than one bucket.
    choice.strategy_options.bucket_mb = 0.05;
    choice.loss_scale = scale;
    test::TrainedReplica replica = test::make_replica(choice, &group);
    trained[rank].before = replica.parameters();
    replica.train(3);
    trained[rank].after = replica.parameters();
  });
  return trained;
}

class ScaledLossTest : public testing::TestWithParam<const char*> {};

/// A power of two only moves the exponents.
TEST_P(ScaledLossTest, a_scaled_loss_trains_to_the_bits_of_the_loss) {
  const std::vector<Trained> plain = train(GetParam(), {});
  const std::vector<Trained> scaled = train(GetParam(), 1024);
  EXPECT_NE(plain[0].before, plain[0].after);
  for (size_t rank = 0; rank < kRanks; ++rank) EXPECT_EQ(plain[rank].after, scaled[rank].after);
}

/// Two parameters of one rank, of which the first is in a shard, in a bucket, and with an owner, of its own.
class TwoParameters {
 public:
  TwoParameters(const std::string& strategy, comm::Communicator& group)
      : strategy_(strategies::registry().get(strategy).create(
            {.parameters = parameters_,
             .optimizer = {.learning_rate = 0.1, .loss_scale = scale_},
             .communicator = &group,
             .options = {.bucket_mb = 1e-4}})) {}

  /// The gradient of the first parameter is `factor`, that of the second 1.
  void step(double factor) {
    strategy_->begin_step();
    strategy_->before_backward(/*last=*/true);
    scale_->scaled((first_ * factor).sum() + second_.sum()).backward();
    strategy_->combine();
    strategy_->apply();
    strategy_->finish();
  }

  at::Tensor values() const { return at::cat({first_.detach(), second_.detach()}); }
  double scale() const { return scale_->scaled(at::ones({})).item<double>(); }

 private:
  replica::Parameters parameters_{1, at::MemoryFormat::Contiguous};
  at::Tensor first_ = parameters_.add("first", {3}, replica::Init::constant(1));
  at::Tensor second_ = parameters_.add("second", {30}, replica::Init::constant(1));
  std::shared_ptr<replica::LossScale> scale_ =
      std::make_shared<replica::LossScale>(at::kCPU, replica::LossScaleOptions{.initial = 1024});
  std::unique_ptr<strategies::Strategy> strategy_;
};

TEST_P(ScaledLossTest, an_overflow_of_one_parameter_on_one_rank_leaves_out_the_step_everywhere) {
  test::with_thread_ranks(kRanks, [](comm::Communicator& group) {
    TwoParameters rank(GetParam(), group);
    const at::Tensor before = rank.values();
    rank.step(group.rank() == 1 ? std::numeric_limits<double>::infinity() : 1);
    EXPECT_TRUE(at::equal(rank.values(), before));
    EXPECT_EQ(rank.scale(), 512);
    rank.step(1);
    EXPECT_TRUE(rank.values().sub(before).abs().min().gt(0).item<bool>());
    EXPECT_EQ(rank.scale(), 512);
  });
}

INSTANTIATE_TEST_SUITE_P(Strategies, ScaledLossTest,
                         testing::Values("ddp", "replicated", "sharded", "parameter_server", "horovod"),
                         [](const auto& named) { return std::string(named.param); });

TEST(LossScaleRefusalTest, is_refused_where_an_overflow_cannot_leave_out_a_step) {
  using strategies::BspSync;
  using strategies::Consistency;
  using strategies::ParameterDevice;
  const auto refused = [](const std::string& strategy, const strategies::StrategyOptions& options) {
    return strategies::why_not_on_gpu(strategy, options, {.backend = "gloo", .ranks = 2, .scales_loss = true})
        .has_value();
  };
  EXPECT_TRUE(refused("bsp", {}));
  EXPECT_FALSE(refused("bsp", {.bsp_sync = BspSync::kAvg}));
  EXPECT_TRUE(refused("parameter_server", {.consistency = Consistency::kAsync}));
  EXPECT_TRUE(refused("parameter_server", {.parameter_device = ParameterDevice::kCpu}));
  for (const char* strategy :
       {"single", "ddp", "replicated", "sharded", "parameter_server", "horovod", "local_sgd"}) {
    EXPECT_FALSE(refused(strategy, {})) << strategy;
  }
}

}  // namespace
}  // namespace lockstep
