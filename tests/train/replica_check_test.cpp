#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/train/rows/agreement.h"
#include "lockstep/train/rows/row_runner.h"

#include "strategies/trained_replica.h"
#include "train/faulty_communicator.h"

namespace lockstep {
namespace {

using test::Fault;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

train::RowPlan checked_row_of(const std::string& strategy, int ranks, int verify_every) {
  train::SweepOptions sweep;
  sweep.models = {"lenet5"};
  sweep.batches = {2};
  sweep.ranks = {ranks};
  sweep.strategies = {strategy};
  sweep.controls = false;
  sweep.pacing = {.warmup_steps = 2, .steps = 6};
  train::RowPlan row = train::plan_rows(sweep).front();
  row.verify_every = verify_every;
  return row;
}

struct Case {
  const char* strategy;
  int ranks;
};

void PrintTo(const Case& value, std::ostream* out) {
  *out << value.strategy << " at " << value.ranks;
}

class ReplicaCheckTest : public testing::TestWithParam<Case> {};

/// The ranks' message when one reduction of eight steps is spoilt. Compared are the second step, the
/// fifth and the eighth: one that is not timed follows each.
std::vector<std::string> errors_after(const Case& chosen, Fault fault, int step) {
  std::vector<std::string> errors(static_cast<size_t>(chosen.ranks));
  test::with_thread_ranks(chosen.ranks, [&](comm::Communicator& real) {
    test::FaultyCommunicator group(real, fault, [step](int reduction) { return reduction == step - 1; });
    launch::Progress progress;
    const train::RowPlan row = checked_row_of(chosen.strategy, chosen.ranks, 2);
    try {
      train::run_row(row, &group, progress);
    } catch (const Error& error) {
      errors[static_cast<size_t>(group.rank())] = error.what();
    }
  });
  return errors;
}

TEST_P(ReplicaCheckTest, a_last_place_on_one_rank_ends_the_run_and_is_named) {
  const auto [strategy, ranks] = GetParam();
  EXPECT_THAT(errors_after(GetParam(), Fault::kLastPlace, 5),
              Each(AllOf(HasSubstr(std::string("the replicas of ") + strategy + " differ after step 5: "),
                         HasSubstr("rank " + std::to_string(ranks - 1) + " has other bits than rank 0"))));
}

TEST_P(ReplicaCheckTest, what_moves_parameters_apart_is_found_at_the_next_comparison) {
  EXPECT_THAT(errors_after(GetParam(), Fault::kNotSent, 4), Each(HasSubstr(" differ after step 5: ")));
  EXPECT_THAT(errors_after(GetParam(), Fault::kNotSent, 6), Each(HasSubstr(" differ after step 8: ")));
}

TEST_P(ReplicaCheckTest, without_a_comparison_nobody_notices) {
  const auto [strategy, ranks] = GetParam();
  test::with_thread_ranks(ranks, [&](comm::Communicator& real) {
    test::FaultyCommunicator group(real, Fault::kLastPlace, [](int reduction) { return reduction == 3; });
    launch::Progress progress;
    const train::RowPlan row = checked_row_of(strategy, ranks, 0);
    const train::RowResult result = train::run_row(row, &group, progress);
    EXPECT_EQ(result.replica_checks, 0);
  });
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const char* strategy : {"ddp", "replicated"}) {
    for (const int ranks : {2, 3, 4, 7}) cases.push_back({strategy, ranks});
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(all, ReplicaCheckTest, testing::ValuesIn(all_cases()), [](const auto& named) {
  return std::string(named.param.strategy) + "_" + std::to_string(named.param.ranks);
});

/// For every strategy: as many comparisons as were asked for and one at the end, or why there are none; and
/// as many timed steps as without.
TEST(ReplicaChecksTest, every_strategy_is_compared_or_says_why_not) {
  for (const std::string& strategy : strategies::registry().names()) {
    const strategies::Traits traits = strategies::registry().get(strategy).traits({});
    // A strategy with all devices in one process trains in one rank.
    const int training = strategy == "single" || traits.one_process ? 1 : 2;
    const int ranks = strategy == "single" ? 1 : 2;
    test::with_thread_ranks(training, [&](comm::Communicator& group) {
      launch::Progress progress;
      for (const int every : {1, 3, 4, 100}) {
        const train::RowPlan row = checked_row_of(strategy, ranks, every);
        const train::RowResult result = train::run_row(row, training == 1 ? nullptr : &group, progress);
        if (result.ranks.empty()) continue;
        EXPECT_GE(result.ranks[0].step_s.size(), 6u) << strategy;
        if (train::why_not_comparable(traits, training).empty()) {
          EXPECT_EQ(result.replica_checks, (8 + every - 1) / every) << strategy << " every " << every;
          EXPECT_EQ(result.why_not_compared, "") << strategy;
        } else {
          EXPECT_EQ(result.replica_checks, 0) << strategy;
          EXPECT_NE(result.why_not_compared, "") << strategy;
        }
      }
    });
  }
}

TEST(ReplicaChecksTest, what_cannot_be_compared_has_a_reason) {
  strategies::Traits traits;
  EXPECT_EQ(train::why_not_comparable(traits, 2), "");
  EXPECT_EQ(train::why_not_comparable(traits, 1), "there is one replica");
  traits.coupled = false;
  EXPECT_EQ(train::why_not_comparable(traits, 2), "its replicas go their own ways");
  traits = {.replicas_equal = false};
  EXPECT_EQ(train::why_not_comparable(traits, 2), "its replicas go their own ways");
}

}  // namespace
}  // namespace lockstep
