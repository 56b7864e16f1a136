// The strategies, proved by what `lockstep verify` checks; mutants_test proves the checks.

#include "lockstep/train/verify/verify.h"

#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/hierarchical_communicator.h"

#include "strategies/trained_replica.h"
#include "train/faulty_communicator.h"

namespace lockstep {
namespace {

using train::Check;

using test::Fault;
using test::FaultyCommunicator;

struct VerifyCase {
  std::string name;
  std::string strategy;
  std::vector<strategies::GivenOption> options = {};
  int ranks = 0;
};

void PrintTo(const VerifyCase& value, std::ostream* out) {
  *out << value.name << " at " << value.ranks;
}

train::SweepOptions sweep_of(const VerifyCase& value) {
  train::SweepOptions sweep;
  sweep.models = {"lenet5"};
  sweep.batches = {4};
  sweep.ranks = {value.ranks};
  sweep.strategies = {value.strategy};
  sweep.strategy_options = value.options;
  sweep.controls = false;
  sweep.common.learning_rate = 0.05;
  return sweep;
}

/// The checks of the sweep's only row, by name. Hierarchical ones are on hosts of two ranks.
std::map<std::string, Check> verify(const train::SweepOptions& sweep, Fault fault = Fault::kNone) {
  const train::RowPlan row = train::plan_rows(sweep).front();
  std::map<std::string, Check> by_name;
  test::with_thread_ranks(row.ranks, [&](comm::Communicator& real) {
    FaultyCommunicator faulty(real, fault);
    std::unique_ptr<comm::Communicator> hierarchical;
    if (row.parsed_options.hierarchical) {
      hierarchical = comm::make_hierarchical(faulty, std::to_string(real.rank() / 2));
    }
    comm::Communicator* const group = hierarchical ? hierarchical.get() : &faulty;
    launch::Progress progress;
    for (const Check& check : train::verify_row(row, 3, group, progress)) by_name[check.name] = check;
  });
  return by_name;
}

bool wrong(const Check& check) {
  return check.outcome == Check::Outcome::kWrong;
}

/// Every strategy at every number of ranks, and what its options change at few.
std::vector<VerifyCase> verify_cases() {
  const std::vector<VerifyCase> variants{
      {"ddp", "ddp"},
      {"replicated", "replicated"},
      {"sharded", "sharded"},
      {"parameter_server", "parameter_server"},
      {"horovod", "horovod", {{"--deterministic", "on"}}},
      {"bsp", "bsp"},
      {"replicated_powersgd", "replicated", {{"--wire", "powersgd:2"}}},
      {"ddp_powersgd", "ddp", {{"--wire", "powersgd:4"}, {"--powersgd-start", "1"}}},
      {"local_sgd", "local_sgd"},
      {"local_sgd_every_3", "local_sgd", {{"--sync-every", "3"}}},
      {"diloco", "local_sgd", {{"--sync-every", "2"}, {"--outer-lr", "0.7"}, {"--outer-momentum", "0.9"}}},
      {"outer_step_every_step", "local_sgd", {{"--outer-lr", "0.9"}}},
      {"zero2", "zero2"},
      {"zero3", "zero3"},
      {"sharded_after_backward", "sharded", {{"--overlap", "off"}}},
      {"zero2_after_backward", "zero2", {{"--overlap", "off"}}},
      {"zero3_in_small_units", "zero3", {{"--unit-mb", "0.05"}, {"--prefetch-units", "2"}}},
      {"zero3_without_prefetching", "zero3", {{"--unit-mb", "0.01"}, {"--prefetch-units", "0"}}},
      {"sharded_hierarchical", "sharded", {{"--hierarchical", "on"}}},
      {"zero3_hierarchical", "zero3", {{"--hierarchical", "on"}, {"--unit-mb", "0.05"}}},
      {"parameter_server_at_rank_0", "parameter_server", {{"--parameter-owners", "rank0"}}},
      {"horovod_small_fusion", "horovod", {{"--deterministic", "on"}, {"--fusion-mb", "0.1"}}},
      {"bsp_ar_avg", "bsp", {{"--exchange", "ar"}, {"--bsp-sync", "avg"}}},
      {"bsp_asa32", "bsp", {{"--exchange", "asa32"}}},
      {"bsp_nccl16", "bsp", {{"--exchange", "nccl16"}}},
      {"bsp_asa16", "bsp", {{"--exchange", "asa16"}}},
      {"bsp_asa_bf16", "bsp", {{"--exchange", "asa32"}, {"--wire", "bf16"}}},
      {"ddp_fp16", "ddp", {{"--wire", "fp16"}}},
      {"ddp_bf16", "ddp", {{"--wire", "bf16"}}},
      {"replicated_fp16", "replicated", {{"--wire", "fp16"}}},
      {"replicated_bf16", "replicated", {{"--wire", "bf16"}, {"--overlap", "off"}}},
      {"ddp_hierarchical", "ddp", {{"--hierarchical", "on"}}},
      {"replicated_hierarchical", "replicated", {{"--hierarchical", "on"}, {"--wire", "bf16"}}},
      {"bsp_hierarchical", "bsp", {{"--hierarchical", "on"}, {"--exchange", "ar"}}},
      {"horovod_hierarchical", "horovod", {{"--hierarchical", "on"}, {"--deterministic", "on"}}},
      {"horovod_fp16", "horovod", {{"--deterministic", "on"}, {"--wire", "fp16"}}},
  };
  std::vector<VerifyCase> cases;
  for (VerifyCase variant : variants) {
    const bool plain = variant.name == variant.strategy;
    for (const int ranks : plain ? std::vector<int>{1, 2, 3, 4, 7} : std::vector<int>{2, 3}) {
      variant.ranks = ranks;
      cases.push_back(variant);
    }
  }
  return cases;
}

std::string name_of(const testing::TestParamInfo<VerifyCase>& info) {
  return info.param.name + "_" + std::to_string(info.param.ranks);
}

/// One rank has nothing that its replica could equal, and local SGD may have no joint batch.
void expect_right(const train::SweepOptions& sweep) {
  const strategies::Traits traits = train::traits_of(train::plan_rows(sweep).front());
  const bool takes_steps_alone = traits.steps_alone > 0;
  const bool has_joint_batch =
      traits.no_joint_batch.empty() && !(takes_steps_alone && sweep.common.grad_clip > 0);
  const auto found = verify(sweep);
  EXPECT_EQ(found.contains("ranks in turn"), takes_steps_alone);
  for (const auto& [name, check] : found) {
    const bool alone = sweep.ranks.front() == 1 && name == "replicas equal";
    const bool not_joint = !has_joint_batch && name == "joint batch";
    EXPECT_EQ(check.outcome, alone || not_joint ? Check::Outcome::kNotApplicable : Check::Outcome::kRight)
        << name << ": " << check.detail;
  }
}

class VerifyTest : public testing::TestWithParam<VerifyCase> {};

TEST_P(VerifyTest, what_is_right_is_said_to_be) {
  expect_right(sweep_of(GetParam()));
}

TEST_P(VerifyTest, accumulated_gradients_and_nesterovs_momentum_are_right) {
  train::SweepOptions sweep = sweep_of(GetParam());
  // A larger network at two ranks; at the other numbers next to nothing is computed.
  sweep.models = {GetParam().ranks == 2 ? "mlp" : "trivial"};
  sweep.common.accumulate = 2;
  sweep.common.nesterov = true;
  sweep.common.learning_rate = 0.025;
  expect_right(sweep);
}

/// A rank that took the norm of its own shard for that of all gradients would leave the joint batch.
TEST_P(VerifyTest, clipped_gradients_are_those_of_the_joint_batch) {
  train::SweepOptions sweep = sweep_of(GetParam());
  sweep.common.grad_clip = 0.05;
  if (GetParam().strategy == "bsp") {
    // No joint batch to compare with: plan_job() refuses the row.
    EXPECT_FALSE(train::traits_of(train::plan_rows(sweep).back()).updates_from_combined_gradients);
  } else {
    expect_right(sweep);
  }
}

INSTANTIATE_TEST_SUITE_P(all, VerifyTest, testing::ValuesIn(verify_cases()), name_of);

// Each rank's statistics are those of its own steps, so this holds with batch norm, too.
TEST(VerifyLocalSgdTest, ranks_in_turn_hold_with_batch_norm) {
  train::SweepOptions sweep = sweep_of({"", "local_sgd", {{"--sync-every", "2"}}, 2});
  sweep.models = {"resnet20"};
  expect_right(sweep);
}

class VerifyBatchNormTest : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(VerifyBatchNormTest, statistics_of_all_ranks_make_a_joint_batch) {
  const auto& [kernels, ranks] = GetParam();
  for (const char* strategy : {"replicated", "ddp", "sharded", "parameter_server", "bsp"}) {
    train::SweepOptions sweep = sweep_of({"", strategy, {{"--sync-batch-norm", "on"}}, ranks});
    sweep.models = {"resnet20"};
    sweep.kernels = {kernels};
    expect_right(sweep);
  }
}

INSTANTIATE_TEST_SUITE_P(all, VerifyBatchNormTest,
                         testing::Combine(testing::Values("fused", "aten"), testing::Values(1, 2, 3)));

TEST(VerifyBatchNormTest, statistics_of_each_rank_are_said_to_make_none) {
  train::SweepOptions sweep = sweep_of({"", "ddp", {}, 2});
  sweep.models = {"resnet20"};
  const Check check = verify(sweep).at("joint batch");
  EXPECT_EQ(check.outcome, Check::Outcome::kNotApplicable);
  EXPECT_THAT(check.detail, testing::HasSubstr("2 x 4 is not 1 x 8"));
}

TEST(VerifyBatchNormTest, a_network_without_batch_norm_refuses_its_statistics) {
  EXPECT_THROW(verify(sweep_of({"", "ddp", {{"--sync-batch-norm", "on"}}, 1})), ConfigError);
}

/// Faults of the communicator; mutants_test has those of the strategy and of the optimizer.
class VerifyFaultTest : public testing::TestWithParam<VerifyCase> {
 protected:
  static std::map<std::string, Check> verify_with(Fault fault) { return verify(sweep_of(GetParam()), fault); }
};

TEST_P(VerifyFaultTest, a_last_place_on_one_rank_is_seen_by_the_equality_of_replicas) {
  const auto found = verify_with(Fault::kLastPlace);
  EXPECT_TRUE(wrong(found.at("replicas equal"))) << found.at("replicas equal").detail;
  EXPECT_THAT(found.at("replicas equal").detail,
              testing::HasSubstr("rank " + std::to_string(GetParam().ranks - 1)));
}

TEST_P(VerifyFaultTest, one_percent_and_a_wrong_divisor_are_seen_by_the_joint_batch) {
  for (const Fault fault : {Fault::kOnePercent, Fault::kDivisor}) {
    const auto found = verify_with(fault);
    EXPECT_FALSE(wrong(found.at("replicas equal")));
    EXPECT_TRUE(wrong(found.at("joint batch"))) << found.at("joint batch").detail;
  }
}

TEST_P(VerifyFaultTest, a_bucket_that_is_not_sent_is_seen) {
  const auto found = verify_with(Fault::kNotSent);
  // A reduction to an owner that is left out leaves every rank with the owner's values.
  const std::set<std::string> owners{"sharded", "zero2", "zero3", "parameter_server"};
  const bool owned = owners.contains(GetParam().strategy);
  EXPECT_EQ(wrong(found.at("replicas equal")), !owned);
  EXPECT_TRUE(wrong(found.at("joint batch")));
}

INSTANTIATE_TEST_SUITE_P(all, VerifyFaultTest, testing::ValuesIn([] {
                           std::vector<VerifyCase> cases = verify_cases();
                           const std::set<std::string> names{"ddp",        "replicated_bf16",
                                                             "sharded",    "ddp_fp16",
                                                             "zero2",      "zero3",
                                                             "horovod",    "bsp",
                                                             "bsp_nccl16", "parameter_server_at_rank_0"};
                           std::erase_if(cases, [&](const VerifyCase& one) {
                             return one.ranks != 3 || !names.contains(one.name);
                           });
                           return cases;
                         }()),
                         name_of);

TEST(VerifyAsyncTest, gradients_applied_as_they_arrive_are_counted) {
  for (const int ranks : {1, 2, 3, 4, 7}) {
    train::SweepOptions sweep = sweep_of({"", "parameter_server", {{"--consistency", "async"}}, ranks});
    // Small enough for gradients as late as a busy machine makes them.
    sweep.common.learning_rate = 0.01;
    std::map<std::string, Check> found = verify(sweep);
    for (const char* name : {"replicas equal", "joint batch", "run to run"}) {
      EXPECT_EQ(found.at(name).outcome, Check::Outcome::kNotApplicable) << name;
      EXPECT_NE(found.at(name).detail, "") << name;
    }
    for (const char* name : {"applied once", "sum of updates", "staleness", "loss falls"}) {
      EXPECT_EQ(found.at(name).outcome, Check::Outcome::kRight) << name << ": " << found.at(name).detail;
    }
  }
}

}  // namespace
}  // namespace lockstep
