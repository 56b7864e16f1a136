#include "lockstep/train/verify/verify.h"

#include <functional>
#include <map>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategies/trained_replica.h"
#include "train/faulty_communicator.h"

namespace lockstep {
namespace {

using train::Check;

using test::Fault;
using test::FaultyCommunicator;

struct Variant {
  std::string name;
  std::string strategy;
  std::vector<strategies::GivenOption> options;
  /// Whether a reduction that is left out leaves every rank with something else.
  bool each_has_all_gradients = true;
};

struct VerifyCase {
  Variant variant;
  int ranks;
};

void PrintTo(const VerifyCase& value, std::ostream* out) {
  *out << value.variant.name << " at " << value.ranks;
}

class VerifyTest : public testing::TestWithParam<VerifyCase> {
 protected:
  static std::map<std::string, Check> verify(const std::string& model, Fault fault, bool nesterov = false) {
    train::SweepOptions sweep;
    sweep.models = {model};
    sweep.batches = {4};
    sweep.ranks = {GetParam().ranks};
    sweep.strategies = {GetParam().variant.strategy};
    sweep.strategy_options = GetParam().variant.options;
    sweep.controls = false;
    // Nesterov's first steps go up to 1.9 times as far, where more ReLUs turn over.
    sweep.common.learning_rate = nesterov ? 0.025 : 0.05;
    sweep.common.nesterov = nesterov;
    const train::RowPlan row = train::plan_rows(sweep).front();
    std::map<std::string, Check> by_name;
    test::with_thread_ranks(GetParam().ranks, [&](comm::Communicator& real) {
      FaultyCommunicator group(real, fault);
      launch::Progress progress;
      const std::vector<Check> checks = train::verify_row(row, 3, &group, progress);
      for (const Check& check : checks) by_name[check.name] = check;
    });
    return by_name;
  }

  static bool wrong(const Check& check) { return check.outcome == Check::Outcome::kWrong; }
};

TEST_P(VerifyTest, what_is_right_is_said_to_be) {
  for (const std::string model : {"lenet5", "mlp"}) {
    for (const auto& [name, check] : verify(model, Fault::kNone)) {
      EXPECT_EQ(check.outcome, Check::Outcome::kRight) << model << ", " << name << ": " << check.detail;
    }
  }
}

TEST_P(VerifyTest, nesterov_momentum_is_right_in_every_strategy) {
  for (const auto& [name, check] : verify("lenet5", Fault::kNone, /*nesterov=*/true)) {
    EXPECT_EQ(check.outcome, Check::Outcome::kRight) << name << ": " << check.detail;
  }
}

TEST_P(VerifyTest, a_last_place_on_one_rank_is_seen_by_the_equality_of_replicas) {
  const auto found = verify("lenet5", Fault::kLastPlace);
  EXPECT_TRUE(wrong(found.at("replicas equal"))) << found.at("replicas equal").detail;
  EXPECT_THAT(found.at("replicas equal").detail,
              testing::HasSubstr("rank " + std::to_string(GetParam().ranks - 1)));
}

TEST_P(VerifyTest, one_percent_in_one_element_is_seen_by_the_joint_batch) {
  const auto found = verify("lenet5", Fault::kOnePercent);
  EXPECT_FALSE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
}

TEST_P(VerifyTest, a_bucket_that_is_not_sent_is_seen) {
  const auto found = verify("lenet5", Fault::kNotSent);
  EXPECT_EQ(wrong(found.at("replicas equal")), GetParam().variant.each_has_all_gradients);
  EXPECT_TRUE(wrong(found.at("joint batch")));
}

TEST_P(VerifyTest, a_wrong_divisor_is_seen_by_the_joint_batch) {
  const auto found = verify("lenet5", Fault::kDivisor);
  EXPECT_FALSE(wrong(found.at("replicas equal")));
  EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
}

TEST(VerifyAsyncTest, gradients_applied_as_they_arrive_are_counted) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    train::SweepOptions sweep;
    sweep.models = {"lenet5"};
    sweep.batches = {4};
    sweep.ranks = {ranks};
    sweep.strategies = {"parameter_server"};
    sweep.strategy_options = {{"--consistency", "async"}};
    sweep.controls = false;
    sweep.common.learning_rate = 0.01;  // small enough for gradients as late as a busy machine makes them
    const train::RowPlan row = train::plan_rows(sweep).front();
    std::map<std::string, Check> by_name;
    test::with_thread_ranks(ranks, [&](comm::Communicator& group) {
      launch::Progress progress;
      for (const Check& check : train::verify_row(row, 3, &group, progress)) by_name[check.name] = check;
    });
    for (const char* name : {"replicas equal", "joint batch", "run to run"}) {
      EXPECT_EQ(by_name.at(name).outcome, Check::Outcome::kNotApplicable) << name;
      EXPECT_NE(by_name.at(name).detail, "") << name;
    }
    for (const char* name : {"applied once", "sum of updates", "staleness", "loss falls"}) {
      EXPECT_EQ(by_name.at(name).outcome, Check::Outcome::kRight) << name << ": " << by_name.at(name).detail;
    }
  }
}

std::vector<VerifyCase> verify_cases() {
  const std::vector<Variant> variants{
      {"ddp", "ddp", {}},
      {"ddp_fp16", "ddp", {{"--wire", "fp16"}}},
      {"ddp_bf16", "ddp", {{"--wire", "bf16"}}},
      {"replicated", "replicated", {}},
      {"replicated_bf16", "replicated", {{"--wire", "bf16"}}},
      {"sharded", "sharded", {}, false},
      {"parameter_server", "parameter_server", {{"--parameter-owners", "rank0"}}, false},
      {"horovod", "horovod", {{"--deterministic", "on"}}},
      {"horovod_fp16", "horovod", {{"--deterministic", "on"}, {"--wire", "fp16"}}},
      {"bsp", "bsp", {}},
      {"bsp_fp16", "bsp", {{"--exchange", "nccl16"}}},
  };
  std::vector<VerifyCase> cases;
  for (const Variant& variant : variants) {
    for (const int ranks : {2, 3, 4, 7}) cases.push_back({variant, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, VerifyTest, testing::ValuesIn(verify_cases()), [](const auto& named) {
  return named.param.variant.name + "_" + std::to_string(named.param.ranks);
});

}  // namespace
}  // namespace lockstep
