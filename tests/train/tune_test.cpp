#include "lockstep/train/rows/tune.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "strategies/recording_communicator.h"
#include "strategies/trained_replica.h"
#include "train/busy_machine.h"
#include "train/slow_link.h"

namespace lockstep {
namespace {

using results::BucketTuning;

/// lenet5's gradients.
constexpr double kPayloadMb = 61706 * 4.0 / (1 << 20);

train::RowPlan tuned_row(const std::string& strategy, double bucket_mb, int batch) {
  train::SweepOptions sweep;
  sweep.models = {"lenet5"};
  sweep.batches = {batch};
  sweep.ranks = {2};
  sweep.strategies = {strategy};
  sweep.bucket_mb = {bucket_mb};
  sweep.controls = false;
  return train::plan_rows(sweep).front();
}

/// Found on two ranks over a link of known cost; [rank].
std::vector<BucketTuning> tuned(const train::RowPlan& row, const test::LinkCost& cost) {
  std::vector<BucketTuning> found(2);
  test::with_thread_ranks(2, [&](comm::Communicator& group) {
    test::SlowLink link(group, cost);
    launch::Progress progress;
    found[static_cast<size_t>(group.rank())] = train::tune_buckets(
        row, &link, progress, train::TuningPlan{.blocks = 20, .steps = 3, .least_mb = 0.02});
  });
  return found;
}

class TuneTest : public testing::TestWithParam<const char*> {};

TEST_P(TuneTest, a_link_on_which_messages_cost_makes_the_best_cap_large) {
  // Several messages of 20 KiB or a tensor against one, and hardly anything to hide them behind.
  test::expect_once([] {
    const auto found = tuned(tuned_row(GetParam(), 0.02, 2), {.s_per_message = 5e-3});
    EXPECT_EQ(found[1].chosen_mb, found[0].chosen_mb) << "the ranks do not agree";
    const bool right = found[0].chosen_mb > 0.02 && found[0].speedup.value_or(0) > 1;
    return right ? "" : fmt::format("{} MiB is chosen: {}", found[0].chosen_mb, found[0].reason);
  });
}

TEST_P(TuneTest, a_link_on_which_bytes_cost_makes_it_small) {
  // One bucket goes when backward is over; of several the first go while the convolutions are at work.
  test::expect_once([] {
    const auto found = tuned(tuned_row(GetParam(), 25, 64), {.s_per_byte = 80e-9});
    EXPECT_EQ(found[0].default_mb, 25);
    EXPECT_EQ(found[1].chosen_mb, found[0].chosen_mb) << "the ranks do not agree";
    return found[0].best_mb < kPayloadMb ? "" : fmt::format("{} MiB is best", found[0].best_mb);
  });
}

INSTANTIATE_TEST_SUITE_P(all, TuneTest, testing::Values("ddp", "replicated"),
                         [](const auto& named) { return std::string(named.param); });

TEST(TuningPlanTest, what_is_planned_fits_into_the_budget) {
  for (const double budget_s : {0.0, 0.5, 5.0, 60.0, 600.0}) {
    for (const double setup_s : {0.0, 0.01, 1.0}) {
      for (const double step_s : {0.001, 0.1, 1.0, 10.0}) {
        const train::TuningPlan plan = train::plan_tuning(budget_s, setup_s, step_s);
        EXPECT_GE(plan.steps, 3);
        EXPECT_GE(plan.blocks, 0);
        EXPECT_LE(plan.blocks * (setup_s + (2 + plan.steps) * step_s), budget_s + 1e-9);
      }
    }
  }
  // A network of a tenth of a second has blocks enough for a whole search in the usual minute.
  EXPECT_GE(train::plan_tuning(60, 0.2, 0.1).blocks, 30);
  EXPECT_EQ(train::plan_tuning(-1, 0.1, 0.1).blocks, 0);
}

TEST(TuningPlanTest, only_rows_that_send_buckets_have_a_cap_to_tune) {
  for (const std::string& strategy : strategies::registry().names()) {
    train::RowPlan row;
    row.strategy = strategy;
    row.ranks = 2;
    const std::vector<std::string> with_buckets{"ddp", "replicated", "sharded", "parameter_server"};
    const bool expected = std::ranges::find(with_buckets, strategy) != with_buckets.end();
    EXPECT_EQ(train::has_cap_to_tune(row), expected) << strategy;
    row.ranks = 1;
    EXPECT_FALSE(train::has_cap_to_tune(row)) << strategy;
  }
}

TEST(TuningPlanTest, every_strategy_with_buckets_sends_more_of_them_under_a_smaller_cap) {
  for (const std::string& strategy : strategies::registry().names()) {
    const bool has_buckets = strategies::registry().get(strategy).traits({}).has_buckets;
    test::with_thread_ranks(2, [&](comm::Communicator& group) {
      std::vector<size_t> calls;
      for (const double bucket_mb : {25.0, 0.02}) {
        test::RecordingCommunicator recording(group);
        const bool communicates = strategies::registry().get(strategy).traits({}).communicates;
        test::TrainedReplica replica =
            test::make_replica({.model = "lenet5",
                                .strategy = strategy,
                                .strategy_options = {.bucket_mb = bucket_mb, .deterministic = true}},
                               communicates ? &recording : nullptr);
        replica.communicator = &group;
        replica.train(2);
        recording.forget();
        replica.train(1);
        calls.push_back(recording.calls().size());
      }
      EXPECT_EQ(calls[1] > calls[0], has_buckets) << strategy;
    });
  }
}

}  // namespace
}  // namespace lockstep
