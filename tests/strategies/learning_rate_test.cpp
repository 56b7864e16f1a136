#include <cmath>

#include <gtest/gtest.h>

#include "strategies/trained_replica.h"

namespace lockstep {
namespace {

constexpr int kBatch = 4;
constexpr double kMomentum = 0.9;
constexpr double kWeightDecay = 1e-4;
/// The first is not the one that the strategies are made with, and the second is far from it.
constexpr double kRateSchedule[] = {0.02, 0.02, 0.1, 0.1};

struct RateCase {
  std::string name;
  std::string strategy;
  int ranks;
  strategies::StrategyOptions options = {};
};

void PrintTo(const RateCase& value, std::ostream* out) {
  *out << value.name;
}

class LearningRateTest : public testing::TestWithParam<RateCase> {};

/// Stochastic gradient descent as torch.optim.SGD defines it, written out tensor by tensor, on the joint
/// batch.
std::vector<float> by_hand(int joint_batch, std::vector<float>& before) {
  test::TrainedReplica replica = test::make_replica({.strategy = "single", .batch = joint_batch}, nullptr);
  before = replica.parameters();
  std::vector<at::Tensor> momenta;
  for (const double rate : kRateSchedule) {
    const inputs::Batch& batch = replica.input->next();
    for (const at::Tensor& parameter : replica.model->parameters().tensors())
      parameter.mutable_grad().reset();
    models::cross_entropy(replica.model->forward(batch.images, {}), batch.labels).backward();
    size_t index = 0;
    for (const at::Tensor& parameter : replica.model->parameters().tensors()) {
      at::Tensor values = parameter.detach();
      const at::Tensor gradient = parameter.grad().add(values, kWeightDecay);
      if (index == momenta.size()) {
        momenta.push_back(gradient.clone());
      } else {
        momenta[index] = momenta[index].mul(kMomentum).add(gradient);
      }
      values.sub_(momenta[index++], rate);
    }
  }
  return replica.parameters();
}

TEST_P(LearningRateTest, every_step_has_the_rate_that_was_set_before_it) {
  const RateCase& param = GetParam();
  std::vector<float> found;
  const auto train = [&](comm::Communicator* group) {
    test::TrainedReplica replica = test::make_replica(
        {.strategy = param.strategy, .batch = kBatch, .learning_rate = 3, .strategy_options = param.options},
        group);
    for (const double rate : kRateSchedule) {
      replica.strategy->set_learning_rate(rate);
      replica.train(1);
    }
    if (group == nullptr || group->rank() == 0) found = replica.parameters();
  };
  const bool alone = param.strategy == "single" || param.strategy == "data_parallel";
  if (alone) {
    train(nullptr);
  } else {
    test::with_thread_ranks(param.ranks, [&](comm::Communicator& group) { train(&group); });
  }

  std::vector<float> before;
  const std::vector<float> expected = by_hand(kBatch * param.ranks, before);
  ASSERT_EQ(found.size(), expected.size());
  double difference = 0, move = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    difference = std::max(difference, std::abs(double{found[i]} - expected[i]));
    move = std::max(move, std::abs(double{expected[i]} - before[i]));
  }
  ASSERT_GT(move, 0);
  EXPECT_LT(difference, 1e-4 * move);
}

strategies::StrategyOptions asynchronous() {
  strategies::StrategyOptions options;
  options.consistency = strategies::Consistency::kAsync;
  return options;
}

strategies::StrategyOptions averaging() {
  strategies::StrategyOptions options;
  options.bsp_sync = strategies::BspSync::kAvg;
  return options;
}

INSTANTIATE_TEST_SUITE_P(
    all, LearningRateTest,
    testing::Values(RateCase{"single", "single", 1}, RateCase{"independent", "independent", 1},
                    RateCase{"ddp", "ddp", 2}, RateCase{"replicated", "replicated", 2},
                    RateCase{"sharded", "sharded", 2}, RateCase{"parameter_server", "parameter_server", 2},
                    // With more ranks the order of updates is nobody's to say.
                    RateCase{"parameter_server_async", "parameter_server", 1, asynchronous()},
                    RateCase{"local_sgd", "local_sgd", 2}, RateCase{"bsp", "bsp", 2},
                    RateCase{"bsp_avg", "bsp", 2, averaging()}, RateCase{"horovod", "horovod", 2},
                    RateCase{"data_parallel", "data_parallel", 1}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace lockstep
